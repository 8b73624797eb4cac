#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The intent log seen from outside: a server that is killed comes back with everything it has
acknowledged, and gives the old answer to who asks again. What a power cut takes is for
tests/e2e/powercut.sh; here the page cache survives."""
import os
import signal
import threading

import nfs
from nfs import Nfs, Server, check, equal


def journaled(**more):
    """The log must lie on a file system that can have one: not on tmpfs."""
    return Server('rw,sync,no_root_squash,insecure', ['--journal', 'auto'], **more)


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


if __name__ == '__main__':
    nfs.run([answers_survive_a_kill, handles_survive_a_kill, write_verifier_changes, nothing_shows,
             many_clients_share_batches])
