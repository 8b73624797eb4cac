#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""spray and ping: the classic lines and rules, where packets are lost, and what times hide."""
import contextlib
import json
import os
import re
import signal
import socket
import struct
import subprocess
import threading
import time

from cli import (BINARY, CANNOT, DONE, FINDING, USAGE, Serving, check, equal, holdfast,
                 own_namespaces, quiet, run)
from nfs import u32

SPRAY, GET, CLEAR = 1, 2, 3


class Classic:
    """rpc.sprayd as Sun's: one counter, no other procedures. Written from its source's rules:
    loses every loses'th packet, if that is not 0; pause: seconds before it looks at anything."""

    def __init__(self, loses=0):
        self.loses, self.lengths, self.xids, self.counter = loses, [], [], 0
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 24)
        self.socket.bind(('127.0.0.1', 0))
        self.port = self.socket.getsockname()[1]
        self.clock = time.monotonic()

    def __enter__(self):
        threading.Thread(target=self.serve, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.socket.close()

    def serve(self):
        while True:
            try:
                data, client = self.socket.recvfrom(65536)
            except OSError:
                return
            xid, _, _, prog, vers, proc = struct.unpack('>6I', data[:24])
            equal((prog, vers), (100012, 1), 'program and version')
            if proc == SPRAY:
                self.lengths.append(len(data))
                self.xids.append(xid)
                if not self.loses or len(self.lengths) % self.loses:
                    self.counter += 1
                continue
            head = u32(xid, 1, 0, 0, 0, 0)
            if proc == CLEAR:
                self.counter, self.clock = 0, time.monotonic()
                self.lengths, self.xids = [], []
            elif proc == GET:
                since = time.monotonic() - self.clock
                head += u32(self.counter, int(since), int(since % 1 * 1e6))
            elif proc != 0:
                head = u32(xid, 1, 0, 0, 0, 3)
            self.socket.sendto(head, client)


def spray(port, *arguments, **more):
    return holdfast('spray', '127.0.0.1', '--port', port, *arguments, timeout=60, **more)


def numbers(port, *arguments):
    ended = spray(port, '--json', *arguments)
    check(ended.code in (DONE, FINDING), f'{ended.code}: {ended.err}')
    return json.loads(ended.out)


@contextlib.contextmanager
def dropping(port, what):
    """An nft rule for datagrams that arrive at a port."""
    rules = (f'table inet t {{\nchain c {{\ntype filter hook input priority 0\n'
             f'udp dport {port} {what} drop\n}}\n}}\n')
    subprocess.run(['nft', '-f', '-'], input=rules, text=True, check=True)
    try:
        yield
    finally:
        subprocess.run(['nft', 'delete', 'table', 'inet', 't'], check=True)


# ---- the classic command ---------------------------------------------------------------------

def lines_are_the_classic_ones(_):
    with Classic(loses=4) as classic:
        ended = spray(classic.port, '-c', '100', '-l', '1162').ends(FINDING)
        match = re.fullmatch(r'sending 100 packets of length 1162 to 127\.0\.0\.1 \.\.\.\n'
                             r'\t25 packets \(25\.000%\) dropped by 127\.0\.0\.1\n'
                             r'\t(\d+) packets/sec, (\d+) bytes/sec\n', ended.out)
        check(match, repr(ended.out))
        packets, size = int(match[1]), int(match[2])
        check(packets * 1162 <= size < (packets + 1) * 1162, f'{packets} and {size} do not agree')
    with Classic() as classic:
        ended = spray(classic.port).ends(DONE)
        check(re.fullmatch(r'sending 1162 packets of length 86 to 127\.0\.0\.1 \.\.\.\n'
                           r'\tno packets dropped by 127\.0\.0\.1\n'
                           r'\t\d+ packets/sec, \d+ bytes/sec\n', ended.out), repr(ended.out))


def counts_and_lengths_follow_the_classic_rules(_):
    """86 bytes are Ethernet, IP, UDP and RPC heads: 14 + 20 + 8 + 40 + 4. In one frame lengths are
    86 + 4n, rounded up; the default count makes 100 kB."""
    with Classic() as classic:
        for arguments, count, length in (
                ([], 1162, 86),
                (['-l', '1000'], 100, 1002),
                (['-l', '1002'], 99, 1002),
                (['-l', '1003'], 99, 1006),
                (['-l', '1514'], 66, 1514),
                (['-l', '1515'], 66, 1515),
                (['-l', '8845'], 11, 8845),
                (['-c', '100'], 100, 1002),
                (['-c', '5'], 5, 8845),
                (['-c', '3', '-l', '90'], 3, 90)):
            said = numbers(classic.port, *arguments)
            equal((said['packets'], said['length_bytes']), (count, length), arguments)
            frame = length - 14 - 20 - 8
            equal(set(classic.lengths), {frame + -frame % 4}, f'{arguments}: bytes of a datagram')
            steps = {(b - a) % (1 << 32) for a, b in zip(classic.xids, classic.xids[1:])}
            check(steps == {1}, f'{arguments}: steps between xids: {steps}')


def a_delay_is_kept(_):
    with Classic() as classic:
        started = time.monotonic()
        spray(classic.port, '-c', '20', '-l', '86', '-d', '20000').ends(DONE)
        check(time.monotonic() - started >= 0.4, 'it was over too soon')
        said = numbers(classic.port, '-c', '20', '-l', '86', '-d', '5000')
        check(0.1 <= said['send_seconds'] < 1, said['send_seconds'])


def a_classic_receiver_knows_no_more(_):
    with Classic(loses=2) as classic:
        said = numbers(classic.port, '-c', '10', '-l', '86')
        equal((said['sent'], said['counted_by_receiver'], said['lost_on_the_way'],
               said['dropped_at_far_socket']), (10, 5, 5, None), 'numbers')
        spray(classic.port, '--both').ends(CANNOT).says('cannot send packets back')


def usage(_):
    for arguments in ([], ['a', 'b'], ['-c', '0', 'h'], ['-l', '9000', 'h'], ['-d', 'x', 'h'],
                      ['--port', '0', 'h'], ['-c'], ['--frobnicate', 'h'],
                      ['--ramp', '--tcp', 'h']):
        holdfast('spray', *arguments).ends(USAGE)
    for arguments in ([], ['a', 'b'], ['-c', '0', 'h'], ['-i', 'x', 'h'], ['--port', '70000', 'h']):
        holdfast('ping', *arguments).ends(USAGE)
    for command in ('spray', 'ping'):
        lines = holdfast(command, '--help').ends(DONE).out.splitlines()
        check(len(lines) <= 24 and all(len(line) <= 90 for line in lines), f'{command} --help')
    spray(1, '-c', '1').ends(CANNOT).says('SPRAYPROC_CLEAR', 'refused')
    holdfast('spray', 'no.such.host.invalid').ends(CANNOT).says('no.such.host.invalid')


# ---- our receiver ----------------------------------------------------------------------------

def adds_up(said):
    equal(said['refused_locally'] + said['lost_on_the_way'] + said['dropped_at_far_socket']
          + said['counted_by_receiver'], said['packets'], f'the sum of {said}')


def every_packet_is_accounted_for(work):
    with Serving(*quiet(work), f'{work}/export') as server:
        for arguments in (['-c', '1', '-l', '86'], ['-c', '1', '-l', '8845'],
                          ['-c', '20000', '-l', '86'], ['-c', '20000', '-l', '8845'],
                          ['--tcp', '-c', '3000', '-l', '1514'],
                          ['--both', '-c', '2000', '-l', '1514', '-d', '100']):
            said = numbers(server.port, *arguments)
            if '--tcp' in arguments:
                equal(said['counted_by_receiver'], 3000, 'over TCP')
            else:
                adds_up(said)
            if '--both' in arguments:
                equal(said['echoed'] + said['lost_on_the_way_back'], said['counted_by_receiver'],
                      'there and back')


def a_receiver_that_is_too_slow_is_told_apart(work):
    """The server is stopped while packets arrive: what its socket cannot hold is dropped there."""
    with Serving(*quiet(work), f'{work}/export') as server:
        spraying = subprocess.Popen(
            [BINARY, 'spray', '127.0.0.1', '--port', str(server.port), '-c', '20000', '-l', '8845',
             '-d', '100', '--json'], stdout=subprocess.PIPE, text=True)
        time.sleep(1)
        server.process.send_signal(signal.SIGSTOP)
        time.sleep(0.6)
        server.process.send_signal(signal.SIGCONT)
        said = json.loads(spraying.communicate(timeout=60)[0])
        adds_up(said)
        check(said['dropped_at_far_socket'] > 0, f'nothing was dropped at the socket: {said}')


def numbers_add_up_while_the_server_stands_still(work):
    """A hundred thousand packets without delay, to a server that is stopped among them."""
    with Serving(*quiet(work), f'{work}/export') as server:
        for length in ('86', '8845'):
            with subprocess.Popen(
                    [BINARY, 'spray', '127.0.0.1', '--port', str(server.port), '-c', '100000', '-l',
                     length, '--json'], stdout=subprocess.PIPE, text=True) as spraying:
                time.sleep(0.1)
                server.process.send_signal(signal.SIGSTOP)
                time.sleep(1)
                server.process.send_signal(signal.SIGCONT)
                said = json.loads(spraying.communicate(timeout=60)[0])
            equal(said['packets'], 100000, 'packets')
            adds_up(said)
        equal(numbers(server.port, '-c', '1', '-l', '86')['counted_by_receiver'], 1, 'afterwards')


def loss_on_the_way_is_not_the_sockets(work):
    """nft drops what comes in: the sender's kernel took it, the receiver's socket never saw it."""
    with Serving(*quiet(work), f'{work}/export') as server:
        with dropping(server.port, 'meta length > 500 numgen inc mod 10 == 0'):
            said = numbers(server.port, '-c', '1000', '-l', '1002', '-d', '50')
            adds_up(said)
            equal((said['lost_on_the_way'], said['dropped_at_far_socket']), (100, 0), 'loss')
            spray(server.port, '-c', '1000', '-l', '1002', '-d', '50').ends(FINDING).says(
                '100 packets (10.000%) dropped', '100 lost on the way', where='out')


def what_our_own_interface_drops_is_told_apart(work):
    """A slow interface with a short queue, at our end."""
    with Serving(*quiet(work), f'{work}/export') as server:
        subprocess.run('ip link set lo mtu 1500 && tc qdisc add dev lo root tbf rate 8mbit '
                       'burst 20k limit 20k', shell=True, check=True)
        try:
            said = numbers(server.port, '-c', '1000', '-l', '1002')
            adds_up(said)
            check(said['refused_locally'] > 100, f'nothing was refused here: {said}')
            equal(said['lost_on_the_way'], 0, 'lost on the way')
            said = numbers(server.port, '-c', '100', '-l', '1002', '-d', '3000')
            equal(said['refused_locally'], 0, 'refused, with a delay')
        finally:
            subprocess.run('tc qdisc del dev lo root; ip link set lo mtu 65536', shell=True,
                           check=True)


def the_knee_is_found(work):
    """A limit of 1000 packets a second, by nft."""
    with Serving(*quiet(work), f'{work}/export') as server:
        with dropping(server.port,
                      'meta length > 500 limit rate over 1000/second burst 100 packets'):
            ended = spray(server.port, '--ramp', '-l', '1002', '--json').ends(FINDING)
            said = json.loads(ended.out)
            check(said['clean_packets_per_second'] < 1700, said['clean_packets_per_second'])
            check(850 < said['lossy_packets_per_second'] < 2100, said['lossy_packets_per_second'])


def strangers_get_no_answer(work):
    """The export names nobody at 10.9.9.9, and the server does not answer its CLEAR."""
    subprocess.run('ip addr add 10.9.9.9/32 dev lo; ip addr add 10.9.9.8/32 dev lo', shell=True,
                   check=True)
    with Serving('--port', '0', '--portmap', 'off', '--bind', '10.9.9.8', '--state',
                 f'{work}/state', f'{work}/export 10.9.9.7(ro)') as server:
        for source, right in (('10.9.9.9', False), ('10.9.9.7', True)):
            subprocess.run(f'ip addr add {source}/32 dev lo', shell=True, check=False,
                           stderr=subprocess.DEVNULL)
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
                asking.bind((source, 0))
                asking.settimeout(1)
                asking.sendto(u32(7, 0, 2, 100012, 1, CLEAR, 0, 0, 0, 0), ('10.9.9.8', server.port))
                try:
                    asking.recv(100)
                    answered = True
                except socket.timeout:
                    answered = False
            equal(answered, right, f'an answer to {source}')


def answers_are_rationed(work):
    with Serving(*quiet(work), f'{work}/export') as server:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
            asking.settimeout(0.5)
            asking.connect(('127.0.0.1', server.port))
            for xid in range(2000):
                asking.send(u32(xid, 0, 2, 100012, 1, GET, 0, 0, 0, 0))
            answers = 0
            try:
                while asking.recv(100):
                    answers += 1
            except socket.timeout:
                pass
        check(50 <= answers <= 400, f'{answers} answers')


# ---- ping ------------------------------------------------------------------------------------

def ping_shows_what_is_there(work):
    with Serving(*quiet(work), f'{work}/export') as server:
        said = json.loads(holdfast('ping', '127.0.0.1', '--port', server.port, '-c', '10', '-i',
                                   '5', '--json').ends(DONE).out)
        seen = {(one['name'], one['version'], one['transport']) for one in said['targets']}
        for transport in ('udp', 'tcp'):
            check({('nfs', 3, transport), ('mount', 1, transport), ('mount', 3, transport),
                   ('spray', 1, transport), ('nlm', 4, transport)} <= seen, f'{seen}')
        check(('nfs', 4, 'tcp') not in seen and ('nlm', 2, 'udp') not in seen, f'{seen}')
        for one in said['targets']:
            equal((one['answered'], one['lost']), (10, 0), one['name'])
            check(0 < one['min_us'] <= one['p50_us'] <= one['p99_us'] <= one['max_us'], one)
        lines = holdfast('ping', '127.0.0.1', '--port', server.port, '-c', '2').ends(DONE).out
        check(re.search(r'^nfs +3 +udp +\d+ +2 +0( +[\d.]+){5}$', lines, re.MULTILINE), lines)


def ping_asks_the_portmapper(work):
    with Serving('--port', '0', '--portmap', 'on', '--bind', '127.0.0.1', '--state',
                 f'{work}/state', f'{work}/export'):
        said = json.loads(holdfast('ping', '127.0.0.1', '-c', '3', '-i', '1',
                                   '--json').ends(DONE).out)
        seen = {(one['name'], one['version'], one['transport']) for one in said['targets']}
        check({('portmap', 2, 'udp'), ('portmap', 2, 'tcp'), ('nfs', 3, 'udp'),
               ('spray', 1, 'tcp')} <= seen, f'{seen}')
        holdfast('spray', '127.0.0.1', '-c', '10').ends(DONE)


def a_stall_is_not_hidden(_):
    """A server that sleeps for 600 ms at its 100th call, 10 ms between calls: about 60 calls of 400
    were held up, not one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(('127.0.0.1', 0))

        def serve():
            calls = 0
            while True:
                try:
                    data, client = server.recvfrom(1000)
                except OSError:
                    return
                xid, _, _, prog, vers = struct.unpack('>5I', data[:20])
                there = (prog, vers) == (100003, 3)
                calls += there
                if calls == 100 and there:
                    time.sleep(0.6)
                server.sendto(u32(xid, 1, 0, 0, 0, 0 if there else 1), client)

        threading.Thread(target=serve, daemon=True).start()
        said = json.loads(holdfast('ping', '127.0.0.1', '--port', server.getsockname()[1], '-c',
                                   '400', '-i', '10', '-t', '5000', '--json', timeout=60).out)
        equal([(one['name'], one['transport']) for one in said['targets']], [('nfs', 'udp')],
              'what is there')
        one = said['targets'][0]
        equal((one['answered'], one['lost']), (400, 0), 'answers')
        check(one['p90_us'] > 50000 and one['max_us'] > 550000, f'the stall is hidden: {one}')


def ping_counts_what_is_lost(work):
    with Serving(*quiet(work), f'{work}/export') as server:
        with dropping(server.port, 'numgen random mod 7 < 2'):
            said = json.loads(holdfast('ping', '127.0.0.1', '--port', server.port, '-c', '40',
                                       '-i', '5', '-t', '300', '--json', timeout=60).out)
        udp = [one for one in said['targets'] if one['transport'] == 'udp']
        lost = sum(one['lost'] for one in udp)
        check(0.15 * 40 * len(udp) < lost < 0.45 * 40 * len(udp), f'{lost} of {40 * len(udp)}')
        for one in udp:
            equal(one['answered'] + one['lost'], 40, one['name'])
            check(one['max_us'] is None, f'the slowest was answered? {one}')
        equal(sum(one['lost'] for one in said['targets'] if one['transport'] == 'tcp'), 0, 'TCP')


if __name__ == '__main__':
    own_namespaces()
    os.umask(0o22)
    run([lines_are_the_classic_ones, counts_and_lengths_follow_the_classic_rules, a_delay_is_kept,
         a_classic_receiver_knows_no_more, usage, every_packet_is_accounted_for,
         a_receiver_that_is_too_slow_is_told_apart,
         numbers_add_up_while_the_server_stands_still, loss_on_the_way_is_not_the_sockets,
         what_our_own_interface_drops_is_told_apart, the_knee_is_found, strangers_get_no_answer,
         answers_are_rationed, ping_shows_what_is_there, ping_asks_the_portmapper,
         a_stall_is_not_hidden, ping_counts_what_is_lost])
