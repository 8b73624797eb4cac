#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The intent log seen from outside: a server that is killed comes back with everything it has
acknowledged, and gives the old answer to who asks again. What a power cut takes is for
tests/e2e/powercut.sh; here the page cache survives."""
import contextlib
import os
import signal
import subprocess
import threading

import nfs
from nfs import Nfs, Server, check, equal


def journaled(**more):
    """The export must lie on a file system that can have a log: not on tmpfs."""
    return Server('rw,sync,no_root_squash,insecure', **more).log_inside()


def create_call(fh, name):
    args = nfs.opaque(fh) + nfs.opaque(name) + nfs.u32(nfs.GUARDED) + nfs.sattr(mode=0o600)
    return nfs.call_message(nfs.NFS, 3, 8, args, cred=nfs.auth_sys())


def remove_call(fh, name):
    return nfs.call_message(nfs.NFS, 3, 12, nfs.opaque(fh) + nfs.opaque(name), cred=nfs.auth_sys())


def is_possible(server):
    return 'cannot be used with the journal' not in server.messages()


def answers_survive_a_kill():
    """Not EXIST and NOENT for one's own success: over a new TCP connection, and over UDP from the
    same port."""
    with journaled() as server:
        if not is_possible(server):
            print('(no file system for a journal)')
            return
        root = server.root()
        calls = [create_call(root, b'a'), create_call(root, b'b'), remove_call(root, b'b')]
        with server.tcp() as connection:
            replies = [connection.exchange(call) for call in calls]
        udp_call = create_call(root, b'c')
        with server.udp() as udp:
            udp_reply = udp.exchange(udp_call)
            for life in range(3):
                server.restart(signal.SIGKILL)
                with server.tcp() as connection:
                    for call, reply in zip(calls, replies):
                        equal(connection.exchange(call), reply, f'the answer in life {life}')
                equal(udp.exchange(udp_call), udp_reply, f'the answer over UDP in life {life}')
        equal(sorted(os.listdir(server.export)), ['.holdfast', 'a', 'c'], 'names')
        stranger = server.nfs()
        equal(stranger.create(root, 'a', nfs.GUARDED).status, nfs.EXIST, 'somebody else')


def handles_survive_a_kill():
    with journaled() as server:
        client = server.nfs()
        root = server.root(client)
        directory = client.new_dir(root, 'd')
        file = client.new_file(directory, 'f', b'data')
        server.restart(signal.SIGKILL)
        client = server.nfs()
        equal(client.read(file, 0, 10).data, b'data', 'the data')
        equal(client.lookup(root, 'd').fh, directory, 'the handle of the directory')
        equal(client.lookup(directory, 'f').fh, file, 'the handle of the file')


def write_verifier_changes():
    with journaled() as server:
        client = server.nfs()
        file = client.new_file(server.root(client), 'f')
        first = client.write(file, 0, b'unstable').verf
        server.restart(signal.SIGKILL)
        client = server.nfs()
        check(client.commit(file).verf != first, 'the verifier is the old one')


def nothing_shows():
    """Neither .holdfast nor a way to make or remove it, at the root and for MNT."""
    with journaled() as server:
        client = server.nfs()
        root = server.root(client)
        check(all(entry.name != b'.holdfast' for entry in client.walk(root)), 'READDIR shows it')
        check(all(entry.name != b'.holdfast' for entry in client.walk(root, plus=True)),
              'READDIRPLUS shows it')
        equal(client.lookup(root, '.holdfast').status, nfs.NOENT, 'LOOKUP')
        equal(client.mkdir(root, '.holdfast').status, nfs.ACCES, 'MKDIR')
        equal(client.rmdir(root, '.holdfast').status, nfs.NOENT, 'RMDIR')
        equal(client.rename(root, '.holdfast', root, 'x').status, nfs.NOENT, 'RENAME')
        check(client.mount(os.path.join(server.export, '.holdfast')).status != 0, 'MNT')


def many_clients_share_batches():
    """Creates of many at once, and the pool runs dry meanwhile: all are there after a kill."""
    with journaled() as server:
        root = server.root()

        def work(index):
            with server.tcp() as connection:
                client = Nfs(connection)
                directory = client.new_dir(root, f'd{index}')
                for i in range(150):
                    client.new_file(directory, f'f{i}', b'x' * i)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        server.restart(signal.SIGKILL)
        for index in range(6):
            path = os.path.join(server.export, f'd{index}')
            equal(len(os.listdir(path)), 150, f'files in d{index}')
            for i in range(0, 150, 37):
                equal(os.path.getsize(os.path.join(path, f'f{i}')), i, f'size of f{i}')


class Exports(Server):
    """A server that reads a file of exports, in which @work is its directory, @disk a file system
    of its own (with Disk)."""

    def __init__(self, text, arguments=()):
        super().__init__(directories=[])
        self.disk = self.work + '/disk'
        self.file = self.work + '/exports'
        self.arguments += ['--exports', self.file, *arguments]
        os.mkdir(self.work + '/a')
        self.write(text)

    def write(self, text):
        with open(self.file, 'w', encoding='ascii') as out:
            out.write(text.replace('@work', self.work).replace('@disk', self.disk))

    def reload(self, text):
        self.write(text)
        return subprocess.run([self.binary, 'exports', 'reload', '--state', self.state],
                              capture_output=True, text=True, check=False, timeout=60)

    def reload_well(self, text):
        done = self.reload(text)
        equal((done.returncode, done.stderr), (0, ''), 'reload')

    def handle(self, path, client):
        mounted = client.mount(path)
        equal(mounted.status, 0, f'MNT of {path}')
        return mounted.fh


class NoDisk(Exception):
    """There are no loop devices here."""


@contextlib.contextmanager
def disk_of(server, megabytes=400, make=()):
    """An ext4 at @disk, in a mount namespace of the test's own; gives its device."""
    image = server.work + '/image'
    os.mkdir(server.disk)
    with open(image, 'wb') as out:
        out.truncate(megabytes << 20)
    subprocess.run(['mkfs.ext4', '-q', '-F', *make, image], check=True)
    made = subprocess.run(['losetup', '-f', '--show', image], check=False, capture_output=True,
                          text=True)
    if made.returncode != 0:
        raise NoDisk
    device = made.stdout.strip()
    try:
        subprocess.run(['mount', device, server.disk], check=True)
        yield device
    finally:
        server.stop(signal.SIGKILL)
        subprocess.run(['umount', server.disk], check=False, stderr=subprocess.DEVNULL)
        subprocess.run(['losetup', '-d', device], check=False)


def run_with_disk(case, *arguments):
    server = Exports('')
    try:
        with disk_of(server, *arguments) as device:
            case(server, device)
    except NoDisk:
        print('(no loop devices here)')
    finally:
        server.__exit__(None)


def with_disk(case):
    """Runs a case of (server, device); where there are no loop devices it says so."""
    def run():
        run_with_disk(case)
    run.__name__, run.__doc__ = case.__name__, case.__doc__
    return run


A = '@work/a *(rw,async,no_root_squash,insecure)\n'
DISK = '@disk *(rw,async,no_root_squash,insecure,async_window=60s)\n'


@with_disk
def what_is_unexported_can_be_unmounted(server, device):
    """With a log in it, and a change that is in no hurry to get there."""
    server.arguments += ['--journal', 'auto']
    server.write(A)
    server.start()
    client = server.nfs()
    for turn in range(3):
        server.reload_well(A + DISK)
        root = server.handle(server.disk, client)
        check(os.path.exists(server.disk + '/.holdfast/in-use'), 'no note of the log')
        file = client.new_file(root, f'file{turn}', b'data')
        client.new_dir(root, f'dir{turn}')
        server.reload_well(A)
        equal(os.listdir(server.disk + '/.holdfast/pool'), [], 'what is left in the pool')
        check(not os.path.exists(server.disk + '/.holdfast/in-use'), 'the note is still there')
        subprocess.run(['umount', server.disk], check=True)
        # Exclusive: fails while the file system is mounted anywhere.
        os.close(os.open(device, os.O_RDWR | os.O_EXCL))
        equal(client.getattr(file).status, nfs.STALE, 'GETATTR after it')
        subprocess.run(['mount', device, server.disk], check=True)
    server.reload_well(A + DISK)
    root = server.handle(server.disk, client)
    equal(client.read(file, 0, 10).data, b'data', 'READ when it is back')
    equal(sorted(n for n in os.listdir(server.disk) if n[0] in 'df'),
          ['dir0', 'dir1', 'dir2', 'file0', 'file1', 'file2'], 'names')


@with_disk
def what_a_reload_adds_is_logged(server, device):
    """Its changes and answers are there after a kill, and its handles are good."""
    server.arguments += ['--journal', 'auto']
    server.write(A)
    server.start()
    server.reload_well(A + '@disk *(rw,sync,no_root_squash,insecure)\n')
    with server.tcp() as connection:
        client = Nfs(connection)
        root = server.handle(server.disk, client)
        file = client.new_file(root, 'f', b'data')
        call = create_call(root, b'g')
        reply = connection.exchange(call)
    server.restart(signal.SIGKILL)
    check(server.disk + '/.holdfast/journal' in server.messages(), server.messages())
    with server.tcp() as connection:
        client = Nfs(connection)
        equal(connection.exchange(call), reply, 'the answer')
        equal(client.read(file, 0, 10).data, b'data', 'READ')
    server.stop()


@with_disk
def one_journal_for_two(server, device):
    """Named in both exports, once through a symbolic link."""
    os.symlink(server.work + '/intents', server.work + '/link')
    server.write('@work/a *(rw,no_root_squash,insecure,journal=@work/intents)\n'
                 '@disk *(rw,no_root_squash,insecure,journal=@work/link)\n')
    server.start()
    client = server.nfs()
    files = [client.new_file(server.handle(path, client), 'f', b'data')
             for path in (server.work + '/a', server.disk)]
    check(not os.path.exists(server.disk + '/.holdfast/journal'), 'a second log')
    server.stop(signal.SIGKILL)
    text = '@work/a *(rw,no_root_squash,insecure,journal=@work/intents)\n'
    server.write(text)
    try:
        server.start()
    except nfs.Failure as failure:
        check(server.disk in str(failure), f'the reason does not name the other: {failure}')
        server.process.wait()
    else:
        raise nfs.Failure('the server started without one of its exports')
    server.write(text + '@disk *(rw,no_root_squash,insecure,journal=@work/intents)\n')
    server.start()
    client = server.nfs()
    for file in files:
        equal(client.read(file, 0, 10).data, b'data', 'READ')
    server.reload_well(text) # the other one stays, with the log
    subprocess.run(['umount', server.disk], check=True)
    os.close(os.open(device, os.O_RDWR | os.O_EXCL))
    equal(client.create(server.handle(server.work + '/a', client), 'g').status, nfs.OK, 'CREATE')
    server.restart(signal.SIGKILL)
    client = server.nfs()
    equal(client.lookup(server.handle(server.work + '/a', client), 'g').status, nfs.OK, 'LOOKUP')
    subprocess.run(['mount', device, server.disk], check=True)


@with_disk
def a_file_system_has_one_journal(server, device):
    """Two exports of it may not name two; an export that is served may not change it."""
    os.mkdir(server.disk + '/sub')
    sub = '@disk/sub *(rw,insecure,journal={})\n'
    server.write(A + '@disk *(rw,insecure,journal=auto)\n')
    server.start()
    for text, words in ((A + '@disk *(rw,insecure,journal=auto)\n' + sub.format('@work/intents'),
                         ('one file system', 'journal=')),
                        (A + '@disk *(rw,insecure,journal=@work/intents)\n',
                         ('cannot become', 'while it is served')),
                        (A + '@disk *(rw,insecure,journal=/dev/none)\n', ('cannot become',)),
                        (A.replace('async', 'async,journal=/dev/none/x'), ('cannot become',))):
        done = server.reload(text)
        equal(done.returncode, 1, f'exit status for {text!r}')
        for word in words:
            check(word in done.stderr, f'{text!r}: no {word!r} in {done.stderr!r}')
    server.reload_well(A + '@disk *(rw,insecure,journal=auto)\n' + sub.format('auto'))
    client = server.nfs()
    server.handle(server.disk + '/sub', client)
    server.reload_well(A)
    done = server.reload(A + '@disk *(rw,insecure,journal=/dev/none)\n')
    equal(done.returncode, 1, 'exit status for a device that is not there')
    check('/dev/none: No such file' in done.stderr and not os.path.exists('/dev/none'), done.stderr)
    server.reload_well(A + '@disk *(rw,insecure,journal=@work/intents)\n')
    server.handle(server.disk, client)
    server.stop()


def auto_does_without():
    """Where there is no room for a log, where the file system has no journal of its own, and where
    nothing can be changed: with one clear line, and nothing left behind."""
    changed = '@disk *({},sync,no_root_squash,insecure)\n'

    def check_one(server, rw, line):
        server.arguments += ['--journal', 'auto']
        server.write(changed.format(rw))
        server.start()
        equal([text for text in server.messages().splitlines() if server.disk in text and
               'synced by itself' in text and line in text] != [], line != '', 'a word about it')
        check(not os.path.exists(server.disk + '/.holdfast'), 'something was left')
        client = server.nfs()
        root = server.handle(server.disk, client)
        if rw == 'rw':
            client.new_file(root, 'f', b'data')
        server.restart(signal.SIGKILL)
        server.reload_well(changed.format(rw) + A)
        client = server.nfs()
        equal(client.lookup(root, 'f').status, nfs.OK if rw == 'rw' else nfs.NOENT, 'LOOKUP')
        server.stop()

    run_with_disk(lambda server, _: check_one(server, 'rw', 'No space left'), 100)
    run_with_disk(lambda server, _: check_one(server, 'rw', 'no journal of its own'), 400,
                  ('-O', '^has_journal'))
    run_with_disk(lambda server, _: check_one(server, 'ro', ''))


def few_inodes_are_left_to_clients():
    """The pool does not take them all."""
    def run(server, _):
        server.arguments += ['--journal', 'auto']
        server.write('@disk *(rw,sync,no_root_squash,insecure)\n')
        server.start()
        client = server.nfs()
        root = server.handle(server.disk, client)
        check(server.disk + '/.holdfast/journal' in server.messages(), server.messages())
        for i in range(10):
            equal(client.symlink(root, f'link{i}', 'x').status, nfs.OK, f'SYMLINK {i}')
            client.new_dir(root, f'dir{i}')
            client.new_file(root, f'file{i}', b'data')
        server.restart(signal.SIGKILL)
        equal(len(os.listdir(server.disk)), 32, 'names')
    run_with_disk(run, 400, ('-N', '96'))


if __name__ == '__main__':
    nfs.have_own_mounts()
    nfs.run([answers_survive_a_kill, handles_survive_a_kill, write_verifier_changes, nothing_shows,
             many_clients_share_batches, what_is_unexported_can_be_unmounted,
             what_a_reload_adds_is_logged, one_journal_for_two, a_file_system_has_one_journal,
             auto_does_without, few_inodes_are_left_to_clients])
