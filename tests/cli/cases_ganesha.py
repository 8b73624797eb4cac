#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The client's commands against a server that is not ours, nfs-ganesha, with a portmapper that is
not ours; and libnfs, a client that is not ours, as the judge of what was copied."""
import contextlib
import ctypes
import ctypes.util
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time

from cases_files import make_tree, same
from cli import BINARY, DONE, SKIPPED, Serving, check, equal, holdfast, own_namespaces, quiet, run

CONFIG = '''
NFS_CORE_PARAM {{ Protocols = 3; NFS_Port = 2049; MNT_Port = 20048;
    Enable_NLM = false; Enable_RQUOTA = false; Enable_UDP = true; mount_path_pseudo = false; }}
NFSv4 {{ RecoveryBackend = fs; }}
EXPORT {{ Export_Id = 1; Path = {work}/export; Pseudo = {work}/export; Access_Type = RW;
    Squash = No_Root_Squash; SecType = sys; Protocols = 3; Transports = TCP, UDP;
    FSAL {{ Name = VFS; }} }}
LOG {{ Default_Log_Level = EVENT; }}
'''


def listens(port):
    with contextlib.suppress(OSError), socket.create_connection(('127.0.0.1', port), 0.2):
        return True
    return False


def until(condition, what, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        check(time.monotonic() < end, what)
        time.sleep(0.05)


class Ganesha:
    """The server, with rpcbind; `with` ends both."""

    def __init__(self, work):
        self.work, self.process = work, None
        with open(f'{work}/ganesha.conf', 'w', encoding='utf-8') as file:
            file.write(CONFIG.format(work=work))
        os.makedirs('/run/ganesha', exist_ok=True)
        self.rpcbind = subprocess.Popen(['rpcbind', '-w', '-f'], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            until(lambda: listens(111), 'rpcbind does not listen')
            self.start()
        except BaseException:
            self.__exit__()
            raise

    def start(self):
        self.process = subprocess.Popen(
            ['ganesha.nfsd', '-F', '-f', f'{self.work}/ganesha.conf', '-p', f'{self.work}/pid',
             '-L', f'{self.work}/ganesha.log', '-N', 'NIV_EVENT'], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(lambda: subprocess.run(['rpcinfo', '-t', '127.0.0.1', '100005', '3'], check=False,
                                     capture_output=True).returncode == 0,
              'nfs-ganesha does not register')

    def restart(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in filter(None, (self.process, self.rpcbind)):
            process.kill()
            process.wait()

    def url(self, path='', words=''):
        return f'nfs://127.0.0.1{self.work}/export{path}' + (f'?{words}' if words else '')


@contextlib.contextmanager
def losing(percent):
    """Datagrams of this namespace are lost by chance, on both ways."""
    rules = (f'table inet t {{\nchain c {{\ntype filter hook input priority 0\n'
             f'udp dport != 111 numgen random mod 100 < {percent} drop\n}}\n}}\n')
    subprocess.run(['nft', '-f', '-'], input=rules, text=True, check=True)
    try:
        yield
    finally:
        subprocess.run(['nft', 'delete', 'table', 'inet', 't'], check=True)


class Libnfs:
    """The few calls of libnfs that read and write a whole file."""

    def __init__(self, url):
        name = ctypes.util.find_library('nfs')
        check(name, 'no libnfs')
        self.lib = ctypes.CDLL(name)
        for function in ('nfs_init_context', 'nfs_parse_url_full', 'nfs_get_error'):
            getattr(self.lib, function).restype = ctypes.c_void_p
        self.context = ctypes.c_void_p(self.lib.nfs_init_context())
        parts = ctypes.cast(self.lib.nfs_parse_url_full(self.context, url.encode()),
                            ctypes.POINTER(ctypes.c_char_p * 3))
        server, path, self.file = list(parts.contents)
        self.must(self.lib.nfs_mount(self.context, server, path), 'mount')

    def must(self, result, what):
        text = self.lib.nfs_get_error(self.context) if result < 0 else None
        check(result >= 0, f'libnfs {what}: {result}, {ctypes.string_at(text) if text else "?"}')
        return result

    def read(self):
        handle, data = ctypes.c_void_p(), b''
        self.must(self.lib.nfs_open(self.context, self.file, os.O_RDONLY, ctypes.byref(handle)),
                  'open')
        buffer = ctypes.create_string_buffer(1 << 20)
        while True:
            size = self.must(self.lib.nfs_pread(self.context, handle,
                                                ctypes.c_uint64(len(data)),
                                                ctypes.c_uint64(len(buffer)), buffer), 'read')
            if size == 0:
                return data
            data += buffer.raw[:size]

    def write(self, data):
        handle = ctypes.c_void_p()
        self.must(self.lib.nfs_creat(self.context, self.file, 0o644, ctypes.byref(handle)),
                  'create')
        for at in range(0, len(data), 100000):
            part = data[at:at + 100000]
            self.must(self.lib.nfs_pwrite(self.context, handle, ctypes.c_uint64(at),
                                          ctypes.c_uint64(len(part)), part), 'write')
        self.must(self.lib.nfs_close(self.context, handle), 'close')

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.lib.nfs_destroy_context(self.context)


def trees_over_tcp_and_udp(work):
    make_tree(f'{work}/tree', 1000, 11)
    with Ganesha(work) as server:
        for words in ('', 'proto=udp'):
            holdfast('put', '-r', '-p', f'{work}/tree', server.url('/', words),
                     timeout=150).ends(DONE)
            same(f'{work}/tree', f'{work}/export/tree', f'put {words}')
            holdfast('get', '-r', server.url('/tree', words), f'{work}/back',
                     timeout=150).ends(DONE)
            same(f'{work}/tree', f'{work}/back', f'get {words}')
            holdfast('rm', '-r', server.url('/tree', words), timeout=150).ends(DONE)
            equal(os.listdir(f'{work}/export'), [], 'what is left')
            shutil.rmtree(f'{work}/back')


def five_percent_loss(work):
    make_tree(f'{work}/tree', 400, 12)
    with Ganesha(work) as server, losing(5):
        holdfast('put', '-r', f'{work}/tree', server.url('/', 'proto=udp'), timeout=300).ends(DONE)
        same(f'{work}/tree', f'{work}/export/tree', 'put')
        holdfast('get', '-r', server.url('/tree', 'proto=udp'), f'{work}/back',
                 timeout=300).ends(DONE)
        same(f'{work}/tree', f'{work}/back', 'get')


def the_server_restarts_midway(work):
    make_tree(f'{work}/tree', 600, 13)
    with open(f'{work}/tree/big', 'wb') as file:
        file.write(random.Random(14).randbytes(200 << 20))
    with Ganesha(work) as server:
        for command, sign in ((['put', '-r', f'{work}/tree', server.url('/')],
                               f'{work}/export/tree'),
                              (['get', '-r', server.url('/tree'), f'{work}/back'],
                               f'{work}/back/big')):
            copying = subprocess.Popen([BINARY, *command], stderr=subprocess.PIPE, text=True)
            until(lambda: os.path.exists(sign) or copying.poll() is not None, 'no sign of copying')
            check(copying.poll() is None, f'{command[0]}: it never was midway')
            server.restart()
            equal((copying.communicate(timeout=150)[1], copying.returncode), ('', DONE),
                  command[0])
        same(f'{work}/tree', f'{work}/export/tree', 'put')
        same(f'{work}/tree', f'{work}/back', 'get')


def libnfs_agrees(work):
    data = random.Random(15).randbytes(3_333_333)
    with open(f'{work}/local', 'wb') as file:
        file.write(data)

    def both_ways(url):
        holdfast('put', f'{work}/local', url('/ours')).ends(DONE)
        with Libnfs(url('/ours')) as libnfs:
            check(libnfs.read() == data, 'libnfs reads other bytes than put wrote')
        with Libnfs(url('/theirs')) as libnfs:
            libnfs.write(data[::-1])
        got = subprocess.run([BINARY, 'get', url('/theirs'), '-'], capture_output=True, check=True)
        check(got.stdout == data[::-1], 'get reads other bytes than libnfs wrote')
        os.unlink(f'{work}/export/theirs')

    with Ganesha(work) as server:
        both_ways(server.url)
    with Serving(*quiet(work), f'{work}/export(no_root_squash)') as server:
        both_ways(lambda path: f'nfs://127.0.0.1{work}/export{path}?nfsport={server.port}'
                               f'&mountport={server.port}')


def ping_lists_what_rpcinfo_lists(work):
    with Ganesha(work):
        listed = subprocess.run(['rpcinfo', '-p', '127.0.0.1'], capture_output=True, text=True,
                                check=True).stdout.splitlines()[1:]
        rows = {tuple(line.split()[:4]) for line in listed}
        shown = holdfast('ping', '127.0.0.1', '-c', '3', '-i', '1').out.splitlines()[1:]
        names = {'portmap': '100000', 'nfs': '100003', 'mount': '100005', 'nfs_acl': '100227',
                 'nlm': '100021', 'rquota': '100011'}
        mine = {(names.get(line.split()[0], line.split()[0]), line.split()[1], line.split()[2],
                 line.split()[3]) for line in shown}
        equal(mine, rows, 'programs, versions, transports and ports')


if __name__ == '__main__':
    if not shutil.which('ganesha.nfsd') or not shutil.which('rpcbind'):
        print('skipped: nfs-ganesha or rpcbind is missing')
        sys.exit(SKIPPED)
    own_namespaces()
    run([trees_over_tcp_and_udp, five_percent_loss, the_server_restarts_midway, libnfs_agrees,
         ping_lists_what_rpcinfo_lists])
