#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Exports that change while the server runs: all or nothing, unnoticed by those that stay, and
without a trace of those that go."""
import os
import shutil
import signal
import subprocess
import threading
import time

import nfs
from nfs import Failure, Server, check, equal


class Exports(Server):
    """A server with an exports file of two directories, a and b, that can be written anew."""

    def __init__(self, text='@work/a *(rw,async,no_root_squash,insecure)\n'
                            '@work/b *(rw,async,no_root_squash,insecure)\n', arguments=()):
        super().__init__(directories=[])
        self.file = self.work + '/exports'
        self.arguments += ['--exports', self.file, *arguments]
        for name in 'ab':
            os.mkdir(f'{self.work}/{name}')
            os.chmod(f'{self.work}/{name}', 0o777)
        self.write(text)

    def write(self, text):
        with open(self.file + '.new', 'w', encoding='ascii') as out:
            out.write(text.replace('@work', self.work))
        os.rename(self.file + '.new', self.file)

    def reload(self, text=None):
        if text is not None:
            self.write(text)
        return subprocess.run([self.binary, 'exports', 'reload', '--state', self.state],
                              capture_output=True, text=True, check=False, timeout=60)

    def reload_well(self, text=None):
        done = self.reload(text)
        equal((done.returncode, done.stderr), (0, ''), 'reload')

    def handle(self, name, client=None):
        mounted = (client or self.nfs()).mount(f'{self.work}/{name}')
        equal(mounted.status, 0, f'MNT of {name}')
        return mounted.fh


ONE = '@work/a *(rw,async,no_root_squash,insecure)\n'
BOTH = ONE + '@work/b *(rw,async,no_root_squash,insecure)\n'
RO = ONE + '@work/b *(ro,async,no_root_squash,insecure)\n'


def exports_come_change_and_go():
    with Exports(ONE) as server:
        client = server.nfs()
        check(client.mount(server.work + '/b').status != 0, 'b is not exported yet')
        server.reload_well(BOTH)
        b = server.handle('b', client)
        equal(client.create(b, 'new').status, nfs.OK, 'CREATE')
        server.reload_well(RO)
        equal(client.create(b, 'other').status, nfs.ROFS, 'CREATE on what is read-only now')
        equal(client.getattr(b).status, nfs.OK, 'GETATTR')
        server.reload_well(ONE)
        equal(client.getattr(b).status, nfs.STALE, 'GETATTR of what is no longer exported')
        check(client.mount(server.work + '/b').status != 0, 'MNT of it')
        server.reload_well(BOTH)
        equal(client.getattr(b).status, nfs.OK, 'GETATTR of what is exported again')
        equal(server.handle('b', client), b, 'its handle')


def clients_come_and_go():
    with Exports('@work/a 127.0.0.2(rw,insecure) 127.0.0.3(ro,insecure)\n') as server:
        two, three = (server.nfs(source=(f'127.0.0.{n}', 0)) for n in (2, 3))
        fh = server.handle('a', two)
        equal(three.getattr(fh).status, nfs.OK, 'GETATTR by 127.0.0.3')
        server.reload_well('@work/a 127.0.0.2(rw,insecure)\n')
        equal(three.getattr(fh).status, nfs.ACCES, 'GETATTR by 127.0.0.3, no longer named')
        equal(two.getattr(fh).status, nfs.OK, 'GETATTR by 127.0.0.2')


def sighup_does_the_same():
    with Exports(ONE) as server:
        server.write(BOTH)
        server.process.send_signal(signal.SIGHUP)
        end = time.monotonic() + 20
        while server.nfs().mount(server.work + '/b').status != 0:
            check(time.monotonic() < end, 'SIGHUP changed nothing')
            time.sleep(0.02)


def a_broken_file_changes_nothing():
    with Exports(BOTH) as server:
        client = server.nfs()
        a, b = server.handle('a', client), server.handle('b', client)
        for broken, words in ((ONE + '@work/b *(frob)\n', ['exports:2: error:', "'frob'"]),
                              (ONE + '@work/none *(rw)\n', ['exports:2: error:', 'No such file']),
                              ('', ['no export']),
                              ('/proc *(rw)\n', ['exports:1: ', '/proc']),
                              ('@work *(ro)\n', ['exports:1: ', 'state directory'])):
            done = server.reload(broken)
            equal(done.returncode, 1, f'exit status for {broken!r}')
            for word in [*words, 'as before']:
                check(word in done.stderr, f'{broken!r}: no {word!r} in {done.stderr!r}')
                check(word in server.messages(), f'{broken!r}: no {word!r} in the log')
            equal(client.create(b, 'f').status, nfs.OK, f'CREATE after {broken!r}')
            equal(client.getattr(a).status, nfs.OK, f'GETATTR after {broken!r}')
        os.unlink(server.file)
        equal(server.reload().returncode, 1, 'exit status without a file')
        equal(client.getattr(b).status, nfs.OK, 'GETATTR after that')


def a_broken_file_is_no_start():
    server = Exports('@work/a *(frob)\n')
    try:
        server.start()
    except Failure:
        check(server.process.wait(10) == 3, f'exit status {server.process.returncode}')
    else:
        raise Failure('the server started')
    finally:
        server.process.stdout.close()
        shutil.rmtree(server.work)


def skipped_lines_stay_skipped():
    with Exports(ONE, arguments=['--skip-bad-lines']) as server:
        done = server.reload(BOTH + '/c *(frob)\n')
        equal(done.returncode, 0, 'exit status')
        check('exports:3: error:' in done.stderr, done.stderr)
        server.handle('b')


class Load:
    """Calls on an export from several connections, until it is stopped; any failure is kept."""

    def __init__(self, server, name, threads=3):
        self.stop = threading.Event()
        self.errors = []
        self.calls = 0
        fh = server.handle(name)
        self.threads = [threading.Thread(target=self.run, args=(server, fh, i))
                        for i in range(threads)]
        for thread in self.threads:
            thread.start()

    def run(self, server, fh, index):
        try:
            client = server.nfs(udp=index == 0)
            name = f'file{index}'
            while not self.stop.is_set():
                file = client.create(fh, name).fh
                for status in (client.getattr(fh).status, client.lookup(fh, name).status,
                               client.write(file, 0, b'x' * 5000).status,
                               client.read(file, 0, 100).status, client.commit(file).status,
                               client.readdirplus(fh).status, client.remove(fh, name).status):
                    equal(status, nfs.OK, 'status')
                self.calls += 8
        except Exception as error:  # told by the main thread
            self.errors.append(repr(error))

    def end(self):
        self.stop.set()
        for thread in self.threads:
            thread.join()
        equal(self.errors, [], 'failures')
        check(self.calls > 0, 'no call was made')


def two_hundred_reloads_under_load_leave_nothing():
    with Exports(BOTH) as server:
        load = Load(server, 'a')
        other = server.nfs()

        def some(count):
            for i in range(count):
                server.reload_well((BOTH, RO, ONE)[i % 3])
                if i % 3 < 2:
                    fh = server.handle('b', other)
                    equal(other.readdirplus(fh).status, nfs.OK, 'READDIRPLUS of b')
        some(12)
        time.sleep(0.5)
        fds = server.fd_count()
        some(200)
        load.end()
        rss = server.rss_kb()  # threads that the load has made keep their memory
        some(100)
        server.reload_well(BOTH)
        deadline = time.monotonic() + 20  # objects are let go of some seconds after their last use
        after = server.fd_count()
        while after > fds and time.monotonic() < deadline:
            time.sleep(0.2)
            after = server.fd_count()
        check(after <= fds, f'{after} descriptors, {fds} before')
        grown = server.rss_kb() - rss
        if not server.has_sanitizer():  # which keeps what was freed, and finds leaks itself
            check(grown < 2048, f'{grown} KiB more than before')


def what_is_unexported_can_be_unmounted():
    """The file system itself is free: its device could be taken away."""
    with Exports(ONE) as server:
        image, disk = server.work + '/image', server.work + '/disk'
        os.mkdir(disk)
        with open(image, 'wb') as out:
            out.truncate(16 << 20)
        subprocess.run(['mkfs.ext4', '-q', '-F', image], check=True)
        device = subprocess.run(['losetup', '-f', '--show', image], check=False,
                                capture_output=True, text=True)
        if device.returncode != 0:
            print('no loop devices here: the file system stays a directory')
            return
        device = device.stdout.strip()
        try:
            subprocess.run(['mount', device, disk], check=True)
            server.reload_well(ONE + f'{disk} *(rw,async,no_root_squash,insecure)\n')
            client = server.nfs()
            fh = server.handle('disk', client)
            file = client.new_file(fh, 'file', b'data')
            load = Load(server, 'a')
            server.reload_well(ONE)
            subprocess.run(['umount', disk], check=True)
            # Exclusive: fails while the file system is mounted anywhere.
            os.close(os.open(device, os.O_RDWR | os.O_EXCL))
            load.end()
            equal(client.getattr(file).status, nfs.STALE, 'GETATTR after it')
            subprocess.run(['mount', device, disk], check=True)
            server.reload_well(ONE + f'{disk} *(rw,async,no_root_squash,insecure)\n')
            equal(client.read(file, 0, 10).data, b'data', 'READ when it is back')
            server.reload_well(ONE)
        finally:
            subprocess.run(['umount', disk], check=False, stderr=subprocess.DEVNULL)
            subprocess.run(['losetup', '-d', device], check=False)


def a_directory_made_again_is_found():
    """By MNT, without a reload; handles of the old one are stale."""
    with Exports(BOTH) as server:
        client = server.nfs()
        old = server.handle('b', client)
        shutil.rmtree(server.work + '/b')
        equal(client.mount(server.work + '/b').status, nfs.NOENT, 'MNT of what was removed')
        equal(client.getattr(old).status, nfs.STALE, 'GETATTR of what was removed')
        os.mkdir(server.work + '/b')
        os.chmod(server.work + '/b', 0o777)
        new = server.handle('b', client)
        check(new != old, 'the same handle for another directory')
        equal(client.create(new, 'file').status, nfs.OK, 'CREATE')
        equal([n for n in os.listdir(server.work + '/b') if n != '.holdfast'], ['file'], 'names')
        equal(client.getattr(old).status, nfs.STALE, 'GETATTR of the old one')
        equal(client.getattr(server.handle('a', client)).status, nfs.OK, 'the other export')
        # Moved away and replaced: what the path names counts.
        os.rename(server.work + '/b', server.work + '/moved')
        os.mkdir(server.work + '/b')
        check(server.handle('b', client) != new, 'MNT leads to the directory that was moved away')
        equal(client.getattr(new).status, nfs.STALE, 'GETATTR of what is exported no more')


def nobody_listens_after_the_end():
    with Exports(ONE) as server:
        server.reload_well()
    with Exports(ONE) as server:
        mode = os.stat(server.state + '/control').st_mode
        equal(mode & 0o777, 0o600, 'mode of the control socket')
        server.stop()
        check(not os.path.exists(server.state + '/control'), 'the socket is still there')
        done = server.reload()
        equal(done.returncode, 3, 'exit status without a server')
        check(server.state in done.stderr, done.stderr)


def the_control_socket_does_not_hang():
    """Clients that say nothing, too much, or nonsense are let go."""
    with Exports(ONE) as server:
        with nfs.Local(server.state + '/control') as silent:
            with nfs.Local(server.state + '/control') as wrong:
                wrong.send(b'frob\n')
            with nfs.Local(server.state + '/control') as long:
                try:
                    long.send(b'x' * 100000)
                except ConnectionError:
                    pass
            server.reload_well(BOTH)
            check(silent.closed(), 'a client that says nothing is kept')
        server.handle('b')


if __name__ == '__main__':
    nfs.have_own_mounts()
    nfs.run([
        exports_come_change_and_go,
        clients_come_and_go,
        sighup_does_the_same,
        a_broken_file_changes_nothing,
        a_broken_file_is_no_start,
        skipped_lines_stay_skipped,
        two_hundred_reloads_under_load_leave_nothing,
        what_is_unexported_can_be_unmounted,
        a_directory_made_again_is_found,
        nobody_listens_after_the_end,
        the_control_socket_does_not_hang,
    ])
