#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The client's commands against a server that is slow, sparing, forgetful or hostile."""
import filecmp
import json
import os
import subprocess

from cli import BINARY, CANNOT, DONE, FINDING, check, equal, holdfast, run, write
from fake import FILE_SYNC, Fake
from nfs import opaque, record, u32, u64

READ, WRITE, CREATE, LOOKUP, COMMIT, READDIR, JUKEBOX = 6, 7, 8, 3, 21, 16, 10008
MEG = 1 << 20


def local_file(work, size=3 * MEG + 12345):
    path = f'{work}/local'
    with open(path, 'wb') as file:
        file.write(os.urandom(size))
    return path


def content(path):
    with open(path, 'rb') as file:
        return file.read()


def replies_in_fragments_are_joined(work):
    """RFC 5531 §11: cut after one byte, after nine more, and before the last."""
    with Fake() as fake:
        path = local_file(work, MEG)
        fake.add('f', content(path))
        fake.frames = lambda message: [record(message, (1, 9, len(message)))]
        holdfast('get', fake.url('/f'), f'{work}/back').ends(DONE)
        check(filecmp.cmp(path, f'{work}/back', shallow=False), 'get: other bytes')


def fragments_without_a_last_one_are_given_up(work):
    with Fake() as fake:
        fake.add('f', b'words')

        def endless(message):
            while True:
                yield u32(60000) + bytes(60000)

        fake.frames = endless
        ended = holdfast('get', fake.url('/f'), f'{work}/back')
        check(ended.code == CANNOT, f'exit status {ended.code}')
        ended.says('makes no sense')


def half_a_fragment_is_forgotten(work):
    """The first connection of each reply ends in the middle of it; then all is as it should be."""
    with Fake() as fake:
        path = local_file(work, MEG)
        fake.add('f', content(path))
        seen = set()

        def halves(message):
            if message[:4] in seen:
                yield record(message)
                return
            seen.add(message[:4])
            yield record(message)[:len(message) // 2]
            raise EOFError

        fake.frames = halves
        holdfast('get', fake.url('/f'), f'{work}/back', timeout=60).ends(DONE)
        check(filecmp.cmp(path, f'{work}/back', shallow=False), 'get: other bytes')


def short_reads_and_writes_are_continued(work):
    with Fake() as fake:
        fake.read_max = fake.write_max = 10007
        path = local_file(work)
        holdfast('put', path, fake.url('/f')).ends(DONE)
        check(bytes(fake.root.entries[b'f'].data) == content(path), 'put: other bytes')
        holdfast('get', fake.url('/f'), f'{work}/back').ends(DONE)
        check(filecmp.cmp(path, f'{work}/back', shallow=False), 'get: other bytes')


def writes_of_nothing_end(work):
    with Fake() as fake:
        fake.write_max = 0
        holdfast('put', local_file(work), fake.url('/f')).ends(FINDING).says('local')
        fake.root.entries[b'f'].data = bytearray(b'xyz')
        fake.read_max = 0
        ended = holdfast('get', fake.url('/f'), f'{work}/back').ends(FINDING)
        equal(ended.err.count('\n'), 1, 'lines about one error')


def a_new_verifier_means_to_write_again(work):
    """RFC 1813 §4.8: the server restarted between WRITE and COMMIT, and forgot."""
    with Fake() as fake:
        state = {'commits': 0}

        def verf(procedure):
            if procedure == COMMIT:
                state['commits'] += 1
                if state['commits'] == 1:  # the crash: nothing unstable is left
                    fake.root.entries[b'f'].data = bytearray()
            return b'first---' if state['commits'] == 0 else b'second--'

        fake.verf = verf
        path = local_file(work)
        holdfast('put', path, fake.url('/f')).ends(DONE)
        check(bytes(fake.root.entries[b'f'].data) == content(path), 'what was lost is still lost')
        equal(state['commits'], 2, 'COMMITs')


def a_verifier_that_changes_between_writes_is_seen(work):
    with Fake() as fake:
        state = {'writes': 0}

        def verf(procedure):
            state['writes'] += procedure == WRITE
            if state['writes'] == 5 and procedure == WRITE:
                fake.root.entries[b'f'].data = bytearray()
            return b'first---' if state['writes'] < 5 else b'second--'

        fake.verf = verf
        path = local_file(work)
        holdfast('put', path, fake.url('/f')).ends(DONE)
        check(bytes(fake.root.entries[b'f'].data) == content(path), 'what was lost is still lost')


def a_verifier_that_never_stays_is_given_up(work):
    with Fake() as fake:
        fake.verf = lambda _: os.urandom(8)
        holdfast('put', local_file(work, 200000), fake.url('/f')).ends(FINDING).says('local')


def stable_writes_need_no_commit(work):
    with Fake() as fake:
        fake.committed = FILE_SYNC
        fake.verf = lambda _: os.urandom(8)
        holdfast('put', local_file(work), fake.url('/f')).ends(DONE)
        equal(fake.count(COMMIT), 0, 'COMMITs')


def small_files_take_one_write(work):
    with Fake() as fake:
        holdfast('put', local_file(work, 1000), fake.url('/f')).ends(DONE)
        equal((fake.count(WRITE), fake.count(COMMIT)), (1, 0), 'WRITEs and COMMITs')
        holdfast('put', local_file(work, 0), fake.url('/empty')).ends(DONE)
        equal(len(fake.root.entries[b'empty'].data), 0, 'size')


def not_now_is_asked_again_later(work):
    with Fake() as fake:
        seen = {}

        def jukebox(procedure):
            seen[procedure] = seen.get(procedure, 0) + 1
            return seen[procedure] in (1, 3)

        fake.jukebox = jukebox
        path = local_file(work, 400000)
        os.mkdir(f'{work}/tree')
        os.rename(path, f'{work}/tree/f')
        os.symlink('f', f'{work}/tree/link')
        holdfast('put', '-r', '-p', f'{work}/tree', fake.url('/')).ends(DONE)
        holdfast('get', '-r', '-p', fake.url('/tree'), f'{work}/back').ends(DONE)
        check(filecmp.cmp(f'{work}/tree/f', f'{work}/back/f', shallow=False), 'other bytes')
        holdfast('rm', '-r', fake.url('/tree')).ends(DONE)
        equal(fake.root.entries, {}, 'what is left')


def soft_gives_up_on_not_now(work):
    with Fake() as fake:
        fake.jukebox = lambda procedure: procedure in (WRITE, CREATE)
        holdfast('put', local_file(work, 10), fake.url('/f', 'soft')).ends(FINDING).says(
            'NFS3ERR_JUKEBOX')


def a_sparing_server(work):
    """No READDIRPLUS, no handles from CREATE and MKDIR, no attributes where they are optional."""
    with Fake() as fake:
        fake.plus, fake.bare, fake.page = False, True, 3
        os.makedirs(f'{work}/tree/a/b')
        for i in range(20):
            write(f'{work}/tree/a/file{i}', f'{i}' * i)
        holdfast('put', '-r', f'{work}/tree', fake.url('/')).ends(DONE)
        holdfast('get', '-r', fake.url('/tree'), f'{work}/back').ends(DONE)
        same = subprocess.run(['diff', '-r', f'{work}/tree', f'{work}/back'], check=False)
        equal(same.returncode, 0, 'diff -r')
        listed = holdfast('ls', '-l', fake.url('/tree/a')).ends(DONE).out.splitlines()
        equal(len(listed), 21, 'entries')
        holdfast('rm', '-r', fake.url('/tree')).ends(DONE)
        equal(fake.root.entries, {}, 'what is left')


def names_that_lead_elsewhere_are_refused(work):
    with Fake() as fake:
        fake.add('d').entries[b'good'] = fake.add('good', b'data')
        for name in (b'../evil', b'/tmp/evil', b'', b'a/b', b'nul\0byte'):
            fake.extra = [name]
            holdfast('get', '-r', fake.url('/d'), f'{work}/back').ends(FINDING)
            equal(sorted(os.listdir(f'{work}/back')), ['good'], 'what was made')
            subprocess.run(['rm', '-r', f'{work}/back'], check=True)
        check(not os.path.exists(f'{work}/evil'), 'a file outside')


def a_link_made_just_now_is_not_followed(work):
    """A directory entry `d`, first as a symbolic link out, then as a directory of that name."""
    os.mkdir(f'{work}/outside')
    with Fake() as fake:
        top = fake.add('top')
        fake.add('d', target=f'{work}/outside'.encode(), parent=top)
        inner = fake.add('inner')
        fake.add('evil', b'data', parent=inner)
        listing = fake.listing

        def twice(call):
            part, eof = listing(call)
            if any(name == b'd' for _, (name, _) in part):
                part.append((part[-1][0] + 1, (b'd', inner)))
            return part, eof

        fake.listing = twice
        holdfast('get', '-r', fake.url('/top'), f'{work}/back').ends(FINDING)
        equal(os.listdir(f'{work}/outside'), [], 'what was written outside')


def a_directory_without_end_is_an_error(work):
    with Fake() as fake:
        fake.add('f', b'x')
        nothing = u32(0, 0) + bytes(8) + u32(0, 0)  # no entries, and not the end
        fake.answer = lambda procedure, results: nothing if procedure in (16, 17) else results
        holdfast('ls', fake.url('')).ends(FINDING).says('makes no sense')
        same = u32(0, 0) + bytes(8) + u32(1) + bytes(8) + opaque('x') + bytes(8) + u32(0, 0, 0, 0)
        fake.answer = lambda procedure, results: same if procedure == 17 else results
        holdfast('ls', '-l', fake.url('')).ends(FINDING).says('makes no sense')


def more_data_than_asked_for_is_an_error(work):
    with Fake() as fake:
        fake.add('f', b'x' * 100)
        much = u32(0, 0, 200000, 0) + opaque(bytes(200000))
        fake.answer = lambda procedure, results: much if procedure == READ else results
        holdfast('get', fake.url('/f'), f'{work}/back').ends(FINDING).says('makes no sense')
        none = u32(0, 0, 0, 300, FILE_SYNC) + b'verifier'
        fake.answer = lambda procedure, results: none if procedure == WRITE else results
        holdfast('put', f'{work}/back', fake.url('/g')).ends(DONE)  # of no bytes: no WRITE
        write(f'{work}/few', 'few')
        holdfast('put', f'{work}/few', fake.url('/g')).ends(FINDING).says('makes no sense')


def an_end_before_the_size_is_an_error(work):
    with Fake() as fake:
        fake.add('f', b'x' * 100)
        attributes = (u32(1, 0o644, 1, 0, 0) + u64(100, 100) + u32(0, 0) + u64(1, 2) +
                      u32(0, 0, 0, 0, 0, 0))
        seen = []

        def early(procedure, results):
            if procedure != READ:
                return results
            seen.append(procedure)
            data = b'x' * 10 if len(seen) == 1 else b''
            return u32(0, 1) + attributes + u32(len(data), 1) + opaque(data)

        fake.answer = early
        holdfast('get', fake.url('/f'), f'{work}/back').ends(FINDING).says('back')


def silence_is_told_before_timers_end(work):
    with Fake() as fake:
        fake.add('f', b'words')
        calls = []

        def frames(message):
            calls.append(message)
            if len(calls) <= 3:  # MNT, FSINFO and the like
                yield record(message)

        fake.frames = frames
        with subprocess.Popen([BINARY, 'get', fake.url('/f'), f'{work}/back'], text=True,
                              stderr=subprocess.PIPE) as process:
            check('is not responding' in process.stderr.readline(), 'nothing was said')
            process.kill()


def links_are_followed_within_the_export(work):
    with Fake() as fake:
        directory = fake.add('d')
        fake.add('f', b'data', parent=directory)
        for name, target in (('rel', b'd'), ('abs', b'/e/d'), ('up', b'd/../d'), ('chain', b'rel'),
                             ('out', b'/etc'), ('loop', b'loop'), ('gone', b'nowhere')):
            fake.add(name, target=target)
        for name in ('rel', 'abs', 'up', 'chain'):
            if name == 'up':  # ".." is the server's to look up
                directory.entries[b'..'] = fake.root
            equal(holdfast('ls', fake.url(f'/{name}')).ends(DONE).out, 'f\n', name)
            equal(holdfast('get', fake.url(f'/{name}/f'), '-').ends(DONE).out, 'data', name)
            directory.entries.pop(b'..', None)
        holdfast('ls', fake.url('/out')).ends(FINDING).says('leads out')
        holdfast('ls', fake.url('/loop')).ends(FINDING).says('symbolic links')
        holdfast('ls', fake.url('/gone')).ends(FINDING).says('NFS3ERR_NOENT')
        said = json.loads(holdfast('stat', '--json', fake.url('/abs')).ends(DONE).out)
        equal((said['objects'][0]['type'], said['objects'][0]['target']), ('symlink', '/e/d'),
              'stat')


def names_are_bytes(work):
    with Fake() as fake:
        fake.add(b'\xff\xfe name', b'1')
        fake.add('ümlaut', b'2')
        out = subprocess.run([BINARY, 'ls', fake.url('')], capture_output=True, check=True).stdout
        equal(sorted(out.split(b'\n')[:-1]), sorted([b'\xff\xfe name', 'ümlaut'.encode()]), 'ls')
        said = json.loads(holdfast('ls', '--json', fake.url('')).ends(DONE).out)
        equal(sorted(os.fsencode(entry['name']) for entry in said['entries']),
              sorted([b'\xff\xfe name', 'ümlaut'.encode()]), 'ls --json')
        equal(holdfast('get', fake.url('/%FF%FE%20name'), '-').ends(DONE).out, '1', 'get')
        holdfast('get', '-r', fake.url(''), f'{work}/back').ends(DONE)
        equal(sorted(os.listdir(os.fsencode(f'{work}/back'))),
              sorted([b'\xff\xfe name', 'ümlaut'.encode()]), 'get -r')


def one_error_is_one_line_and_the_others_go_on(work):
    with Fake() as fake:
        for i in range(40):
            fake.add(f'f{i}', bytes([i]) * i)
        broken = fake.root.entries[b'f7'].fileid
        read = fake.read

        def no_f7(call):
            at = call.at
            inode = fake.object(call)
            call.at = at
            return u32(5, 0) if inode.fileid == broken else read(call)

        fake.procedures[READ] = no_f7
        ended = holdfast('get', '-r', fake.url(''), f'{work}/back').ends(FINDING)
        ended.says('f7', 'NFS3ERR_IO')
        equal(ended.err.count('\n'), 1, 'lines')
        for i in set(range(40)) - {7}:
            equal(content(f'{work}/back/f{i}'), bytes([i]) * i, f'f{i}')


def a_server_that_is_gone_is_one_line(work):
    with Fake() as fake:
        for i in range(40):
            fake.add(f'f{i}', b'x')

        def dies(procedure, results):
            if procedure == READ:
                raise ConnectionError
            return results

        fake.answer = dies
        ended = holdfast('get', '-r', fake.url('', 'soft&timeo=1&retrans=1'), f'{work}/back')
        check(ended.code == 3, f'exit status {ended.code}')
        equal(ended.err.count('\n'), 1, f'lines: {ended.err}')


if __name__ == '__main__':
    run([
        replies_in_fragments_are_joined,
        fragments_without_a_last_one_are_given_up,
        half_a_fragment_is_forgotten,
        short_reads_and_writes_are_continued,
        writes_of_nothing_end,
        a_new_verifier_means_to_write_again,
        a_verifier_that_changes_between_writes_is_seen,
        a_verifier_that_never_stays_is_given_up,
        stable_writes_need_no_commit,
        small_files_take_one_write,
        not_now_is_asked_again_later,
        soft_gives_up_on_not_now,
        a_sparing_server,
        names_that_lead_elsewhere_are_refused,
        a_link_made_just_now_is_not_followed,
        a_directory_without_end_is_an_error,
        more_data_than_asked_for_is_an_error,
        an_end_before_the_size_is_an_error,
        silence_is_told_before_timers_end,
        links_are_followed_within_the_export,
        names_are_bytes,
        one_error_is_one_line_and_the_others_go_on,
        a_server_that_is_gone_is_one_line,
    ])
