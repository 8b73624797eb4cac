#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`holdfast baseline`: the stories it must tell, the numbers it must get right, what it leaves."""
import contextlib
import glob
import json
import os
import re
import signal
import statistics
import subprocess
import time
import xml.dom.minidom

from cli import (BINARY, CANNOT, DONE, FINDING, USAGE, Serving, check, equal, holdfast,
                 own_namespaces, quiet, run, slow_syncs, write)


def baseline(*arguments, **more):
    return holdfast('baseline', *arguments, timeout=120, **more)


def url(server, path, words=''):
    return f'nfs://127.0.0.1:{server.port}{path}?mountport={server.port}{words}'


def serving(work, options='rw,sync,no_root_squash,insecure', **more):
    return Serving(*quiet(work), f'{work}/export({options})', **more)


def numbers(*arguments):
    ended = baseline('--json', *arguments)
    check(ended.code in (DONE, FINDING), f'{ended.code}: {ended.err}')
    return json.loads(ended.out)


def points(said, **where):
    """The points that are so, by block size."""
    return {point['block_bytes']: point for point in said['points']
            if all(point[key] == value for key, value in where.items())}


@contextlib.contextmanager
def bursts_are_dropped():
    """An Ethernet whose receiver has room for two full frames in a row, and then is quick."""
    subprocess.run(['ip', 'link', 'set', 'lo', 'mtu', '1500'], check=True)
    rules = ('table netdev t {\n chain c {\n  type filter hook ingress device lo priority 0\n'
             '  ip protocol udp ip length > 500 limit rate over 1000/second burst 2 packets drop\n'
             ' }\n}\n')
    subprocess.run(['nft', '-f', '-'], input=rules, text=True, check=True)
    try:
        yield
    finally:
        subprocess.run(['nft', 'delete', 'table', 'netdev', 't'], check=True)
        subprocess.run(['ip', 'link', 'set', 'lo', 'mtu', '65536'], check=True)


# ---- stories ---------------------------------------------------------------------------------

def the_block_size_that_works_is_found(work):
    """1 KiB is slow and clean, 8 KiB collapses into one-second waits, 2 KiB is best; TCP needs no
    such care."""
    with serving(work) as server, bursts_are_dropped():
        arguments = ['--kind', 'read', '--block', '1k,2k,4k,8k', '--in-flight', '1', '--delay',
                     '12000', '--size', '128k', '--files', '0', '--time', '1',
                     url(server, f'{work}/export', '&timeo=10')]
        said = numbers(*arguments)
        udp = points(said, transport='udp')
        equal([udp[size]['fragments'] for size in (1024, 2048, 4096, 8192)], [1, 2, 3, 6],
              'fragments')
        for size in (1024, 2048):
            equal(udp[size]['retransmitted'], 0, f'retransmitted with {size}')
        check(udp[2048]['bytes_per_second'] > 1.2 * udp[1024]['bytes_per_second'], udp)
        for size in (4096, 8192):
            check(udp[size]['retransmitted'] > 0, udp[size])
            check(udp[size]['waited_s'] > 0.7 * udp[size]['elapsed_s'], udp[size])
            check(udp[size]['bytes_per_second'] < udp[1024]['bytes_per_second'] / 2, udp[size])
        choice = {one['transport']: one['block_bytes'] for one in said['choice']}
        equal(choice['udp'], 2048, 'the block size for UDP')
        text = json.dumps(said['advice'])
        for words in ('reading over udp: 2 KiB is the block size to choose', 'rsize=2048',
                      'large blocks over UDP lose datagrams', '6 IP fragments', 'use TCP'):
            check(words in text, f'{words!r} is not said in {text}')


def stable_storage_is_told_from_the_network(work):
    """A flush of 20 ms: CREATE, COMMIT and SETATTR wait for one each, LOOKUP for none; on an async
    export nobody does."""
    slow = slow_syncs(20000)
    for how, waits in (('sync', True), ('async', False)):
        with serving(work, f'rw,{how},no_root_squash,insecure', env=slow) as server:
            said = numbers('--kind', 'read', '--block', '64k', '--size', '64k', '--time', '0.02',
                           '--proto', 'tcp', '--files', '10', url(server, f'{work}/export'))
        small = said['small_files']
        medians = {op['name']: op['p50_ms'] for op in small['operations']}
        equal(small['waits_for_storage'], waits, how)
        text = json.dumps(said['advice'])
        if waits:
            for name in ('CREATE', 'COMMIT', 'SETATTR', 'WRITE FILE_SYNC', 'REMOVE'):
                check(medians[name] >= 20, f'{name}: {medians[name]} ms')
            check(60 <= small['storage_ms'] <= small['unpack_ms'], small)
            check('synchronous writing costs' in text, text)
        else:
            check('does not keep small files waiting' in text, text)


def several_files_at_a_time_share_the_wait(work):
    """A real archive, unpacked one file at a time and eight: every call of it is counted, those
    that sync waits for are no secret, and the waiting is not blamed on the wire."""
    archive = f'{work}/some.tar.gz'
    for i in range(3):
        os.makedirs(f'{work}/tree/d{i}')
    for i in range(24):
        write(f'{work}/tree/d{i % 3}/f{i}', 'words ' * i)
    write(f'{work}/tree/large', 'long ' * 500000)
    os.symlink('d0/f0', f'{work}/tree/symlink')
    os.link(f'{work}/tree/d0/f3', f'{work}/tree/link')
    os.mkfifo(f'{work}/tree/fifo')
    subprocess.run(['tar', 'czf', archive, '-C', work, 'tree'], check=True)
    slow = slow_syncs(20000)
    rates = {}
    for how in ('sync', 'async'):
        with serving(work, f'rw,{how},no_root_squash,insecure', env=slow) as server:
            said = numbers('--kind', 'read', '--block', '64k', '--size', '64k', '--time', '0.02',
                           '--proto', 'tcp', '--files', '3', '--tar', archive,
                           url(server, f'{work}/export'))
        one, eight = said['unpacking']
        for run_, most in ((one, 1), (eight, 8)):
            # Of two names of a file the second one in the archive is the link.
            equal((run_['at_a_time'], run_['files'], run_['directories'], run_['links'],
                   run_['skipped']), (most, 25, 4, 2, 1), how)
            calls = {op['name']: op['calls'] for op in run_['operations']}
            equal((calls['LOOKUP'], calls['CREATE'], calls['SETATTR'], calls['MKDIR'],
                   calls['SYMLINK, LINK']), (25, 25, 25, 4, 2), how)
            equal(calls['COMMIT'], 24, 'COMMITs: not of the empty one')
            check(calls['WRITE'] >= 24 + 2, calls)
            equal(run_['bytes'], sum(6 * i for i in range(24)) + 5 * 500000, 'bytes')
        medians = {op['name']: op['p50_ms'] for op in one['operations']}
        for name in ('CREATE', 'COMMIT', 'SETATTR', 'MKDIR'):
            equal(medians[name] >= 20, how == 'sync', f'{how}: {name}: {medians[name]} ms')
        rates[how] = [run_['files_per_second'] for run_ in (one, eight)]
        text = json.dumps(said['advice'])
        if how == 'sync':
            check('8 files at a time' in text and 'not the wire' in text, text)
    check(rates['sync'][1] > 2 * rates['sync'][0] and rates['async'][0] > rates['sync'][0], rates)


def what_was_unpacked_is_the_archive(work):
    """Looked at while it stands: the command is stopped when it unpacks for the second time."""
    archive, tree = f'{work}/some.tar', f'{work}/tree'
    os.makedirs(f'{tree}/deep/er')
    write(f'{tree}/deep/er/file', 'words\n' * 300000)
    os.utime(f'{tree}/deep/er/file', (7, 1234567890))
    os.chmod(f'{tree}/deep/er/file', 0o754)
    os.symlink('deep/er/file', f'{tree}/symlink')
    write(f'{tree}/outside', 'outside')
    # No entries for directories, and a name that leads out.
    subprocess.run(['tar', 'cPf', archive, '-C', tree, '--transform=s,^outside,../outside,',
                    './deep/er/file', 'symlink', 'outside'], check=True)
    slow = slow_syncs(100000)
    with serving(work, env=slow) as server:
        command = [os.environ['HOLDFAST'], 'baseline', '--kind', 'read', '--block', '4k', '--size',
                   '4k', '--time', '0.02', '--proto', 'tcp', '--files', '0', '--in-flight', '1,2',
                   '--tar', archive, '--json', url(server, f'{work}/export')]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as running:
            try:
                while not glob.glob(f'{work}/export/.holdfast-baseline-*/unpack1'):
                    check(running.poll() is None, 'it ended before it unpacked twice')
                    time.sleep(0.001)
                running.send_signal(signal.SIGSTOP)
                place, = glob.glob(f'{work}/export/.holdfast-baseline-*/unpack0')
                os.remove(f'{tree}/outside')
                subprocess.run(['diff', '-r', '--no-dereference', tree, place], check=True)
                status = os.stat(f'{place}/deep/er/file')
                equal((status.st_mode & 0o777, status.st_mtime), (0o754, 1234567890), 'attributes')
            finally:
                running.send_signal(signal.SIGCONT)
            said = json.loads(running.communicate(timeout=120)[0])
        equal([(one['skipped'], one['files']) for one in said['unpacking']], [(1, 1)] * 2, 'told')
        equal(os.listdir(f'{work}/export'), [], 'left')


def archives_that_are_none_are_refused(work):
    write(f'{work}/text', 'no archive, but words')
    with serving(work) as server:
        where = url(server, f'{work}/export')
        small = ['--block', '4k', '--size', '4k', '--time', '0.02', '--files', '0']
        baseline(*small, '--tar', f'{work}/text', where).ends(CANNOT).says(f'{work}/text:')
        baseline(*small, '--tar', f'{work}/none', where).ends(USAGE).says('--tar', 'No such file')
        os.mkdir(f'{work}/tree')
        write(f'{work}/tree/file', 'words' * 100000)
        subprocess.run(['tar', 'cf', f'{work}/cut.tar', '-C', work, 'tree'], check=True)
        os.truncate(f'{work}/cut.tar', 100000)
        baseline(*small, '--tar', f'{work}/cut.tar', where).ends(CANNOT).says('cut.tar')
        equal(os.listdir(f'{work}/export'), [], 'left')


# ---- numbers ---------------------------------------------------------------------------------

@contextlib.contextmanager
def capturing(path, port, bytes_of_each=300):
    """tcpdump of what goes to and from a port."""
    command = ['tcpdump', '-i', 'lo', '-U', '--immediate-mode', '-B', '16384', '-s',
               str(bytes_of_each), '-w', path, '-Z', 'root', f'port {port}']
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as dump:
        try:
            check('listening on' in dump.stderr.readline(), 'tcpdump does not listen')
            yield
            size = -1
            while size != os.path.getsize(path):  # it has written what it has seen
                size = os.path.getsize(path)
                time.sleep(1)
        finally:
            dump.terminate()


def seen(capture, port, shown):
    """How many frames tshark finds."""
    return len(subprocess.run(
        ['tshark', '-r', capture, '-d', f'udp.port=={port},rpc', '-d', f'tcp.port=={port},rpc',
         '-Y', shown], capture_output=True, text=True, check=True).stdout.splitlines())


def calls_are_those_of_a_capture(work):
    """What tshark counts on the wire."""
    capture = f'{work}/capture.pcap'
    with serving(work) as server:
        with capturing(capture, server.port):
            said = numbers('--kind', 'read', '--block', '4k,16k', '--in-flight', '1', '--delay',
                           '2000', '--size', '1m', '--files', '0', '--time', '0.3', '--proto',
                           'udp', url(server, f'{work}/export'))
        for size, point in points(said, transport='udp').items():
            reads = seen(capture, server.port, 'rpc.msgtyp == 0 && nfs.procedure_v3 == 6 && '
                         f'nfs.count3 == {size}')
            check(0 <= reads - point['calls'] <= 1, f'{size}: {reads} READs seen, '
                                                    f'{point["calls"]} told')


def times_are_those_of_a_capture(work):
    """Response times of small-file operations beside what tshark makes of the frames' times."""
    capture = f'{work}/capture.pcap'
    slow = slow_syncs(20000)
    with serving(work, env=slow) as server:
        with capturing(capture, server.port, 0):
            said = numbers('--kind', 'read', '--block', '8k', '--in-flight', '1', '--size', '8k',
                           '--time', '0.02', '--proto', 'tcp', '--files', '20',
                           url(server, f'{work}/export'))
        lines = subprocess.run(
            ['tshark', '-r', capture, '-d', f'tcp.port=={server.port},rpc', '-Y',
             'rpc.msgtyp == 1 && rpc.program == 100003', '-T', 'fields', '-e', 'nfs.procedure_v3',
             '-e', 'rpc.time'], capture_output=True, text=True, check=True).stdout.splitlines()
    replies = [(int(line.split()[0]), 1000 * float(line.split()[1])) for line in lines]
    # Each of the small files begins with NULL, and is ten calls.
    begin = [i for i, (procedure, _) in enumerate(replies) if procedure == 0][-20]
    seen = {}
    for procedure, ms in replies[begin:begin + 200]:
        seen.setdefault(procedure, []).append(ms)
    told = {op['name']: op['p50_ms'] for op in said['small_files']['operations']}
    for name, procedure in (('GETATTR', 1), ('SETATTR', 2), ('CREATE', 8), ('REMOVE', 12),
                            ('COMMIT', 21)):
        equal(len(seen[procedure]), 20, f'{name}: seen')
        least = statistics.median_low(seen[procedure])
        most = statistics.median_high(seen[procedure])
        check(least > 20 or name == 'GETATTR', f'{name} does not wait: {least} ms on the wire')
        # A process that is woken late, on a busy machine, sees more than there was on the wire.
        right = 0.98 * least <= told[name] <= 1.1 * most + 2
        check(right, f'{name}: {told[name]} ms told, {least} to {most} ms seen')


def reads_are_right_where_fragments_are_lost(work):
    """CASES P21: READs of 32 KiB over UDP, 23 fragments each, of which two in a hundred are lost.
    What is left of a datagram must not stay for 30 seconds, or the kernel takes no more."""
    capture, data = f'{work}/capture.pcap', os.urandom(200 * 32768)
    with open(f'{work}/export/data', 'wb') as file:
        file.write(data)
    rules = ('table netdev t {\n chain c {\n  type filter hook ingress device lo priority 0\n'
             '  ip protocol udp numgen random mod 50 == 0 drop\n }\n}\n')
    subprocess.run('ip link set lo mtu 1500; sysctl -qw net.ipv4.ipfrag_time=5 '
                   'net.ipv4.ipfrag_high_thresh=67108864', shell=True, check=True)
    subprocess.run(['nft', '-f', '-'], input=rules, text=True, check=True)
    try:
        with serving(work) as server, capturing(capture, server.port, 0):
            holdfast('get', url(server, f'{work}/export/data', '&proto=udp&rsize=32768'),
                     f'{work}/data', timeout=400).ends(DONE)
            port = server.port
    finally:
        subprocess.run('nft delete table netdev t; ip link set lo mtu 65536', shell=True,
                       check=True)
    with open(f'{work}/data', 'rb') as file:
        check(file.read() == data, 'what was read is not what is there')
    xids = subprocess.run(
        ['tshark', '-r', capture, '-d', f'udp.port=={port},rpc', '-Y', 'rpc.msgtyp == 0 && '
         'nfs.procedure_v3 == 6', '-T', 'fields', '-e', 'rpc.xid'], capture_output=True, text=True,
        check=True).stdout.split()
    equal(len(set(xids)), 200, 'READs')
    check(len(xids) > 220, f'{len(xids)} calls: nothing was sent again, nothing was tested')


def what_was_saved_is_compared_with(work):
    saved = f'{work}/saved.json'
    with serving(work) as server:
        common = ['--block', '4k,64k', '--size', '256k', '--time', '0.05', '--files', '5',
                  '--in-flight', '2', url(server, f'{work}/export')]
        baseline('--save', saved, '--html', f'{work}/page.html', *common).ends(DONE)
        with open(saved, encoding='utf-8') as file:
            said = json.load(file)
        for point in said['points']:
            point['bytes_per_second'] *= 1000
        write(saved, json.dumps(said))
        ended = baseline('--against', saved, *common).ends(FINDING)
        ended.says('slower', 'read 64 KiB over tcp, 2 at a time', where='out')
        for point in said['points']:
            point['bytes_per_second'] /= 1e6
        for op in said['small_files']['operations']:
            op['p50_ms'] *= 1000
        for one in said['unpacking']:
            one['files_per_second'] /= 1e6
        write(saved, json.dumps(said))
        ended = baseline('--against', saved, *common).ends(DONE).says(' 0 slower', where='out')
        for nonsense in (-1, '5', 1e300, None):
            point['bytes_per_second'] = nonsense
            write(saved, json.dumps(said))
            baseline('--against', saved, *common).ends(CANNOT).says('"bytes_per_second"')
        write(saved, '{"points": [\n')
        baseline('--against', saved, *common).ends(CANNOT).says(f'{saved}:')
        write(saved, '[]')
        baseline('--against', saved, *common).ends(CANNOT).says('no saved baseline')
        baseline('--against', f'{work}/none', *common).ends(USAGE).says('No such file')
    with open(f'{work}/page.html', encoding='utf-8') as file:
        page = file.read()
    plots = re.findall(r'<svg.*?</svg>', page, re.DOTALL)
    equal(len(plots), 2, 'plots')
    for plot in plots:
        lines = xml.dom.minidom.parseString(plot).getElementsByTagName('polyline')
        equal(len(lines), 2, 'curves')


# ---- what it works on ------------------------------------------------------------------------

def nothing_is_left_behind(work):
    quick = ['--block', '8k', '--size', '64k', '--time', '0.02', '--files', '3']
    with serving(work) as server:
        baseline(*quick, url(server, f'{work}/export')).ends(DONE)
        equal(os.listdir(f'{work}/export'), [], 'left')


def left(work):
    return os.listdir(f'{work}/export')


def until(condition, what):
    end = time.monotonic() + 30
    while not condition():
        check(time.monotonic() < end, what)
        time.sleep(0.02)


@contextlib.contextmanager
def measuring(work, server, *arguments):
    """A baseline that would take minutes, seen to have begun."""
    with subprocess.Popen([BINARY, 'baseline', '--time', '60', '--size', '256k', *arguments,
                           url(server, f'{work}/export', '&soft&timeo=5&retrans=1')],
                          stderr=subprocess.PIPE, text=True,
                          preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL)
                          ) as process:  # under nohup(1) it would be ignored
        try:
            until(lambda: left(work), 'no directory was made')
            yield process
        finally:
            process.kill()


def an_interrupt_leaves_nothing_behind(work):
    with serving(work) as server:
        for how in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            for what in (['--block', '8k'], ['--kind', 'write', '--proto', 'udp'],
                         ['--block', '512', '--time', '0.01', '--files', '100000']):
                with measuring(work, server, *what) as process:
                    time.sleep(0.3)
                    process.send_signal(how)
                    err = process.communicate(timeout=30)[1]
                equal((process.returncode, left(work)), (-how, []), f'{what}: {err}')
                check('interrupted' in err, err)


def what_an_interrupt_leaves_is_named(work):
    """The server is gone: the first signal waits for it, the second does not."""
    with serving(work) as server:
        with measuring(work, server) as process:
            server.process.send_signal(signal.SIGSTOP)
            try:
                process.send_signal(signal.SIGINT)
                time.sleep(0.3)
                process.send_signal(signal.SIGTERM)
                err = process.communicate(timeout=30)[1]
                check(process.returncode in (-signal.SIGINT, -signal.SIGTERM), process.returncode)
                check(f'{left(work)[0]} is left behind' in err, err)
            finally:
                server.process.send_signal(signal.SIGCONT)


def version_2_is_measured_as_version_2(work):
    """A URL that says version 2 gets nothing else, and no block larger than 8 KiB."""
    capture = f'{work}/capture.pcap'
    with serving(work) as server:
        with capturing(capture, server.port):
            said = numbers('--block', '8k,64k', '--size', '64k', '--time', '0.1', '--files', '3',
                           url(server, f'{work}/export', '&vers=2'))
        equal({point['block_bytes'] for point in said['points']}, {8192}, 'blocks')
        equal({(point['transport'], point['kind']) for point in said['points']},
              {(t, k) for t in ('tcp', 'udp') for k in ('read', 'write')}, 'points')
        for version, some in ((2, True), (3, False)):
            calls = seen(capture, server.port, 'rpc.msgtyp == 0 && rpc.program == 100003 && '
                         f'rpc.programversion == {version}')
            equal(calls > 0, some, f'{calls} calls of version {version}')


def a_file_is_only_read(work):
    path = f'{work}/export/file'
    write(path, 'words ' * 10000)
    before = os.stat(path)
    with serving(work) as server:
        said = numbers('--block', '4k,1m', '--time', '0.02', url(server, path))
        check(said['points'] and all(one['kind'] == 'read' for one in said['points']), said)
        equal({one['block_bytes'] for one in said['points']}, {4096}, 'blocks that the file has')
        after = os.stat(path)
        equal((after.st_mtime_ns, after.st_size, os.listdir(f'{work}/export')),
              (before.st_mtime_ns, before.st_size, ['file']), 'the file')


def what_cannot_be_done_is_said(work):
    write(f'{work}/export/empty', '')
    with serving(work, 'ro,insecure') as server:
        baseline('--quick', url(server, f'{work}/export')).ends(CANNOT).says('NFS3ERR_ROFS')
        baseline('--quick', url(server, f'{work}/export/none')).ends(CANNOT).says('NFS3ERR_NOENT')
        baseline('--quick', url(server, f'{work}/export/empty')).ends(CANNOT).says('neither')
        port = server.port
    baseline('--quick', f'nfs://127.0.0.1:{port}/x?mountport={port}').ends(CANNOT).says('127.0.0.1')
    for arguments in (['--block', '0'], ['--block', '8k,4k'], ['--block', '2m'], ['--block', ''],
                      ['--in-flight', '0'], ['--proto', 'sctp'], ['--time', 'x'], ['--delay', '-1'],
                      ['--kind', ''], ['--files', '1e3'], ['--frobnicate']):
        baseline(*arguments, 'nfs://127.0.0.1/x').ends(USAGE).says(arguments[0])
    baseline().ends(USAGE).says('nfs://HOST/PATH')
    baseline('http://127.0.0.1/x').ends(USAGE)


if __name__ == '__main__':
    own_namespaces()
    run([the_block_size_that_works_is_found, stable_storage_is_told_from_the_network,
         several_files_at_a_time_share_the_wait, what_was_unpacked_is_the_archive,
         archives_that_are_none_are_refused, calls_are_those_of_a_capture,
         times_are_those_of_a_capture, reads_are_right_where_fragments_are_lost,
         what_was_saved_is_compared_with, nothing_is_left_behind,
         an_interrupt_leaves_nothing_behind, what_an_interrupt_leaves_is_named,
         version_2_is_measured_as_version_2, a_file_is_only_read, what_cannot_be_done_is_said])
