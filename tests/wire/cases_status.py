#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`holdfast status` and --metrics: what the server counts is what the tests sent, to the call and
to the byte; memory for it has a limit; nobody who asks for it disturbs anybody."""
import collections
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import time

import nfs
from nfs import Nfs, Server, call_message, check, equal, opaque, u32, u64

OPEN = 'rw,async,no_root_squash,insecure'
CLIENT_COUNT_MAX = 1024  # STATS_CLIENT_COUNT_MAX
SECONDS_MAX = 20


def status(server, *more):
    done = subprocess.run([server.binary, 'status', '--state', server.state, *more],
                          capture_output=True, check=False, timeout=60)
    check(done.returncode == 0, f'status ended with {done.returncode}: {done.stderr!r}')
    return done.stdout.decode()


def asked(server):
    return json.loads(status(server, '--json'))


def rows(report):
    """(client, export, procedure): its numbers"""
    return {(client['client'], export['export'], operation['procedure']): operation
            for client in report['clients'] for export in client['exports']
            for operation in export['operations']}


def eventually(what, right):
    """A reply may be here a moment before it is counted."""
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        seen = what()
        if seen == right or time.monotonic() > deadline:
            return equal(seen, right, 'counts')
        time.sleep(0.05)


class Counting:
    """A transport that keeps its own books: for each procedure calls, errors and bytes."""

    def __init__(self, transport, books, client):
        self.transport, self.books, self.client = transport, books, client
        self.export = None

    def exchange(self, message):
        reply = self.transport.exchange(message)
        prog, _, proc = (int.from_bytes(message[at:at + 4], 'big') for at in (12, 16, 20))
        names = {(nfs.NFS, nfs.NULL): 'NULL', (nfs.NFS, nfs.GETATTR): 'GETATTR',
                 (nfs.NFS, nfs.LOOKUP): 'LOOKUP', (nfs.NFS, nfs.WRITE): 'WRITE',
                 (nfs.NFS, nfs.READ): 'READ', (nfs.NFS, nfs.CREATE): 'CREATE'}
        if (prog, proc) in names:
            failed = len(reply) > 24 and reply[24:28] != bytes(4)
            name = 'NFSPROC3_' + names[prog, proc]
            export = None if proc == nfs.NULL else self.export
            self.books[self.client, export, name].update(
                calls=1, errors=int(failed), bytes_in=len(message), bytes_out=len(reply))
        return reply


def booked(report, books):
    """The server's numbers for what is in the books."""
    seen = rows(report)
    return {key: {name: seen.get(key, {}).get(name) for name in
                  ('calls', 'errors', 'bytes_in', 'bytes_out')} for key in books}


def right(books):
    return {key: {name: counts[name] for name in ('calls', 'errors', 'bytes_in', 'bytes_out')}
            for key, counts in books.items()}


def work_on(client, export):
    root = client.mount(export).fh
    client.transport.export = export
    client.null()
    for i in range(7):
        file = client.create(root, f'f{i}').fh
        equal(client.write(file, 0, bytes(100 * i), nfs.UNSTABLE).status, nfs.OK, 'WRITE')
    for i in range(20):
        equal(client.lookup(root, f'f{i}').status, nfs.OK if i < 7 else nfs.NOENT, 'LOOKUP')
    equal(client.write(file, 0, bytes(60000), nfs.UNSTABLE).status, nfs.OK, 'WRITE')
    for size in (0, 100, 16384, 40000):
        equal(client.read(file, 0, size).status, nfs.OK, 'READ')
    equal(client.getattr(bytes(32)).status, nfs.BADHANDLE, 'GETATTR of no handle')


def counts_are_what_was_sent():
    books = collections.defaultdict(collections.Counter)
    server = Server(directories=[f'@work/{name} 127.0.0.0/8({OPEN})'
                                 for name in ('export', 'second')])
    second = os.path.join(server.work, 'second')
    os.mkdir(second)
    with server:
        for source, export in (('127.0.0.2', server.export), ('127.0.0.2', second),
                               ('127.0.0.3', second)):
            for transport in (server.tcp, server.udp):
                with transport(source=(source, 0)) as connection:
                    client = Nfs(Counting(connection, books, source))
                    work_on(client, export)
        # GETATTR of a handle that is none is on no export.
        for source in ('127.0.0.2', '127.0.0.3'):
            key = [(source, export, 'NFSPROC3_GETATTR')
                   for export in (server.export, second, None)]
            moved = collections.Counter()
            for old in key:
                moved.update(books.pop(old, {}))
            books[key[2]] = moved
        eventually(lambda: booked(asked(server), books), right(books))
        report = asked(server)
        equal([export['path'] for export in report['exports']],
              [server.export, second], 'exports')
        for key, row in rows(report).items():
            for phase in ('total', 'queue', 'file_system', 'send'):
                equal(row['latency'][phase]['calls'], row['calls'], f'{key}: calls with {phase}')
        sums = collections.Counter()
        for row in rows(report).values():
            sums[row['procedure']] += row['calls']
        equal({row['procedure']: row['calls'] for row in report['operations']}, dict(sums), 'sums')


def calls_that_come_together_are_counted_one_by_one(server):
    """Pipelined, with large replies that a client takes late."""
    before = rows(asked(server))
    with server.tcp() as connection:
        client = Nfs(connection)
        root = server.root(client)
        file = client.new_file(root, 'large', bytes(1 << 20))
        for _ in range(100):
            connection.send(nfs.record(call_message(nfs.NFS, 3, nfs.GETATTR, opaque(file))))
        for _ in range(20):
            connection.send(nfs.record(call_message(nfs.NFS, 3, nfs.READ, opaque(file) + u64(0)
                                                    + u32(1 << 20))))
        time.sleep(0.5)
        for _ in range(120):
            connection.receive()

    def seen():
        now = rows(asked(server))
        out = {}
        for name in ('GETATTR', 'READ'):
            key = ('127.0.0.1', server.export, f'NFSPROC3_{name}')
            old = before.get(key, {'calls': 0, 'latency': {}})
            out[name] = (now[key]['calls'] - old['calls'],
                         now[key]['latency']['send']['calls']
                         - old['latency'].get('send', {'calls': 0})['calls'])
        return out
    eventually(seen, {'GETATTR': (100, 100), 'READ': (20, 20)})


def who_goes_away_is_counted_too(server):
    """The replies never leave: such calls have no sending time."""
    file = None
    with server.tcp() as connection:
        client = Nfs(connection)
        file = client.new_file(server.root(client), 'left', bytes(1 << 20))
    key = ('127.0.0.9', server.export, 'NFSPROC3_READ')
    connection = server.tcp(source=('127.0.0.9', 0))
    connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b'\1\0\0\0\0\0\0\0')
    for _ in range(40):
        connection.send(nfs.record(call_message(nfs.NFS, 3, nfs.READ, opaque(file) + u64(0)
                                                + u32(1 << 20))))
    time.sleep(0.5)
    connection.close()

    def seen():
        report = asked(server)
        clients = {client['client']: client['connections'] for client in report['clients']}
        row = rows(report).get(key, {'calls': 0, 'latency': {'send': {'calls': 0}}})
        sent = row['latency'].get('send', {'calls': 0})['calls']
        return clients.get('127.0.0.9'), 0 < row['calls'] <= 40, sent < 40
    eventually(seen, (0, True, True))


def what_waits_for_the_disk_is_told_apart():
    """Syncs that take 30 ms: the wait is in stable storage, and in the total."""
    slow = os.environ.get('HOLDFAST_SLOWSYNC')
    check(slow, 'HOLDFAST_SLOWSYNC is not set')
    asan = os.environ.get('ASAN_OPTIONS', '') + ':verify_asan_link_order=0'
    prefix = ['env', f'LD_PRELOAD={slow}', 'SLOWSYNC_US=30000', f'ASAN_OPTIONS={asan}']
    with Server('rw,sync,no_root_squash,insecure', ['--journal', 'off'], prefix) as server:
        client = server.nfs()
        root = server.root(client)
        for i in range(5):
            equal(client.create(root, f'f{i}').status, nfs.OK, 'CREATE')
        key = ('127.0.0.1', server.export, 'NFSPROC3_CREATE')

        def parked():
            return rows(asked(server))[key]['latency'].get('stable_storage', {}).get('calls')
        eventually(parked, 5)
        latency = rows(asked(server))[key]['latency']
        for phase in ('stable_storage', 'total'):
            for name in ('mean_us', 'p99_us'):
                check(latency[phase][name] >= 30000 * 3 / 4, f'{phase}: {latency[phase]}')
        equal(latency['queue']['calls'], 5, 'calls')
        mounted = rows(asked(server))['127.0.0.1', server.export, 'MOUNTPROC3_MNT']['latency']
        check('stable_storage' not in mounted, f'MNT: {mounted}')
        report = asked(server)
        check('times faster' in report['verdict'] and report['verdict'].startswith('syncing'),
              report['verdict'])
        check(report['verdict'] in status(server), 'the verdict is not in the text')
        journal = report['journals'][0]
        equal((journal['path'], journal['failed'], journal['waiting']), (None, False, 0), 'journal')
        check(journal['changes'] >= 5 and 1 <= journal['batches'] <= journal['changes'], journal)
        check(journal['sync_us']['p50'] >= 30000 * 3 / 4, journal)


def the_log_is_shown():
    """What is in it, and what a flush of the disk takes."""
    with Server('rw,sync,no_root_squash,insecure').log_inside() as server:
        client = server.nfs()
        root = server.root(client)
        for i in range(50):
            client.new_file(root, f'f{i}', b'data')
        report = asked(server)
        equal([journal['path'] for journal in report['journals']],
              [None, f'{server.export}/.holdfast/journal'], 'journals')
        journal = report['journals'][1]
        check(journal['size_bytes'] >= 60 << 20, journal)
        check(0 < journal['used_bytes'] < journal['size_bytes'] or journal['checkpoints'] > 0,
              journal)
        check(journal['changes'] >= 100 and journal['batches'] >= 1, journal)
        equal(journal['flush_us']['count'], journal['batches'], 'flushes')
        check(journal['batch_changes']['mean'] * journal['batches'] <= journal['changes'] + 1,
              journal)
        check('/.holdfast/journal: ' in status(server), 'the text does not have it')


def what_cannot_be_run_is_refused(server):
    before = {client['client']: client for client in asked(server)['clients']}
    equal(before.get('127.0.0.5'), None, 'an address that has not called yet')
    with server.udp(source=('127.0.0.5', 0)) as connection:
        equal(nfs.Reply(connection.exchange(call_message(nfs.NFS, 9, 0))).accept_stat,
              nfs.PROG_MISMATCH, 'version 9')
        equal(nfs.Reply(connection.exchange(call_message(nfs.NFS, 3, nfs.GETATTR))).accept_stat,
              nfs.GARBAGE_ARGS, 'no arguments')
        created = call_message(nfs.NFS, 3, nfs.MKDIR, opaque(server.root()) + opaque('once')
                               + nfs.sattr())
        first = connection.exchange(created)
        for _ in range(3):
            equal(connection.exchange(created), first, 'the reply to a copy')

    def seen():
        client = {client['client']: client for client in asked(server)['clients']}['127.0.0.5']
        return client['refused'], client['retransmissions'], client['connections']
    eventually(seen, (2, 3, 0))


def clients_have_a_limit():
    """Thousands of addresses: those who came first are counted by themselves, the others together,
    and not one call is lost."""
    addresses = 3000
    with Server(directories=[f'@work/export 127.0.0.0/8({OPEN})']) as server:
        client = server.nfs(source=('127.0.0.1', 0))
        root = server.root(client)
        client.getattr(root)
        before = server.rss_kb()
        for i in range(addresses):
            with server.udp(source=(f'127.1.{i // 250}.{i % 250 + 1}', 0)) as connection:
                stranger = Nfs(connection)
                stranger.null()
                equal(stranger.getattr(root).status, nfs.OK, 'GETATTR')
        client.getattr(root)

        def calls():
            report = asked(server)
            return {row['procedure']: row['calls'] for row in report['operations']
                    if row['procedure'] in ('NFSPROC3_NULL', 'NFSPROC3_GETATTR')}
        eventually(calls, {'NFSPROC3_NULL': addresses, 'NFSPROC3_GETATTR': addresses + 2})
        report = asked(server)
        equal(len(report['clients']), CLIENT_COUNT_MAX + 1, 'clients with others')
        seen = rows(report)
        equal(seen['127.0.0.1', server.export, 'NFSPROC3_GETATTR']['calls'], 2, 'of the first')
        equal(seen['others', server.export, 'NFSPROC3_GETATTR']['calls'],
              addresses + 1 - CLIENT_COUNT_MAX, 'GETATTRs of others')
        limits = {limit['name']: limit for limit in report['limits']}
        equal(limits['counted_clients'], {'name': 'counted_clients', 'limit': CLIENT_COUNT_MAX,
                                          'used': CLIENT_COUNT_MAX}, 'the limit')
        grown = server.rss_kb() - before
        check(server.has_sanitizer() or grown < 64 * 1024, f'grown by {grown} KiB')


def exports_that_are_gone_keep_their_numbers():
    """After a reload: counts of an export that went stay, and say so."""
    server = Server(directories=[])
    file = os.path.join(server.work, 'exports')
    os.mkdir(os.path.join(server.work, 'other'))
    lines = [f'{server.export} 127.0.0.1({OPEN})\n', f'{server.work}/other 127.0.0.1({OPEN})\n']
    with open(file, 'w', encoding='ascii') as out:
        out.writelines(lines)
    server.arguments += ['--exports', file]
    with server:
        client = server.nfs()
        root = client.mount(f'{server.work}/other').fh
        for _ in range(9):
            client.getattr(root)
        with open(file, 'w', encoding='ascii') as out:
            out.writelines(lines[:1])
        subprocess.run([server.binary, 'exports', 'reload', '--state', server.state], check=True,
                       stdout=subprocess.DEVNULL)
        equal(client.getattr(root).status, nfs.STALE, 'GETATTR of what is no export')

        def gone():
            return [(export['export'], operation['calls'])
                    for client in asked(server)['clients'] for export in client['exports']
                    if export['gone'] for operation in export['operations']
                    if operation['procedure'] == 'NFSPROC3_GETATTR']
        eventually(gone, [(None, 9)])
        equal([export['path'] for export in asked(server)['exports']], [server.export], 'exports')


def status_disturbs_nobody(server):
    """Asked for all the time, while calls run."""
    client = server.nfs()
    root = server.root(client)
    end = time.monotonic() + 2
    asking = subprocess.Popen(['sh', '-c', f'while :; do "$0" status --json --state "$1" '
                               '>/dev/null || exit 9; done', server.binary, server.state])
    count = 0
    try:
        while time.monotonic() < end:
            equal(client.getattr(root).status, nfs.OK, 'GETATTR')
            count += 1
        equal(asking.poll(), None, 'the one who asks')
    finally:
        asking.send_signal(signal.SIGTERM)
        asking.wait()
    check(count > 0, 'no calls')


# ---- an independent count --------------------------------------------------------------------

def tshark_counts_the_same():
    """tcpdump watches; tshark counts the replies by client and procedure."""
    with Server(directories=[f'@work/export 127.0.0.0/8({OPEN})']) as server:
        capture = os.path.join(server.work, 'capture')
        dump = subprocess.Popen(['tcpdump', '-i', 'lo', '-U', '--immediate-mode', '-B', '16384',
                                 '-w', capture, '-Z', 'root', f'port {server.port}'],
                                stderr=subprocess.PIPE, text=True)
        try:
            check('listening on' in dump.stderr.readline(), 'tcpdump does not listen')
            for source, times in (('127.0.0.2', 3), ('127.0.0.3', 5)):
                for transport in (server.tcp, server.udp):
                    with transport(source=(source, 0)) as connection:
                        client = Nfs(connection)
                        root = client.mount(server.export).fh
                        for i in range(times):
                            file = client.new_file(root, f'{source}-{i}', b'data')
                            client.getattr(file)
                            client.lookup(root, 'nobody')
                            client.read(file, 0, 4)
            size = -1
            while size != os.path.getsize(capture):
                size = os.path.getsize(capture)
                time.sleep(1)
        finally:
            dump.terminate()
            dump.communicate()
        seen = subprocess.run(
            ['tshark', '-r', capture, '-d', f'udp.port=={server.port},rpc', '-d',
             f'tcp.port=={server.port},rpc', '-Y', 'rpc.msgtyp == 1 && rpc.program == 100003',
             '-T', 'fields', '-e', 'ip.dst', '-e', 'rpc.procedure', '-e', 'nfs.status3'],
            capture_output=True, text=True, check=True).stdout
        wire = collections.Counter()
        for line in seen.splitlines():
            client, proc, status3 = (*line.split('\t'), '')[:3]
            wire[client, int(proc), status3 not in ('0', '')] += 1
        check(sum(wire.values()) > 50, f'tshark has seen {dict(wire)}')
        numbers = {'GETATTR': nfs.GETATTR, 'LOOKUP': nfs.LOOKUP, 'READ': nfs.READ,
                   'WRITE': nfs.WRITE, 'CREATE': nfs.CREATE}

        def told():
            counts = collections.Counter()
            for (client, _, procedure), row in rows(asked(server)).items():
                if procedure.startswith('NFSPROC3_'):
                    proc = numbers[procedure[9:]]
                    counts[client, proc, True] += row['errors']
                    counts[client, proc, False] += row['calls'] - row['errors']
            return +counts
        eventually(told, wire)


# ---- metrics ---------------------------------------------------------------------------------

def get(server, path='/metrics', method='GET'):
    host, port = re.search(r'http://([^/]+):(\d+)/', server.messages()).groups()
    connection = http.client.HTTPConnection(host.strip('[]'), int(port), timeout=20)
    connection.request(method, path)
    reply = connection.getresponse()
    return reply.status, dict(reply.getheaders()), reply.read()


def metrics_are_well_formed():
    """Every line, by Prometheus' own parser; and the numbers are those of status."""
    from prometheus_client.parser import text_string_to_metric_families
    odd = 'o"d\\d\tna\xffme'.encode('latin-1')
    server = Server(directories=[], arguments=['--metrics', '127.0.0.1:0'])
    os.mkdir(os.path.join(os.fsencode(server.work), odd))
    server.directories = [f'{server.export}({OPEN})',
                          os.fsencode(server.work) + b'/' + odd]
    with server:
        for directory in (server.export.encode(), os.fsencode(server.work) + b'/' + odd):
            with server.tcp() as connection:
                client = Nfs(connection)
                root = client.mount(os.fsdecode(directory).encode('utf-8', 'surrogateescape')).fh
                for _ in range(11):
                    client.getattr(root)
                client.lookup(root, 'nobody')
        key = ('127.0.0.1', server.export, 'NFSPROC3_LOOKUP')
        eventually(lambda: rows(asked(server)).get(key, {}).get('errors'), 1)
        code, headers, body = get(server)
        equal((code, headers['Content-Type']),
              (200, 'text/plain; version=0.0.4; charset=utf-8'), 'the reply')
        families = {family.name: family
                    for family in text_string_to_metric_families(body.decode('utf-8'))}
        calls = {(sample.labels['client'], sample.labels['export'], sample.labels['procedure']):
                 sample.value for sample in families['holdfast_calls'].samples}
        told = {(key[0], key[1] or '', key[2]): row['calls']
                for key, row in rows(asked(server)).items()}
        plain = {(client, re.sub('[\udc80-\udcff]', '\ufffd', export), procedure): count
                 for (client, export, procedure), count in told.items()}
        equal(calls, plain, 'calls')
        check(any('o"d\\d' in key[1] for key in calls), f'no odd name in {list(calls)}')
        histograms_are_sound(families['holdfast_call_duration_seconds'], asked(server))
        for family in families.values():
            check(family.documentation and family.type != 'unknown', f'{family.name}: no help')
        check(b'o\\"d' in body, 'quotes are escaped')
        equal('o"d' in status(server), True, 'the text has it, too')


def histograms_are_sound(family, report):
    series = collections.defaultdict(list)
    counts = {}
    for sample in family.samples:
        key = (sample.labels['procedure'], sample.labels['phase'])
        if sample.name.endswith('_bucket'):
            series[key].append((float(sample.labels['le']), sample.value))
        elif sample.name.endswith('_count'):
            counts[key] = sample.value
    check(len(series) > 5, f'{len(series)} series')
    for key, buckets in series.items():
        equal(buckets, sorted(buckets), f'{key}: edges and counts grow')
        equal(buckets[-1], (float('inf'), counts[key]), f'{key}: the last bucket')
    told = {(row['procedure'], phase): latency['calls'] for row in report['operations']
            for phase, latency in row['latency'].items()}
    equal(counts, told, 'counts of histograms')


def only_metrics_are_served():
    with Server(arguments=['--metrics', '127.0.0.1:0']) as server:
        equal(get(server, '/')[0], 404, '/')
        equal(get(server, '/metrics', 'POST')[0], 405, 'POST')
        code, headers, body = get(server, '/metrics', 'HEAD')
        equal((code, body, int(headers['Content-Length']) > 1000), (200, b'', True), 'HEAD')
        url = asked(server)['metrics']
        check(url in server.messages(), f'{url} is not what the log has')
        host, port = re.search(r'http://([^/]+):(\d+)/', url).groups()
        with socket.create_connection((host, int(port)), timeout=20) as connection:
            connection.sendall(b'\0' * 100000)
            try:
                connection.recv(65536)
            except ConnectionError:
                pass
        equal(get(server)[0], 200, 'after noise')
        halves = [socket.create_connection((host, int(port)), timeout=20) for _ in range(40)]
        for half in halves:
            half.sendall(b'GET /metr')
        server.nfs().null()
        for half in halves:
            half.close()
        end = time.monotonic() + SECONDS_MAX
        while True:  # until it has seen that they are gone
            try:
                equal(get(server)[0], 200, 'after them')
                break
            except (ConnectionError, http.client.HTTPException):
                check(time.monotonic() < end, 'their places are not given back')
                time.sleep(0.1)


if __name__ == '__main__':
    nfs.run([counts_are_what_was_sent, calls_that_come_together_are_counted_one_by_one,
             who_goes_away_is_counted_too, what_waits_for_the_disk_is_told_apart,
             the_log_is_shown, what_cannot_be_run_is_refused, clients_have_a_limit,
             exports_that_are_gone_keep_their_numbers, status_disturbs_nobody,
             tshark_counts_the_same, metrics_are_well_formed,
             only_metrics_are_served], options=OPEN)
