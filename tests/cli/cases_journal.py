#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What holdfast journal says of logs that servers left behind, good and bad; and that a server says
the same. Checksums are made with libxxhash."""
import ctypes
import json
import os
import shutil
import signal
import struct

from cli import CANNOT, DONE, FINDING, USAGE, check, equal, holdfast, run
import nfs  # found through cli

BLOCK = 4096


class Crashed:
    """A server that has made some changes, one batch each, and was killed."""

    def __init__(self, files=6):
        self.server = nfs.Server('rw,sync,no_root_squash,insecure').log_inside()
        self.log = self.server.export + '/.holdfast/journal'
        self.files = files

    def __enter__(self):
        self.server.__enter__()
        client = self.server.nfs()
        root = self.server.root(client)
        for i in range(self.files):
            client.new_file(root, f'f{i}', b'data' * i)
        self.server.stop(signal.SIGKILL)
        return self

    def __exit__(self, *_):
        self.server.__exit__(None)

    def inspect(self, *more):
        return json.loads(holdfast('journal', 'inspect', '--json', *more, self.log).ends(DONE).out)

    def live(self):
        return [batch for batch in self.inspect()['batches'] if batch['live']]

    def flip(self, offset):
        with open(self.log, 'r+b') as file:
            file.seek(offset)
            byte = file.read(1)[0]
            file.seek(offset)
            file.write(bytes([byte ^ 1]))

    def is_refused(self, *words):
        """By the commands and by a server, which changes nothing."""
        with open(self.log, 'rb') as file:
            before = file.read()
        for arguments in (['verify'], ['replay', '--dry-run']):
            ended = holdfast('journal', *arguments, self.log).ends(FINDING).says(*words)
            check(ended.out == '', ended.out)
        answer = json.loads(holdfast('journal', 'verify', '--json', self.log).ends(FINDING).out)
        check(words[0] in answer['refused'], answer)
        try:
            self.server.start()
        except nfs.Failure as failure:
            self.server.process.wait(10)
            check(words[0] in str(failure), f'the server says {failure}')
        else:
            raise nfs.Failure('the server takes it')
        with open(self.log, 'rb') as file:
            check(file.read() == before, 'the server has changed what it refused')


def checksum(data):
    xxh3 = ctypes.CDLL('libxxhash.so.0').XXH3_64bits
    xxh3.restype, xxh3.argtypes = ctypes.c_uint64, (ctypes.c_char_p, ctypes.c_size_t)
    return xxh3(bytes(data), len(data))


def the_log_of_a_crash_is_shown(_):
    with Crashed() as crashed:
        batches = crashed.live()
        check(len(batches) >= 6, batches)
        equal([b['seq'] for b in batches], list(range(batches[0]['seq'],
                                                      batches[0]['seq'] + len(batches))), 'seqs')
        seen = crashed.inspect('--records')
        equal([e['path'] for e in seen['exports']], [crashed.server.export], 'exports')
        records = seen['records']
        equal([r['name'] for r in records if r['type'] == 'entry' and r['op'] == 'CREATE'],
              [f'f{i}' for i in range(6)], 'names')
        equal(sum(r['bytes'] for r in records if r['type'] == 'write'), 4 * (1 + 2 + 3 + 4 + 5),
              'bytes written')
        replies = [r for r in records if r['type'] == 'reply']
        equal({(r['client'], r['transport'], r['prog'], r['vers']) for r in replies},
              {('127.0.0.1', 'tcp', 100003, 3)}, 'callers')
        equal(seen['replies'], len(replies), 'count of replies')
        equal(seen['live_records'] + len(replies), len(records), 'records')
        text = holdfast('journal', 'inspect', '--records', crashed.server.export).ends(DONE).out
        for word in (seen['uuid'], crashed.server.export, 'name f3 ', f'at {batches[1]["offset"]}'):
            check(word in text, f'{word} is not in {text}')
        holdfast('journal', 'verify', crashed.log).ends(DONE).says(
            f'{seen["live_records"]} records in {len(batches)} batches', where='out')


def a_log_in_use_can_be_looked_at(_):
    with nfs.Server('rw,sync,no_root_squash,insecure').log_inside() as server:
        client = server.nfs()
        root = server.root(client)
        for i in range(5):
            client.new_file(root, f'f{i}')
            seen = json.loads(holdfast('journal', 'inspect', '--json',
                                       server.export).ends(DONE).out)
            check(seen['in_use'] and seen['live_batches'] == i + 1, seen)
        holdfast('journal', 'verify', server.export).ends(CANNOT).says('a server uses it')
        holdfast('journal', 'replay', '--dry-run', server.export).ends(CANNOT)
        server.stop()
        seen = json.loads(holdfast('journal', 'inspect', '--json', server.export).ends(DONE).out)
        equal((seen['in_use'], seen['live_records'], seen['live_batches']), (False, 0, 0),
              'after a clean end')


def damage_in_the_middle_is_refused(_):
    with Crashed() as crashed:
        batches = crashed.live()
        crashed.flip(batches[2]['offset'] + 100)
        crashed.is_refused('damaged in the middle', f'batch {batches[2]["seq"]} ')


def a_torn_tail_is_left_out(_):
    with Crashed() as crashed:
        batches = crashed.live()
        crashed.flip(batches[-1]['offset'] + 100)
        holdfast('journal', 'verify', crashed.log).ends(DONE)
        equal(len(crashed.live()), len(batches) - 1, 'batches')
        crashed.server.start()
        equal(len(os.listdir(crashed.server.export)), crashed.files + 1, 'names')


def another_version_is_refused(_):
    with Crashed() as crashed:
        with open(crashed.log, 'r+b') as file:
            for slot in range(2):
                block = bytearray(os.pread(file.fileno(), BLOCK, slot * BLOCK))
                block[8:12] = struct.pack('<I', 2)
                block[4088:] = struct.pack('<Q', checksum(block[:4088]))
                os.pwrite(file.fileno(), block, slot * BLOCK)
        crashed.is_refused('another version')


def a_shorter_log_is_refused(_):
    with Crashed() as crashed:
        os.truncate(crashed.log, 32 << 20)
        crashed.is_refused('bytes long, but says')


def something_else_is_refused(work):
    file = work + '/file'
    with open(file, 'wb') as out:
        out.write(b'#!/bin/sh\n' * 100000)
    holdfast('journal', 'verify', file).ends(FINDING).says('no journal')
    with open(file, 'wb') as out:
        out.truncate(1 << 20)
    holdfast('journal', 'inspect', file).ends(FINDING).says('there is no journal yet')
    holdfast('journal', 'verify', work + '/none').ends(CANNOT).says('No such file')


def another_file_system_is_refused(_):
    """The export was moved away, and a new directory is in its place."""
    with Crashed() as crashed:
        export, moved = crashed.server.export, crashed.server.work + '/moved'
        os.rename(export, moved)
        os.mkdir(export)
        log = moved + '/.holdfast/journal'
        holdfast('journal', 'replay', '--dry-run', log).ends(FINDING).says(export, 'not served now')
        holdfast('journal', 'replay', '--dry-run', '--export', export, log).ends(FINDING).says(
            'another file system')
        holdfast('journal', 'replay', '--dry-run', '--export', moved, log).ends(DONE)
        os.rmdir(export)
        shutil.copytree(moved, export)
        # The same files, but not the same objects: what the log says is of others.
        try:
            crashed.server.start()
        except nfs.Failure as failure:
            crashed.server.process.wait(10)
            check('another file system' in str(failure), f'the server says {failure}')
        else:
            raise nfs.Failure('the server takes it')


def a_dry_run_says_what_a_server_does(_):
    with Crashed() as crashed:
        export = crashed.server.export
        pool = export + '/.holdfast/pool/f90001'

        def dry_run():
            ended = holdfast('journal', 'replay', '--dry-run', '--json', export).ends(DONE)
            return {(step['step'], step['path']) for step in json.loads(ended.out)['steps']
                    if step['step'] != 'write'}

        equal(dry_run(), set(), 'steps where all has reached the file system')
        # As if one create, and one later rename, had not.
        os.truncate(export + '/f5', 0)
        os.chown(export + '/f5', 1, 1)
        os.rename(export + '/f5', pool)
        times = os.stat(export)
        before = sorted(os.listdir(export + '/.holdfast/pool'))
        steps = dry_run()
        check({('place', export + '/f5'), ('set attributes', pool)} <= steps, steps)
        equal(dry_run(), steps, 'steps, the second time')
        equal(sorted(os.listdir(export + '/.holdfast/pool')), before, 'the pool')
        equal(os.stat(export), times, 'the directory')
        text = holdfast('journal', 'replay', '--dry-run', export).ends(DONE).out
        check('nothing was changed' in text and f'place           {export}/f5\n' in text, text)
        crashed.server.start()
        equal(os.path.getsize(export + '/f5'), 20, 'size')
        equal(os.stat(export + '/f5').st_uid, 0, 'owner')


def usage_is_explained(work):
    holdfast('journal').ends(USAGE)
    check('usage:' in holdfast('journal', '--help').ends(DONE).out, 'no help')
    for arguments, words in ((['inspect'], ['JOURNAL']), (['frob', work], ["frob"]),
                             (['replay', work], ['--dry-run']), (['inspect', 'a', 'b'], []),
                             (['verify', '--frob', work], ['--frob']),
                             (['replay', '--dry-run', '--export'], ['--export'])):
        holdfast('journal', *arguments).ends(USAGE).says(*words)


if __name__ == '__main__':
    run([the_log_of_a_crash_is_shown, a_log_in_use_can_be_looked_at,
         damage_in_the_middle_is_refused, a_torn_tail_is_left_out, another_version_is_refused,
         a_shorter_log_is_refused, something_else_is_refused, another_file_system_is_refused,
         a_dry_run_says_what_a_server_does, usage_is_explained])
