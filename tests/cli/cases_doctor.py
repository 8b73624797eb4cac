#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`holdfast doctor`: each layer is broken in turn, and it must say which."""
import contextlib
import json
import os
import signal
import subprocess
import time

from cli import (BINARY, DONE, FINDING, USAGE, Failure, Serving, check, equal, holdfast,
                 own_namespaces, quiet, run, slow_syncs)


def doctor(*arguments):
    return holdfast('doctor', *arguments, timeout=120)


def url(server, path, words=''):
    return f'nfs://127.0.0.1:{server.port}{path}?mountport={server.port}{words}'


def numbers(address, code=None):
    ended = doctor('--json', address)
    said = json.loads(ended.out)
    check(ended.code in ((DONE, FINDING) if code is None else (code,)),
          f'{ended.code}: {said["layers"]} {said["findings"]} {ended.err}')
    return said


def layers(said):
    return {layer['layer']: layer for layer in said['layers']}


def findings(said):
    return ' | '.join(one['finding'] for one in said['findings'])


def sh(command):
    subprocess.run(command, shell=True, check=True)


@contextlib.contextmanager
def slow_wire(rate):
    """lo as a wire of that rate. What the shaper lets pass after a pause is less than a packet."""
    sh(f'ip link set lo mtu 600 && tc qdisc add dev lo root tbf rate {rate} burst 700 limit 4m')
    try:
        yield
    finally:
        sh('tc qdisc del dev lo root; ip link set lo mtu 65536')


@contextlib.contextmanager
def filtered(rule):
    """lo as an Ethernet that loses what the nft rule says."""
    sh('ip link set lo mtu 1500')
    subprocess.run(['nft', '-f', '-'], text=True, check=True,
                   input=f'table netdev t {{\n chain c {{\n  type filter hook ingress device lo '
                         f'priority 0\n  {rule}\n }}\n}}\n')
    try:
        yield
    finally:
        sh('nft delete table netdev t; ip link set lo mtu 65536')


def all_is_well(work):
    with Serving(*quiet(work), f'{work}/export(rw,async,no_root_squash,insecure)') as server:
        said = numbers(url(server, f'{work}/export'), DONE)
        equal(said['findings'], [], 'findings')
        found = layers(said)
        for layer in ('name', 'interface', 'echo', 'packet sizes', 'NFS over tcp', 'NFS over udp',
                      'MOUNT', 'throughput', 'small files'):
            equal(found[layer]['state'], 'good', f'{layer}: {found[layer]["text"]}')
        doctor(url(server, f'{work}/export')).ends(DONE).says('Nothing is wrong', where='out')
        equal(os.listdir(f'{work}/export'), [], 'left behind')


def the_gain_of_not_waiting_is_foretold(work):
    """A flush of 20 ms at the end of 4 Mbit/s. What is said of `sync` must come true on `async`,
    within 25 percent; a busy machine gets three tries."""
    slow = slow_syncs(20000)
    tries = []
    for _ in range(3):
        took = {}
        for how in ('sync', 'async'):
            with slow_wire('4mbit'):
                with Serving(*quiet(work), f'{work}/export(rw,{how},no_root_squash,insecure)',
                             env=slow) as server:
                    said = numbers(url(server, f'{work}/export'))
            took[how] = said['baseline']['small_files']['unpack_ms']
            if how == 'sync':
                first = said['findings'][0]
                check('synchronous writing costs' in first['finding'], findings(said))
                foretold = first['times_faster']
        tries.append((foretold, took['sync'] / took['async']))
        if abs(foretold / tries[-1][1] - 1) < 0.25:
            return
    raise Failure(f'foretold and measured: {tries}')


def lost_fragments_are_found(work):
    with Serving(*quiet(work), f'{work}/export(rw,async,no_root_squash,insecure)') as server:
        with filtered('ip frag-off & 0x3fff != 0 drop'):
            said = numbers(url(server, f'{work}/export'), FINDING)
    for words in ('large packets are lost', 'large blocks over UDP lose datagrams'):
        check(words in findings(said), f'{words}: {findings(said)}')
    equal(said['path_mtu'], 1500, 'what passes whole')
    equal(layers(said)['NFS over udp']['state'], 'good', 'small calls')


def a_smaller_mtu_on_the_way_is_found(work):
    with Serving(*quiet(work), f'{work}/export(rw,async,no_root_squash,insecure)') as server:
        with filtered('icmp type echo-request ip length > 1234 drop'):
            said = numbers(url(server, f'{work}/export'), FINDING)
    equal(said['path_mtu'], 1234, 'what passes whole')
    check('packets must be smaller' in findings(said), findings(said))


def it_stops_where_a_layer_fails(work):
    def failed_at(address, layer):
        said = numbers(address, FINDING)
        equal((said['stopped'], said['layers'][-1]['layer'], said['layers'][-1]['state']),
              (True, layer, 'failed'), f'{address}: {said["layers"]}')
        check(said['findings'], 'nothing was found')
        return said

    failed_at('nfs://nohost.invalid/x', 'name')
    failed_at('nfs://192.0.2.1/x', 'route')
    failed_at('nfs://127.0.0.1:5?mountport=5', 'NFS')
    with Serving(*quiet(work), f'{work}/export 192.0.2.9(ro)') as server:
        failed_at(url(server, f'{work}/export'), 'export')
    with Serving('--port', '0', '--portmap', 'on', '--state', f'{work}/state',
                 f'{work}/export(rw,insecure)') as server:
        failed_at(f'nfs://127.0.0.1:5{work}/export', 'NFS')  # another port than the portmapper's
    with Serving(*quiet(work), f'{work}/export(ro,insecure)') as server:
        failed_at(url(server, f'{work}/export'), 'export')
    sh('ip link add v0 type veth peer name v1 && ip addr add 10.9.8.1/24 dev v0 && '
       'ip link set v0 up && ip link set v1 up')
    try:
        failed_at('nfs://10.9.8.7/x', 'echo')
    finally:
        sh('ip link del v0')


def a_layer_is_told_when_it_is_known(work):
    """The server has stopped: what is below it is told all the same, and at once."""
    with Serving(*quiet(work), f'{work}/export(rw,async,no_root_squash,insecure)') as server:
        server.process.send_signal(signal.SIGSTOP)
        with subprocess.Popen([BINARY, 'doctor', url(server, f'{work}/export')], text=True,
                              stdout=subprocess.PIPE) as process:
            told = [process.stdout.readline().split()[0] for _ in range(3)]
            equal((told, process.poll()), (['name', 'interface', 'echo'], None), 'layers')
            process.kill()
        server.process.send_signal(signal.SIGCONT)


def an_interrupt_leaves_nothing_behind(work):
    with Serving(*quiet(work), f'{work}/export(rw,async,no_root_squash,insecure)') as server:
        with subprocess.Popen([BINARY, 'doctor', url(server, f'{work}/export')],
                              stdout=subprocess.DEVNULL) as process:
            end = time.monotonic() + 30
            while not os.listdir(f'{work}/export'):
                check(time.monotonic() < end, 'no directory was made')
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=30)
        equal((process.returncode, os.listdir(f'{work}/export')), (-signal.SIGINT, []), 'the end')


def wrong_usage(_):
    doctor().ends(USAGE).says('nfs://HOST/PATH')
    doctor('--frobnicate', 'nfs://127.0.0.1/').ends(USAGE).says('--frobnicate')
    doctor('nfs://127.0.0.1/', 'nfs://127.0.0.2/').ends(USAGE).says('127.0.0.2')
    doctor('127.0.0.1').ends(USAGE)


if __name__ == '__main__':
    own_namespaces()
    run([all_is_well, the_gain_of_not_waiting_is_foretold, lost_fragments_are_found,
         a_smaller_mtu_on_the_way_is_found, it_stops_where_a_layer_fails,
         a_layer_is_told_when_it_is_known, an_interrupt_leaves_nothing_behind, wrong_usage])
