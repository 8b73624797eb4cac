#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""ls, stat, get, put, rm and mkdir against the project's own server: trees, loss, restarts."""
import json
import os
import random
import signal
import socket
import struct
import subprocess
import threading
import time

from cli import (BINARY, CANNOT, DONE, FINDING, USAGE, Serving, check, equal, holdfast, run,
                 write)


def serving(work, port=0, options='rw,no_root_squash,insecure'):
    return Serving('--state', f'{work}/state', '--portmap', 'off', '--bind', '127.0.0.1', '--bind',
                   '::1', '--port', port, f'{work}/export({options})')


def url(work, port, path='', words='', host='127.0.0.1'):
    return f'nfs://{host}:{port}{work}/export{path}' + (f'?{words}' if words else '')


def make_tree(path, files, seed):
    """Directories, files of all sizes, links, odd names and modes."""
    r = random.Random(seed)
    directories = [path]
    os.makedirs(path)
    for i in range(files):
        if i % 12 == 0:
            directories.append(f'{r.choice(directories)}/dir {i}')
            os.mkdir(directories[-1])
        name = f'{r.choice(directories)}/{r.choice("abcdefg")}{i}' + r.choice(['', '.c', ' ü', '%'])
        with open(name, 'wb') as file:
            file.write(r.randbytes(r.choice([0, 1, 100, 4096, 10000, 70000, 300000])))
        os.chmod(name, r.choice([0o644, 0o755, 0o600, 0o444]))
        os.utime(name, (1e9 + i, 1.1e9 + i))
    for i in range(5):
        os.symlink(r.choice(['nowhere', 'a', '../x', '/etc/passwd']), f'{directories[i]}/link{i}')


def same(one, two, what):
    done = subprocess.run(['diff', '-r', '--no-dereference', one, two], capture_output=True,
                          text=True, check=False)
    equal(done.returncode, 0, f'{what}: diff -r says {done.stdout[:500]}')


def modes_and_times(path):
    out = {}
    for above, directories, files in os.walk(path):
        for name in directories + files:
            full = os.path.join(above, name)
            stat = os.lstat(full)
            if not os.path.islink(full):
                out[os.path.relpath(full, path)] = (stat.st_mode, int(stat.st_mtime))
    return out


class Lossy:
    """A UDP proxy before a server that loses part of the datagrams, both ways, and calls that
    `lets` says no of."""

    def __init__(self, port, loss, seed, lets=lambda call: True):
        self.random, self.loss, self.lost = random.Random(seed), loss, 0
        self.lets, self.passed = lets, 0
        self.server = ('127.0.0.1', port)
        self.front = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            self.front.setsockopt(socket.SOL_SOCKET, option, 1 << 22)
        self.front.bind(('127.0.0.1', 0))
        self.port, self.backs = self.front.getsockname()[1], {}

    def loses(self):
        self.lost += (lost := self.random.random() < self.loss)
        return lost

    def backwards(self, back, client):
        while True:
            try:
                data = back.recv(65536)
            except OSError:
                return
            if not self.loses():
                self.front.sendto(data, client)

    def forwards(self):
        while True:
            try:
                data, client = self.front.recvfrom(65536)
            except OSError:
                return
            if client not in self.backs:
                back = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                back.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
                back.connect(self.server)
                self.backs[client] = back
                threading.Thread(target=self.backwards, args=(back, client), daemon=True).start()
            if self.lets(data) and not self.loses():
                self.passed += 1
                self.backs[client].send(data)

    def __enter__(self):
        threading.Thread(target=self.forwards, daemon=True).start()
        return self

    def __exit__(self, *_):
        for one in (self.front, *self.backs.values()):
            one.close()


def only_v2(call):
    """NFS version 2, or MOUNT version 1."""
    return struct.unpack('>2I', call[12:20]) in ((100003, 2), (100005, 1))


# ---- trees -----------------------------------------------------------------------------------

def a_tree_goes_there_and_back(work):
    make_tree(f'{work}/tree', 200, 1)
    with serving(work) as server:
        for host, words in (('127.0.0.1', ''), ('[::1]', ''), ('127.0.0.1', 'proto=udp'),
                            ('[::1]', 'proto=udp&rsize=1024&wsize=1024')):
            def at(path):
                return url(work, server.port, path, words, host)
            holdfast('put', '-r', '-p', f'{work}/tree', at('/')).ends(DONE)
            same(f'{work}/tree', f'{work}/export/tree', f'put {host} {words}')
            equal(modes_and_times(f'{work}/export/tree'), modes_and_times(f'{work}/tree'), 'put -p')
            holdfast('get', '-r', '-p', at('/tree'), f'{work}/back').ends(DONE)
            same(f'{work}/tree', f'{work}/back', f'get {host} {words}')
            equal(modes_and_times(f'{work}/back'), modes_and_times(f'{work}/tree'), 'get -p')
            holdfast('rm', '-r', at('/tree')).ends(DONE)
            equal(os.listdir(f'{work}/export'), [], 'what rm -r left')
            subprocess.run(['rm', '-r', f'{work}/back'], check=True)


def a_tree_goes_there_and_back_by_version_2(work):
    """500 files in pieces of 8 KiB; and nothing but NFSv2 and MOUNT v1 is spoken: a server that is
    asked for version 3 through this proxy does not answer."""
    make_tree(f'{work}/tree', 500, 4)
    with serving(work, options='rw,async,no_root_squash,insecure') as server:
        with Lossy(server.port, 0, 0, only_v2) as proxy:
            for port, host, words in ((proxy.port, '127.0.0.1', 'vers=2&proto=udp'),
                                      (server.port, '[::1]', 'version=2'),
                                      (server.port, '127.0.0.1', 'vers=2&rsize=1000&wsize=3000')):
                def at(path):
                    return url(work, port, path, words, host)
                holdfast('put', '-r', '-p', f'{work}/tree', at('/'), timeout=300).ends(DONE)
                same(f'{work}/tree', f'{work}/export/tree', f'put {words}')
                equal(modes_and_times(f'{work}/export/tree'), modes_and_times(f'{work}/tree'),
                      'put -p')
                holdfast('get', '-r', '-p', at('/tree'), f'{work}/back', timeout=300).ends(DONE)
                same(f'{work}/tree', f'{work}/back', f'get {words}')
                equal(modes_and_times(f'{work}/back'), modes_and_times(f'{work}/tree'), 'get -p')
                holdfast('rm', '-r', at('/tree'), timeout=300).ends(DONE)
                equal(os.listdir(f'{work}/export'), [], 'what rm -r left')
                subprocess.run(['rm', '-r', f'{work}/back'], check=True)
            check(proxy.passed > 5000, f'only {proxy.passed} datagrams came through the proxy')


def five_percent_loss(work):
    make_tree(f'{work}/tree', 120, 2)
    with serving(work) as server, Lossy(server.port, 0.05, 3) as proxy:
        for words in ('proto=udp', 'proto=udp&vers=2'):
            before = proxy.lost
            at = url(work, proxy.port, '', words)
            holdfast('put', '-r', f'{work}/tree', at.replace('?', '/?'), timeout=300).ends(DONE)
            same(f'{work}/tree', f'{work}/export/tree', f'put, {words}')
            holdfast('get', '-r', at.replace('?', '/tree?'), f'{work}/back',
                     timeout=300).ends(DONE)
            same(f'{work}/tree', f'{work}/back', f'get, {words}')
            check(proxy.lost - before > 50, f'only {proxy.lost - before} datagrams were lost')
            subprocess.run(['rm', '-r', f'{work}/back', f'{work}/export/tree'], check=True)


def restarts_during(work, server, command, sign, count):
    """Kills and restarts the server while a command runs, from when `sign` exists. Returns the
    server that runs then."""
    copying = subprocess.Popen([BINARY, *command], stderr=subprocess.PIPE, text=True)
    while copying.poll() is None and not os.path.exists(sign):
        time.sleep(0.01)
    stops = 0
    while copying.poll() is None and stops < count:
        server.stop(signal.SIGKILL)
        stops += 1
        time.sleep(0.2)
        server = serving(work, server.port)
        server.__enter__()
        time.sleep(0.2)
    _, err = copying.communicate(timeout=120)
    equal((copying.returncode, err), (DONE, ''), command[0])
    check(stops > 0, f'{command[0]}: it never was midway')
    return server


def the_server_restarts_midway(work):
    make_tree(f'{work}/tree', 250, 4)
    with open(f'{work}/tree/big', 'wb') as file:
        file.write(random.Random(5).randbytes(48 << 20))
    server = serving(work)
    server.__enter__()
    try:
        server = restarts_during(work, server, ['put', '-r', f'{work}/tree',
                                                url(work, server.port, '/')],
                                 f'{work}/export/tree', 4)
        same(f'{work}/tree', f'{work}/export/tree', 'put')
        server = restarts_during(work, server, ['get', '-r', url(work, server.port, '/tree'),
                                                f'{work}/back'], f'{work}/back', 4)
        same(f'{work}/tree', f'{work}/back', 'get')
    finally:
        server.__exit__()


# ---- commands --------------------------------------------------------------------------------

def ls_and_stat_say_what_is_there(work):
    os.mkdir(f'{work}/export/d')
    write(f'{work}/export/d/file', 'x' * 1234)
    os.chmod(f'{work}/export/d/file', 0o4751)
    os.utime(f'{work}/export/d/file', ns=(5 * 10**9 + 1, 1700000000 * 10**9 + 123456789))
    os.symlink('file', f'{work}/export/d/link')
    os.mkfifo(f'{work}/export/d/pipe')
    with serving(work) as server:
        equal(holdfast('ls', url(work, server.port, '/d')).ends(DONE).out, 'file\nlink\npipe\n',
              'ls')
        long = holdfast('ls', '-l', url(work, server.port, '/d')).ends(DONE).out.splitlines()
        check(long[0].startswith('-rwsr-x--x ') and ' 1234 ' in long[0], long[0])
        check(long[1].startswith('l') and long[1].endswith('link -> file'), long[1])
        check(long[2].startswith('p'), long[2])
        said = holdfast('stat', '--json', url(work, server.port, '/d/file')).ends(DONE)
        one, stat = json.loads(said.out)['objects'][0], os.stat(f'{work}/export/d/file')
        equal((one['mode'], one['size'], one['uid'], one['fileid'], one['nlink']),
              (0o4751, 1234, stat.st_uid, stat.st_ino, 1), 'stat')
        equal(one['mtime'], {'seconds': 1700000000, 'nseconds': 123456789}, 'mtime')
        check(2 * 4 <= len(one['handle']) <= 128, one['handle'])
        equal(holdfast('ls', f'nfs://127.0.0.1:{server.port}/').ends(DONE).out.split()[0],
              f'{work}/export', 'the exports of a host')
        equal(holdfast('ls', '-d', url(work, server.port, '/d')).ends(DONE).out, 'd\n', 'ls -d')


def version_2_says_what_it_can(work):
    """Kinds, device numbers, and a size that is more than 32 bits."""
    os.mkfifo(f'{work}/export/pipe')
    os.mknod(f'{work}/export/tty', 0o020640, os.makedev(4, 65))
    os.symlink('to/where', f'{work}/export/link')
    with open(f'{work}/export/large', 'wb') as file:
        file.truncate(5 << 30)
    with serving(work) as server:
        def at(path, words='vers=2'):
            return url(work, server.port, path, words)
        lines = holdfast('ls', '-l', at('/')).ends(DONE).out.splitlines()
        for line, start, rest in zip(lines, '-lpc', ('4294967295', 'link -> to/where', 'pipe',
                                                      '   4,   65 ')):
            check(line[0] == start and rest in line, line)
        one = json.loads(holdfast('stat', '--json', at('/pipe')).ends(DONE).out)['objects'][0]
        equal((one['type'], one['fileid'], len(one['handle'])),
              ('fifo', os.stat(f'{work}/export/pipe').st_ino, 64), 'stat')
        equal(holdfast('ls', f'nfs://127.0.0.1:{server.port}/?vers=2').ends(DONE).out.split()[0],
              f'{work}/export', 'the exports of a host, by MOUNT version 1')
        holdfast('ls', at('/none')).ends(FINDING).says('NOENT')
        holdfast('mkdir', '-p', at('/a/b')).ends(DONE)
        holdfast('rm', at('/a')).ends(FINDING).says('ISDIR')
        holdfast('rm', '-r', at('/a')).ends(DONE)
        check(not os.path.exists(f'{work}/export/a'), 'rm -r')
        write(f'{work}/export/middle', 'x' * 100000)
        equal(holdfast('get', at('/middle'), '-').ends(DONE).out, 'x' * 100000, 'get')
        holdfast('ls', at('/', 'vers=4')).ends(USAGE).says('version is 2 or 3')


def targets_are_chosen_as_cp_does(work):
    write(f'{work}/one', '1')
    write(f'{work}/two', '2')
    os.mkdir(f'{work}/export/d')
    os.mkdir(f'{work}/local')
    with serving(work) as server:
        def at(path):
            return url(work, server.port, path)
        holdfast('put', f'{work}/one', at('/d')).ends(DONE)
        holdfast('put', f'{work}/one', at('/d/renamed')).ends(DONE)
        holdfast('put', f'{work}/one', f'{work}/two', at('/d/')).ends(DONE)
        equal(sorted(os.listdir(f'{work}/export/d')), ['one', 'renamed', 'two'], 'put')
        holdfast('put', f'{work}/one', f'{work}/two', at('/d/one')).ends(FINDING).says(
            'NFS3ERR_NOTDIR')
        holdfast('put', f'{work}/one', at('/none/')).ends(FINDING).says('NFS3ERR_NOENT')
        holdfast('put', f'{work}/none', f'{work}/two', at('/d/')).ends(FINDING).says('none')
        holdfast('put', f'{work}/local', at('/d')).ends(FINDING).says('s a directory')
        holdfast('get', at('/d/two'), f'{work}/local').ends(DONE)
        holdfast('get', at('/d/two'), f'{work}/local/three').ends(DONE)
        equal(sorted(os.listdir(f'{work}/local')), ['three', 'two'], 'get')
        holdfast('get', at('/d')).ends(FINDING).says('NFS3ERR_ISDIR')
        equal(holdfast('get', at('/d/two'), '-').ends(DONE).out, '2', 'get to standard output')
        data = os.urandom(3000000)
        subprocess.run([BINARY, 'put', '-', at('/d/piped')], input=data, check=True)
        with open(f'{work}/export/d/piped', 'rb') as file:
            check(file.read() == data, 'put of standard input')
        got = subprocess.run([BINARY, 'get', at('/d/piped'), '-'], capture_output=True, check=True)
        check(got.stdout == data, 'get to a pipe')


def directories_are_made_and_removed(work):
    with serving(work) as server:
        def at(path):
            return url(work, server.port, path)
        holdfast('mkdir', at('/a/b')).ends(FINDING).says('NFS3ERR_NOENT')
        holdfast('mkdir', '-p', '-m', '700', at('/a/b/c')).ends(DONE)
        equal(os.stat(f'{work}/export/a/b/c').st_mode & 0o7777, 0o700, 'mode')
        holdfast('mkdir', '-p', at('/a/b/c')).ends(DONE)
        holdfast('mkdir', at('/a')).ends(FINDING).says('NFS3ERR_EXIST')
        holdfast('rm', at('/a')).ends(FINDING).says('NFS3ERR_ISDIR')
        holdfast('rm', at('/none')).ends(FINDING).says('NFS3ERR_NOENT')
        holdfast('rm', '-f', at('/none')).ends(DONE)
        for i in range(300):
            write(f'{work}/export/a/b/{i}', 'x')
        holdfast('rm', '-r', at('/a')).ends(DONE)
        equal(os.listdir(f'{work}/export'), [], 'what is left')
        holdfast('rm', '-r', at('')).ends(FINDING).says('NFS3ERR_PERM')


def nothing_is_copied_onto_itself(work):
    """Where the export is also a path here: the file would be emptied before it is read."""
    export = f'{work}/export'
    os.makedirs(f'{export}/tree/below')
    for name in ('big', 'tree/file', 'tree/below/file'):
        write(f'{export}/{name}', 'words ' * 5000)
    with serving(work) as server:
        for words in ('', 'vers=2'):
            def at(path):
                return url(work, server.port, path, words)
            holdfast('put', f'{export}/big', at('/big')).ends(FINDING).says('not copied')
            holdfast('get', at('/big'), f'{export}/big').ends(FINDING).says('not copied')
            for path in (f'{export}/tree', f'{export}/tree/'):
                holdfast('put', '-r', path, at('/')).ends(FINDING).says('not copied')
                holdfast('get', '-r', at('/tree'), export).ends(FINDING).says('not copied')
            holdfast('put', '-r', f'{export}/tree', at('/tree')).ends(FINDING).says('not copied')
            holdfast('get', '-r', at('/tree'), f'{export}/tree').ends(FINDING).says('not copied')
            holdfast('put', f'{export}/tree/file', at('/tree/below/file')).ends(DONE)
    for name in ('big', 'tree/file', 'tree/below/file'):
        with open(f'{export}/{name}', encoding='ascii') as file:
            equal(file.read(), 'words ' * 5000, name)
    depth = max(path.count('/') for path, _, _ in os.walk(export)) - export.count('/')
    check(depth < 5, f'{depth} directories deep')


def what_cannot_be_written_or_read_is_a_failure(work):
    with serving(work) as server:
        write(f'{work}/export/file', 'words\n')
        at = url(work, server.port, '/file')
        for command in (f'get {at} - >&-', f'get {at} - >/dev/full', f'ls -l {at} >&-',
                        f'ls -l {at} >/dev/full', f'stat {at} >/dev/full', f'put - {at}2 <&-',
                        f'get {at} - <&- >&- 2>&-', 'exports --help >/dev/full'):
            done = subprocess.run(['sh', '-c', f'"$0" {command}', BINARY], check=False,
                                  timeout=20, capture_output=True)
            check(done.returncode != 0, f'{command}: {done}')
        os.umask(0o022)
        subprocess.run(['sh', '-c', f'echo words | "$0" put - {at}3', BINARY], check=True,
                       timeout=20)
        equal(os.stat(f'{work}/export/file3').st_mode & 0o7777, 0o644, 'mode by a pipe')


def rm_refuses_dots(work):
    """As rm(1): they would be emptied before the server could say no."""
    os.mkdir(f'{work}/export/sub')
    write(f'{work}/export/sub/file', 'words')
    with serving(work) as server:
        for path in ('/sub/..', '/.', '/sub/.', '/../..', '/sub/%2e%2e'):
            holdfast('rm', '-r', url(work, server.port, path)).ends(FINDING).says('refused')
        holdfast('rm', '-r', url(work, server.port)).ends(FINDING).says('PERM')
    equal(os.listdir(f'{work}/export/sub'), ['file'], 'what is left')


def what_cannot_be_reached_is_told_at_once(work):
    with serving(work) as server:
        holdfast('ls', f'nfs://127.0.0.1:{server.port}/no/export').ends(FINDING).says('MNT3ERR')
        holdfast('ls', url(work, server.port, '', 'colour=red')).ends(USAGE).says("'colour'")
        port = server.port
    for words in ('', 'proto=udp'):
        started = time.monotonic()
        holdfast('ls', url(work, port, '', words)).ends(CANNOT).says('127.0.0.1', 'refused')
        check(time.monotonic() - started < 10, 'it took long')
    holdfast('ls', 'nfs://no.such.host.invalid/e').ends(CANNOT).says('no.such.host.invalid')
    for command in ('ls', 'stat', 'get', 'put', 'rm', 'mkdir'):
        holdfast(command).ends(USAGE).says('usage:')
        holdfast(command, '--frobnicate').ends(USAGE).says('--frobnicate', f'{command} --help')
        lines = holdfast(command, '--help').ends(DONE).out.splitlines()
        check(len(lines) <= 24 and all(len(line) <= 90 for line in lines), f'{command} --help')


if __name__ == '__main__':
    run([a_tree_goes_there_and_back, a_tree_goes_there_and_back_by_version_2, five_percent_loss,
         the_server_restarts_midway, ls_and_stat_say_what_is_there, version_2_says_what_it_can,
         targets_are_chosen_as_cp_does, directories_are_made_and_removed,
         nothing_is_copied_onto_itself, what_cannot_be_written_or_read_is_a_failure,
         rm_refuses_dots, what_cannot_be_reached_is_told_at_once])
