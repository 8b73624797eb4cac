#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Sockets that the server is given (sd_listen_fds(3)), by this program as by systemd, and by
systemd-socket-activate(1)."""
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request

import nfs
from nfs import NFS, PMAP, Nfs, Server, check, equal, u32

TCP = 6


def bound(kind=socket.SOCK_STREAM, port=0, family=socket.AF_INET6):
    found = socket.socket(family, kind)
    if family == socket.AF_INET6:
        found.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    found.bind(('::' if family == socket.AF_INET6 else '127.0.0.1', port))
    if kind == socket.SOCK_STREAM:
        found.listen(16)
    return found


def both():
    """A TCP and a UDP socket at one port."""
    for _ in range(100):
        stream = bound()
        try:
            return stream, bound(socket.SOCK_DGRAM, stream.getsockname()[1])
        except OSError:
            stream.close()
    raise nfs.Failure('no port is free for TCP and UDP')


def given(sockets, names=None, pid='$$'):
    """What starts a command with the sockets as descriptors 3, 4 and so on."""
    moves = ' '.join(f'{3 + i}<&{s.fileno()}' for i, s in enumerate(sockets))
    closes = ' '.join(f'{s.fileno()}<&-' for s in sockets if s.fileno() >= 3 + len(sockets))
    named = f'LISTEN_FDNAMES={":".join(names)}' if names else ''
    return ['bash', '-c', f'exec {moves}; exec {closes}; '
            f'LISTEN_PID={pid} LISTEN_FDS={len(sockets)} {named} exec "$@"', 'given']


class Given(Server):
    """A server with sockets of ours."""

    def __init__(self, sockets, names=None, pid='$$', **more):
        # Out of the way of 3, 4 and so on.
        self.sockets = [socket.socket(fileno=os.dup2(s.detach(), 100 + i))
                        for i, s in enumerate(sockets)]
        super().__init__(prefix=given(self.sockets, names, pid), **more)
        self.pass_fds = [mine.fileno() for mine in self.sockets]

    def __exit__(self, *more):
        for mine in self.sockets:
            mine.close()
        return super().__exit__(*more)


def serves_what_it_is_given():
    with Given(both()) as server:
        equal(server.port, server.sockets[0].getsockname()[1], 'port')
        server.nfs().null()
        server.nfs(udp=True).null()
        server.root()
        with socket.create_connection(('::1', server.port), 10):
            pass
        equal(server.messages().count('not used'), 0, server.messages())


def one_protocol_is_enough():
    with Given([bound(family=socket.AF_INET)]) as server:
        server.nfs().null()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind(('127.0.0.1', server.port))  # nobody is there


def who_calls_during_a_restart_waits():
    """Nobody is refused, over TCP or UDP, and the sockets are as they were."""
    with Given(both(), ['nfs', 'nfs']) as server:
        fh = server.root()
        for _ in range(3):
            server.stop()
            waiting, datagram = server.nfs(), server.nfs(udp=True)
            waiting.transport.send(nfs.record(nfs.call_message(NFS, 3, 0)))
            datagram.transport.send(nfs.call_message(NFS, 3, 0))
            server.start(server.port)
            check(len(waiting.transport.receive()) >= 24, 'a reply over TCP')
            check(len(datagram.transport.receive()) >= 24, 'a reply over UDP')
            equal(server.nfs().getattr(fh).status, 0, 'GETATTR')


def names_say_what_for():
    stream, datagram = both()
    other = bound()
    with Given([stream, bound(), datagram, other], ['nfs', 'metrics', 'nfs', 'portmap'],
               portmap='on') as server:
        reader = Nfs(nfs.Tcp(server.sockets[3].getsockname()[1])).rpc(
            3, u32(NFS, 3, TCP, 0), prog=PMAP, vers=2)
        equal(reader.u32(), server.port, 'GETPORT of NFS')
        url = f'http://[::1]:{server.sockets[1].getsockname()[1]}/metrics'
        with urllib.request.urlopen(url, timeout=10) as answer:
            check(b'holdfast_' in answer.read(), 'metrics')


def what_is_of_no_use_is_said():
    with Given([*both(), bound()], ['nfs', 'nfs', 'portmap']) as server:
        check('descriptor 5 of the service manager is not used' in server.messages(),
              server.messages())


def another_processs_are_not_ours():
    with Given(both(), pid='1') as server:
        check(server.port != server.sockets[0].getsockname()[1], 'took what is not its own')


def what_is_wrong_is_named():
    local = socket.socket(socket.AF_UNIX)
    asleep = socket.socket(socket.AF_INET)
    asleep.bind(('127.0.0.1', 0))
    for sockets, names, words in (
            ([bound()], ['nsf'], "a socket called 'nsf'"),
            ([local], None, 'no socket of IP'),
            ([asleep], None, 'no socket that takes calls'),
            ([bound(socket.SOCK_DGRAM)], ['metrics'], 'no socket that takes calls'),
            ([bound(), bound()], ['nfs', 'nfs'], 'clients are told of one'),
            ([bound(), bound()], ['metrics', 'metrics'], 'more than one')):
        server = Given(sockets, names)
        try:
            done = subprocess.run([*server.prefix, server.binary, 'serve', '--port', '0',
                                   *server.arguments, server.export], capture_output=True,
                                  timeout=60, text=True, check=False,
                                  pass_fds=server.pass_fds)
            equal((words, done.returncode), (words, 3), f'end: {done.stdout}{done.stderr}')
            check(words in done.stderr, f'{words}: {done.stderr}')
        finally:
            server.__exit__(None)


def systemds_own_starts_it():
    """On the first connection."""
    port = both()
    number = port[0].getsockname()[1]
    for mine in port:
        mine.close()
    server = Server()
    command = ['systemd-socket-activate', '-l', str(number), '--fdname=nfs', server.binary, 'serve',
               *server.arguments, *server.directories]
    server.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                      stderr=server.log)
    try:
        end = time.monotonic() + 20
        while server.messages().count('Listening on') < 1:
            check(time.monotonic() < end, f'systemd-socket-activate: {server.messages()}')
            time.sleep(0.02)
        with nfs.Tcp(number) as connection:
            Nfs(connection).null()
        line = server.process.stdout.readline().decode()
        equal(re.search(r'port (\d+)', line).group(1), str(number), 'the port of the ready line')
        server.stop()
    finally:
        server.__exit__(None)


if __name__ == '__main__':
    nfs.have_own_network()
    CASES = [
        serves_what_it_is_given,
        one_protocol_is_enough,
        who_calls_during_a_restart_waits,
        names_say_what_for,
        what_is_of_no_use_is_said,
        another_processs_are_not_ours,
        what_is_wrong_is_named,
    ]
    if shutil.which('systemd-socket-activate'):
        CASES.append(systemds_own_starts_it)
    else:
        print('systemds_own_starts_it: skipped, systemd-socket-activate is missing',
              file=sys.stderr)
    nfs.run(CASES)
