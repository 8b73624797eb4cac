#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What calls that never arrive whole may cost: memory has a limit over all connections, strangers
are let go first, and whoever is served goes on being served."""
import resource
import socket
import threading
import time

import nfs
from nfs import Nfs, Server, check, equal, u32

MIB = 1 << 20
SENDERS = 1000
RSS_KB_MAX = 400 * 1024
HALF = u32(0x80000000 | MIB + 200) + bytes(MIB // 2)


class Halves:
    """Connections that each send half of a call of 1 MiB, as far as they are let."""

    def __init__(self, server, source, greet=False):
        self.left = {}
        for _ in range(SENDERS):
            connection = server.tcp(source=(source, 0))
            if greet:
                Nfs(connection).null()
            connection.socket.setblocking(False)
            self.left[connection.socket] = memoryview(HALF)

    def push(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            moved = False
            for sender, left in list(self.left.items()):
                try:
                    sent = sender.send(left[:65536])
                    self.left[sender] = left[sent:]
                    moved = moved or sent > 0
                except BlockingIOError:
                    pass
                except OSError:
                    del self.left[sender]
            if not moved:
                time.sleep(0.05)

    def close(self):
        for sender in self.left:
            sender.close()

    def closed_by_server(self):
        gone = 0
        for sender in self.left:
            try:
                gone += sender.recv(1) == b''
            except BlockingIOError:
                pass
            except OSError:
                gone += 1
        return gone + SENDERS - len(self.left)


def allow_many_sockets():
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def write_and_read_back(client, file):
    data = bytes(range(256)) * (MIB // 256)
    equal(client.write(file, 0, data, nfs.FILE_SYNC).status, nfs.OK, 'WRITE of 1 MiB')
    check(client.read(file, 0, MIB).data == data, 'other bytes came back')


def serves_beside(server, halves, busy_from):
    client = server.nfs(source=(busy_from, 0), timeout=60)
    root = server.root(client)
    file = client.new_file(root, 'file')
    halves.push(3)
    for i in range(5):
        write_and_read_back(client, file)
        halves.push(0.2)
        rss = server.rss_kb()
        check(rss < RSS_KB_MAX, f'{rss} KiB after WRITE {i}')
    late = server.nfs(source=(busy_from, 0), timeout=60)
    write_and_read_back(late, file)


def strangers_are_let_go_first():
    with Server(directories=['@work/export 127.0.0.2(rw,async,no_root_squash,insecure)']) as server:
        halves = Halves(server, '127.0.0.3')
        serves_beside(server, halves, '127.0.0.2')
        halves.close()


def strangers_do_not_displace_clients():
    """A client's half-sent call is still there when strangers press."""
    with Server(directories=['@work/export 127.0.0.2(rw,async,no_root_squash,insecure)']) as server:
        client = server.nfs(source=('127.0.0.2', 0), timeout=60)
        root = server.root(client)
        file = client.new_file(root, 'file')
        body = nfs.opaque(file) + nfs.u64(0) + u32(MIB, nfs.UNSTABLE) + nfs.opaque(bytes(MIB))
        call = nfs.record(nfs.call_message(nfs.NFS, 3, nfs.WRITE, body))
        client.transport.send(call[:MIB // 2])
        halves = Halves(server, '127.0.0.3')
        halves.push(3)
        client.transport.send(call[MIB // 2:])
        equal(nfs.Reply(client.transport.receive()).body.u32(), nfs.OK, 'the WRITE begun before')
        halves.close()


def clients_are_held_back_not_dropped_at_once():
    """All are clients: those without room wait, and a client that has been served goes before."""
    with Server(directories=['@work/export 127.0.0.0/8(rw,async,no_root_squash,insecure)']
                ) as server:
        halves = Halves(server, '127.0.0.3')
        halves.push(0.5)
        gone = halves.closed_by_server()
        check(gone < SENDERS // 2, f'{gone} connections of clients closed within a moment')
        serves_beside(server, halves, '127.0.0.2')
        halves.close()


def clients_that_spoke_before_take_turns():
    with Server(directories=['@work/export 127.0.0.0/8(rw,async,no_root_squash,insecure)']
                ) as server:
        halves = Halves(server, '127.0.0.3', greet=True)
        serves_beside(server, halves, '127.0.0.2')
        halves.close()


def write_as_a_client(server, call, done):
    """Sends a call until it is answered: a client whose connection is cut makes a new one."""
    for _ in range(5):
        try:
            with server.tcp(timeout=60) as connection:
                connection.send(call)
                done.append(nfs.Reply(connection.receive()).body.u32())
                return
        except (ConnectionError, EOFError):
            continue


def many_clients_write_at_once():
    """More large calls at one time than there is room for: all of them are served."""
    with Server() as server:
        client = server.nfs()
        root = server.root(client)
        calls = [nfs.record(nfs.call_message(
            nfs.NFS, 3, nfs.WRITE, nfs.opaque(client.new_file(root, f'f{i}')) + nfs.u64(0)
            + u32(MIB, nfs.UNSTABLE) + nfs.opaque(bytes([i]) * MIB))) for i in range(150)]
        done = []
        threads = [threading.Thread(target=write_as_a_client, args=(server, call, done))
                   for call in calls]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        equal(done, [nfs.OK] * len(calls), 'WRITEs')
        check(server.rss_kb() < RSS_KB_MAX, f'{server.rss_kb()} KiB')


if __name__ == '__main__':
    allow_many_sockets()
    socket.setdefaulttimeout(60)
    nfs.run([
        strangers_are_let_go_first,
        strangers_do_not_displace_clients,
        clients_are_held_back_not_dropped_at_once,
        clients_that_spoke_before_take_turns,
        many_clients_write_at_once,
    ])
