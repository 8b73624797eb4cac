#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""holdfast status: what an admin sees, and what they hear when there is nothing to see."""
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'wire'))
import nfs  # noqa: E402  (the path comes first)
from cli import (BINARY, CANNOT, DONE, USAGE, Serving, check, equal, holdfast,  # noqa: E402
                 quiet, run)


def status(work, *more):
    return holdfast('status', '--state', f'{work}/state', *more)


def text_has_it_all(work):
    with Serving(*quiet(work), f'{work}/export(rw,sync,insecure)') as server:
        client = nfs.Nfs(nfs.Tcp(server.port))
        root = client.mount(f'{work}/export').fh
        for _ in range(5):
            equal(client.getattr(root).status, nfs.OK, 'GETATTR')
        client.lookup(root, 'nobody')
        said = status(work).ends(DONE)
        said.says(f'port {server.port}', '1 connection,', f'{work}/export', 'rw,sync',
                  '0 locks held', '127.0.0.1: 1 connection,', 'nfs 3 GETATTR',
                  'mount 3 MNT', 'locks and waiters', where='out')
        row = re.search(r'nfs 3 LOOKUP +(\d+) +(\d+) ', said.out)
        equal(row.groups(), ('1', '1'), 'calls and errors of LOOKUP')
        check(re.search(r'nfs 3 GETATTR( +\d+){2}( +\d+ [kM]?B){2}( +[\d.]+ [mu]?s){5} ', said.out),
              said.out)
        client.transport.close()


def json_is_json(work):
    with Serving(*quiet(work), f'{work}/export') as server:
        report = json.loads(status(work, '--json').ends(DONE).out)
        equal((report['port'], report['pid'], report['metrics']),
              (server.port, server.process.pid, None), 'the server')
        equal(report['clients'], [], 'clients')
        equal([export['path'] for export in report['exports']], [f'{work}/export'], 'exports')
        equal(report['exports'][0]['open'], True, 'open')
        for limit in report['limits']:
            check(limit['limit'] > 0 and limit.get('used', 0) <= limit['limit'], limit)
        names = [limit['name'] for limit in report['limits']]
        equal(len(set(names)), len(names), 'names of limits')


def all_clients_are_shown_when_asked_for(work):
    with Serving(*quiet(work), f'{work}/export') as server:
        for i in range(12):
            with nfs.Udp(server.port, source=(f'127.0.1.{i + 1}', 0)) as connection:
                for _ in range(i + 1):
                    nfs.Nfs(connection).null()
        few = status(work).ends(DONE).out
        check('127.0.1.12:' in few and '127.0.1.1:' not in few, few)
        check('and 2 clients with fewer calls' in few, few)
        check('127.0.1.1:' in status(work, '--all').ends(DONE).out, 'all are not shown')


def watching_shows_what_is_done_meanwhile(work):
    with Serving(*quiet(work), f'{work}/export(rw,sync,insecure)') as server:
        client = nfs.Nfs(nfs.Tcp(server.port))
        root = client.mount(f'{work}/export').fh
        for _ in range(3):
            equal(client.getattr(root).status, nfs.OK, 'GETATTR')
        watch = subprocess.Popen([BINARY, 'status', '--watch=0.2', '--state', f'{work}/state'],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        check(' calls/s, in ' in watch.stdout.readline(), 'the first line')
        for _ in range(50):
            client.lookup(root, 'nobody')
        lines = ['']
        while not any('nfs 3 LOOKUP' in line for line in lines) or '127.0.0.1 ' not in lines[-1]:
            lines.append(watch.stdout.readline())
            check(lines[-1], 'it has ended')
        row = next(line.split() for line in lines if 'nfs 3 LOOKUP' in line)
        check(float(row[3]) >= float(row[4]) > 0, f'calls and errors of each second: {row}')
        check(not any('GETATTR' in line for line in lines), 'what was done before')
        client.transport.close()
        server.stop()
        _, err = watch.communicate(timeout=20)
        equal(watch.returncode, CANNOT, 'the end')
        check('no server answers' in err, err)


def names_may_have_any_bytes(work):
    odd = os.fsencode(work) + b'/ex\xffport \\udc41'
    os.mkdir(odd)
    with Serving(*quiet(work), f'{work}/export', os.fsdecode(odd)):
        said = holdfast('status', '--state', f'{work}/state',).ends(DONE)
        check('/ex\ufffdport \\udc41' in said.out, said.out)
        report = json.loads(holdfast('status', '--json', '--state', f'{work}/state').out)
        equal(os.fsencode(report['exports'][1]['path']), odd, 'the path')


def without_a_server_it_says_so(work):
    status(work).ends(CANNOT).says('no server answers', f'{work}/state')
    status(work, '--json').ends(CANNOT).says('no server answers')


def wrong_usage_is_said(work):
    status(work, '--frobnicate').ends(USAGE).says('--frobnicate')
    holdfast('status', 'more').ends(USAGE)
    for watch in ('--watch=', '--watch=0', '--watch=soon', '--watch=1e9', '--watch=nan'):
        status(work, watch).ends(USAGE).says(watch, 'seconds')
    status(work, '--watch', '--json').ends(USAGE).says('--json')
    for address in ('127.0.0.1', '::1:80', 'nowhere.invalid:1', '127.0.0.1:', '127.0.0.1:http',
                    '127.0.0.1:65536', '127.0.0.1:-1'):
        ended = holdfast('serve', *quiet(work), '--metrics', address, f'{work}/export')
        ended.ends(CANNOT).says(address)


def a_taken_port_is_said(work):
    with Serving(*quiet(work), '--metrics', '[::1]:0', f'{work}/export') as server:
        url = json.loads(status(work, '--json').ends(DONE).out)['metrics']
        port = re.fullmatch(r'http://\[::1\]:(\d+)/metrics', url).group(1)
        os.mkdir(f'{work}/second')
        os.mkdir(f'{work}/second/state', 0o700)
        second = holdfast('serve', *quiet(f'{work}/second'), '--metrics', f'[::1]:{port}',
                          f'{work}/export')
        second.ends(CANNOT).says('in use')
        server.stop()


if __name__ == '__main__':
    run([text_has_it_all, json_is_json, all_clients_are_shown_when_asked_for,
         watching_shows_what_is_done_meanwhile,
         names_may_have_any_bytes, without_a_server_it_says_so, wrong_usage_is_said,
         a_taken_port_is_said])
