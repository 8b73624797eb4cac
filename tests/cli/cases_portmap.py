#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Port 111: our own portmapper, registration with another, or neither. rpcinfo and rpcbind of the
system are the other side. In a network namespace of its own."""
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

from cli import CANNOT, DONE, SKIPPED, Serving, check, equal, holdfast, own_namespaces, run

SOCKET = '/run/rpcbind.sock'


def rpcinfo(*arguments):
    done = subprocess.run(['rpcinfo', *arguments], capture_output=True, text=True, timeout=20,
                          check=False)
    return done.stdout


def registered(port):
    """{(program, version, protocol)} that port 111 of 127.0.0.1 has at a port."""
    lines = [line.split() for line in rpcinfo('-p', '127.0.0.1').splitlines()[1:]]
    return {(int(line[0]), int(line[1]), line[2]) for line in lines if int(line[3]) == port}


def check_registered(port):
    """What port 111 has at the port is NFS, MOUNT and whatever else answers there."""
    seen = registered(port)
    for protocol in ('tcp', 'udp'):
        for program, version in ((100003, 2), (100003, 3), (100005, 1), (100005, 2), (100005, 3)):
            check((program, version, protocol) in seen,
                  f'program {program} version {version} ({protocol}) is not among {seen}')
    for program, version, protocol in seen:
        told = rpcinfo('-n', str(port), f'-{protocol[0]}', '127.0.0.1', str(program), str(version))
        check('ready and waiting' in told,
              f'program {program} version {version} ({protocol}) is registered, and says {told!r}')


def netids(program):
    for line in rpcinfo('-s', '127.0.0.1').splitlines():
        fields = line.split()
        if fields[0] == str(program):
            return set(fields[2].split(','))
    return set()


class Rpcbind:
    """The system's, with port 111 and SOCKET."""

    def __enter__(self):
        self.process = subprocess.Popen(['rpcbind', '-f'], stderr=subprocess.DEVNULL)
        for _ in range(200):
            if os.path.exists(SOCKET) and rpcinfo('-p', '127.0.0.1'):
                return self
            time.sleep(0.05)
        raise RuntimeError('rpcbind does not start')

    def __exit__(self, *_):
        self.end()

    def end(self):
        self.process.terminate()
        self.process.wait()
        if os.path.exists(SOCKET):
            os.unlink(SOCKET)


def options(work, *more):
    return ['--log-level', 'info', '--state', f'{work}/state', *more, f'{work}/export']


def a_free_port_111_is_served(work):
    with Serving(*options(work)) as serving:
        equal(serving.port, 2049, 'port')
        check(re.search(r'; mount -t nfs -o nolock [^ ]+:\S+ /mnt\n$', serving.ready),
              serving.ready)
        check_registered(2049)
        equal(registered(111), {(100000, v, p) for v in (2, 3, 4) for p in ('tcp', 'udp')},
              'programs at 111')
        equal(netids(100003), {'tcp', 'udp', 'tcp6', 'udp6'}, 'transports of NFS')
        check('100003' in rpcinfo(), 'the local socket does not answer')
        serving.stop().ends(DONE)
    check(not os.path.exists(SOCKET), 'the local socket is left behind')


def only_what_is_bound_is_told(work):
    with Serving(*options(work, '--bind', '127.0.0.1')):
        equal(netids(100003), {'tcp', 'udp'}, 'transports of NFS')


def a_running_rpcbind_is_told_and_untold(work):
    with Rpcbind(), Serving(*options(work, '--port', '0')) as serving:
        check_registered(serving.port)
        equal(netids(100003), {'tcp', 'udp', 'tcp6', 'udp6'}, 'transports of NFS')
        check('port=' not in serving.ready, serving.ready)
        serving.stop().ends(DONE).says('registered', SOCKET)
        equal(registered(serving.port), set(), 'programs after the stop')


def an_rpcbind_without_socket_is_told_over_udp(work):
    with Rpcbind():
        os.rename(SOCKET, SOCKET + '.away')
        with Serving(*options(work, '--port', '0')) as serving:
            check_registered(serving.port)
            serving.stop().ends(DONE).says('IPv4 only')
            equal(registered(serving.port), set(), 'programs after the stop')
        os.unlink(SOCKET + '.away')


def what_others_registered_stays(work):
    with Rpcbind(), Serving(*options(work, '--port', '0')) as first:
        second = [*options(work, '--port', '0'), '--state', f'{work}/second']
        holdfast('serve', *second, '--portmap', 'on').ends(CANNOT).says(
            '--portmap on', '100003', str(first.port), 'rpcinfo -d')
        with Serving(*second) as serving:
            check(f'port={serving.port}' in serving.ready, serving.ready)
            serving.stop().ends(DONE).says('portmap: none', str(first.port), 'clients must be told')
        check_registered(first.port)


def entries_of_a_killed_server_are_taken_again(work):
    with Rpcbind():
        with Serving(*options(work)) as serving:
            serving.stop(signal.SIGKILL)
        check(registered(2049), 'the killed server took its entries with it')
        with Serving(*options(work, '--portmap', 'on')) as serving:
            serving.stop().ends(DONE)
        equal(registered(2049), set(), 'programs after the stop')


def rpcbind_that_went_away_does_not_hold_the_stop_up(work):
    with Rpcbind() as rpcbind, Serving(*options(work, '--port', '0')) as serving:
        rpcbind.end()
        started = time.monotonic()
        serving.stop().ends(DONE).says('cannot take program')
        check(time.monotonic() - started < 10, 'the stop took too long')


def a_holdfast_at_port_111_is_told_too(work):
    with Serving(*options(work, '--portmap', 'on')):
        with Serving(*options(work, '--port', '0'), '--state', f'{work}/second',
                     '--log-level', 'info') as second:
            second.stop().ends(DONE).says('portmap: none', '100003')


def off_leaves_port_111_alone(work):
    with Serving(*options(work, '--portmap', 'off')) as serving:
        with socket.socket() as probe:
            equal(probe.connect_ex(('127.0.0.1', 111)) == 0, False, 'port 111 answers')
        check('mountport=2049' in serving.ready, serving.ready)
        check(not os.path.exists(SOCKET), 'the local socket was made')


def the_socket_of_another_program_is_left_alone(work):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        other.bind(SOCKET)
        other.listen()
        with Serving(*options(work)) as serving:
            check_registered(2049)
            serving.stop().ends(DONE).says(SOCKET, 'another program')
        check(os.path.exists(SOCKET), 'the socket of another program was removed')
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.connect(SOCKET)
    os.unlink(SOCKET)


if __name__ == '__main__':
    if not shutil.which('rpcinfo') or not shutil.which('rpcbind'):
        print('skipped: no rpcinfo or no rpcbind (apt install rpcbind)')
        sys.exit(SKIPPED)
    own_namespaces()
    run([a_free_port_111_is_served, only_what_is_bound_is_told,
         a_running_rpcbind_is_told_and_untold, an_rpcbind_without_socket_is_told_over_udp,
         what_others_registered_stays, entries_of_a_killed_server_are_taken_again,
         rpcbind_that_went_away_does_not_hold_the_stop_up, a_holdfast_at_port_111_is_told_too,
         off_leaves_port_111_alone, the_socket_of_another_program_is_left_alone])
