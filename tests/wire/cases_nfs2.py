#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""NFSv2 (RFC 1094), beyond single calls: what 32 bits do to what is larger, the conventions that
are not in the RFC, listings that change, and the way of a boot loader from MOUNT to a file."""
import os
import random
import shutil
import stat
import subprocess

import nfs
import nfs2
from nfs import check, equal, opaque, u32
from nfs2 import KEEP, NOW, Nfs2

TIES = ('n13353', 'n35670')  # their hashes have the same upper half under this seed of ext4:
HASH_SEED = '11111111-2222-3333-4444-555555555555'


def two(client):
    """The same connection, in version 2."""
    return Nfs2(client.transport, client.cred)


def path_of(server, case, *names):
    return os.path.join(server.export, case.__name__, *names)


def fill(directory, names):
    for name in names:
        os.mknod(os.path.join(directory, name))
    return {b'.', b'..'} | {name.encode() for name in names}


def once_each(entries, right, what):
    names = [e.name for e in entries]
    equal(len(names), len(set(names)), f'{what}: names, and different names')
    missing, extra = right - set(names), set(names) - right
    check(not missing and not extra, f'{what}: {len(missing)} missing, {len(extra)} too many: '
          f'{sorted(missing)[:3]} {sorted(extra)[:3]}')


# ---- handles ---------------------------------------------------------------------------------

def handles_have_32_bytes_everywhere(server, client, fh):
    """P24: in both versions, deep and with long names; and one version's are the other's."""
    v2 = two(client)
    root = v2.mount(server.export).fh
    equal(root, client.mount(server.export).fh.ljust(32, b'\0'), 'handles of MOUNT v1 and v3')
    equal(root, v2.mount(server.export, 2).fh, 'handles of MOUNT v1 and v2')
    here = fh
    for depth in range(12):
        here = v2.new_dir(here, f'{depth:0>250}')
        found = client.getattr(here)
        equal((found.status, len(here)), (nfs.OK, 32), f'handle at depth {depth}')
        equal(v2.getattr(here).attr.fileid, found.attr.fileid, 'fileid in both versions')
    plain = client.lookup(fh, f'{0:0>250}').fh
    check(len(plain) <= 32, f'a version 3 handle has {len(plain)} bytes')


def what_is_no_handle_is_stale(server, client, fh):
    v2 = two(client)
    file = v2.new_file(fh, 'file')
    for bad in (bytes(32), b'\xff' * 32, file[:20] + bytes([file[20] ^ 1]) + file[21:],
                file[:2] + bytes([file[2] ^ 4]) + file[3:], file[:-1] + bytes([file[-1] ^ 1])):
        equal(v2.getattr(bad).status, nfs.STALE, f'GETATTR of {bad.hex()}')
        equal(v2.read(bad, 0, 1).status, nfs.STALE, 'READ')
        equal(v2.remove(bad, 'file').status, nfs.STALE, 'REMOVE')
        equal(v2.statfs(bad).status, nfs.STALE, 'STATFS')
    equal(v2.remove(fh, 'file').status, nfs.OK, 'REMOVE')
    equal(v2.getattr(file).status, nfs.STALE, 'GETATTR of what was removed')


def handles_outlive_a_restart(server, client, fh):
    file = two(client).new_file(fh, 'file', b'contents')
    server.restart()
    equal(Nfs2(server.tcp()).read_all(file), b'contents', 'data after the restart')


# ---- data and 32 bits ------------------------------------------------------------------------

def files_of_every_size_over_both_transports(server, client, fh):
    rng = random.Random(2)
    for kind, transport in (('udp', server.udp()), ('tcp', server.tcp())):
        v2 = Nfs2(transport)
        for size in (0, 1, 3, 8191, 8192, 8193, 16384, 100001):
            data = rng.randbytes(size)
            file = v2.new_file(fh, f'{kind}{size}', data)
            equal(v2.getattr(file).attr.size, size, 'size')
            for step in (8192, 1000):
                check(v2.read_all(file, step) == data, f'{kind}, {size} bytes, READs of {step}')
            with open(path_of(server, files_of_every_size_over_both_transports, f'{kind}{size}'),
                      'rb') as stored:
                check(stored.read() == data, f'{kind}, {size} bytes, as stored')


def large_files_are_told_as_the_largest(server, client, fh):
    """Never modulo 2^32: a size that wraps makes a client truncate. What can be reached is read."""
    v2 = two(client)
    for size in (2 ** 32 - 1, 2 ** 32, 2 ** 32 + 1, 5 << 30, 1 << 40):
        path = path_of(server, large_files_are_told_as_the_largest, f'size{size}')
        with open(path, 'wb') as out:
            out.truncate(size)
            out.seek(2 ** 32 - 4)
            out.write(b'abcdefgh'[:size - (2 ** 32 - 4)])
        file = v2.lookup(fh, f'size{size}')
        equal(file.attr.size, 2 ** 32 - 1, f'size of {size} bytes')
        read = v2.read(file.fh, 2 ** 32 - 4, 8)
        equal(read.data, b'abcdefgh'[:size - (2 ** 32 - 4)], 'READ across 4 GiB')
        equal(read.attr.size, 2 ** 32 - 1, 'size with READ')
        equal(v2.setattr(file.fh, mode=0o600).attr.size, 2 ** 32 - 1, 'size with SETATTR')
        equal(os.stat(path).st_size, size, 'size, which SETATTR has left alone')
        os.unlink(path)


def numbers_fit_their_words(server, client, fh):
    """statfs(2) of the same file system, in blocks that a signed word can count."""
    v2 = two(client)
    info = v2.statfs(fh)
    there = os.statvfs(server.export)
    equal(info.tsize, 8192, 'tsize')
    for count, blocks in ((info.blocks, there.f_blocks), (info.bfree, there.f_bfree),
                          (info.bavail, there.f_bavail)):
        check(count < 2 ** 31, f'{count} blocks')
        difference = count * info.bsize - blocks * there.f_frsize
        check(abs(difference) < (1 << 30), f'{difference} bytes more than there are')
    local = os.stat(path_of(server, numbers_fit_their_words))
    attr = v2.getattr(fh).attr
    equal((attr.fileid, attr.nlink, attr.uid, attr.mode),
          ((local.st_ino ^ local.st_ino >> 32) & 0xffffffff, local.st_nlink, local.st_uid,
           local.st_mode), 'fileid, nlink, uid, mode')
    entries = {e.name: e.fileid for e in v2.walk(fh)}
    equal(entries[b'.'], attr.fileid, 'fileid of the entry "."')


def a_full_disk_is_no_short_write(server, client, fh):
    """WRITE has no count in its reply, so it must not be OK for half of the data. (The limit is the
    file size limit of the server, which like a full disk cuts a write short.)"""
    limited = nfs.Server(options='rw,sync,no_root_squash,insecure',
                         prefix=['prlimit', '--fsize=10000'])
    with limited:
        v2 = Nfs2(limited.tcp())
        root = v2.mount(limited.export).fh
        file = v2.new_file(root, 'file', b'x' * 8192)
        equal(v2.write(file, 8192, b'y' * 8192).status, nfs.FBIG, 'WRITE across the limit')
        equal(v2.write(file, 8192, b'z' * 1808).status, nfs.OK, 'WRITE up to the limit')


# ---- conventions -----------------------------------------------------------------------------

def times_of_the_server(server, client, fh):
    """10^6 microseconds are "now", and what may write a file may say so; only its owner may say
    another time."""
    v2 = two(client)
    file = v2.new_file(fh, 'file', mode=0o666)
    equal(v2.setattr(file, atime=(5, 6), mtime=(7, 8)).status, nfs.OK, 'SETATTR of times')
    attr = v2.getattr(file).attr
    equal((attr.atime, attr.mtime), ((5, 6), (7, 8)), 'times')
    stranger = Nfs2(client.transport, nfs.auth_sys(1000, 1000))
    equal(stranger.setattr(file, atime=(1, 2), mtime=(3, 4)).status, nfs.PERM, 'times, by another')
    touched = stranger.setattr(file, atime=NOW, mtime=NOW)
    equal(touched.status, nfs.OK, 'touch, by another')
    check(touched.attr.mtime[0] > 10 ** 9 and touched.attr.atime[0] > 10 ** 9, 'times of now')
    equal(v2.setattr(file, atime=(5, 6), mtime=(7, 8)).status, nfs.OK, 'SETATTR of times')
    touched = stranger.setattr(file, atime=(1, 2), mtime=(3, 1000000))
    equal(touched.status, nfs.OK, 'mtime of now means both')
    check(touched.attr.atime[0] > 10 ** 9, 'atime of now')
    equal(v2.setattr(file, mtime=(7, 1000001)).status, nfs.IO, 'no time')
    equal(v2.setattr(file, mtime=(0xfffffffe, 5)).attr.mtime, (0xfffffffe, 5), 'a far time')


def what_is_left_stays(server, client, fh):
    v2 = two(client)
    file = v2.new_file(fh, 'file', b'12345678', mode=0o640)
    for attributes, changed in (({}, {}), ({'mode': 0o600}, {'mode': 0o100600}),
                                ({'mode': 0xffff}, {}), ({'uid': 5}, {'uid': 5}),
                                ({'gid': 6}, {'gid': 6}), ({'size': 3}, {'size': 3}),
                                ({'mtime': (9, KEEP)}, {}), ({'mtime': (KEEP, 9)}, {}),
                                ({'mtime': (9, 9)}, {'mtime': (9, 9)})):
        before = vars(v2.getattr(file).attr)
        after = vars(v2.setattr(file, **attributes).attr)
        for name in ('mode', 'uid', 'gid', 'size', 'atime', 'mtime'):
            if name in changed:
                equal(after[name], changed[name], f'{name} after {attributes}')
            elif not (name == 'mtime' and 'size' in changed):
                equal(after[name], before[name], f'{name} after {attributes}')


def special_files_the_old_way(server, client, fh):
    v2, user = two(client), Nfs2(client.transport, nfs.auth_sys(1000, 1000))
    for name, mode, size, kind, rdev in (
            ('tty', stat.S_IFCHR, 0x0441, stat.S_IFCHR, (4, 65)),
            ('disk', stat.S_IFBLK, 0x11110370, stat.S_IFBLK, (259, 70000)),
            ('pipe', stat.S_IFCHR, KEEP, stat.S_IFIFO, None),
            ('pipe2', stat.S_IFIFO, KEEP, stat.S_IFIFO, None),
            ('pipe3', stat.S_IFIFO, 77, stat.S_IFIFO, None),
            ('socket', stat.S_IFSOCK, KEEP, stat.S_IFSOCK, None),
            ('file', stat.S_IFREG, 0, stat.S_IFREG, None),
            ('file2', 0, 100, stat.S_IFREG, None)):
        made = v2.create(fh, name, mode=mode | 0o640, size=size)
        equal(made.status, nfs.OK, f'CREATE of {name}')
        there = os.lstat(path_of(server, special_files_the_old_way, name))
        equal((stat.S_IFMT(there.st_mode), there.st_mode & 0o777), (kind, 0o640), f'{name} there')
        if rdev:
            equal((os.major(there.st_rdev), os.minor(there.st_rdev)), rdev, f'{name}: its number')
            equal(made.attr.rdev, size, f'{name}: rdev')
        again = v2.create(fh, name, mode=mode | 0o600, size=size)
        equal((again.status, again.fh), (nfs.OK, made.fh), f'CREATE of {name} again')
    equal(v2.create(fh, 'tty', mode=stat.S_IFCHR, size=5).status, nfs.EXIST, 'another device')
    equal(v2.create(fh, 'tty', mode=stat.S_IFIFO).status, nfs.EXIST, 'another kind')
    equal(v2.create(fh, 'dir', mode=stat.S_IFDIR | 0o755).status, nfs.IO, 'a directory')
    equal(user.create(fh, 'mine', mode=stat.S_IFCHR | 0o600, size=0x103).status, nfs.PERM,
          'a device, by a user')
    equal(user.create(fh, 'mine', mode=stat.S_IFCHR | 0o600).status, nfs.OK, 'a pipe, by a user')


def errors_are_those_of_version_2(server, client, fh):
    v2, user = two(client), Nfs2(client.transport, nfs.auth_sys(1000, 1000))
    file, sub = v2.new_file(fh, 'file', b'x', mode=0o600), v2.new_dir(fh, 'dir', mode=0o700)
    v2.new_file(sub, 'in')
    for seen, right, what in (
            (user.read(file, 0, 1), nfs.ACCES, 'READ without a right'),
            (user.lookup(sub, 'in'), nfs.ACCES, 'LOOKUP without a right'),
            (user.readdir(sub), nfs.ACCES, 'READDIR without a right'),
            (user.setattr(file, mode=0o777), nfs.PERM, 'chmod of a stranger\'s file'),
            (v2.lookup(fh, 'no'), nfs.NOENT, 'LOOKUP of nothing'),
            (v2.lookup(file, 'no'), nfs.NOTDIR, 'LOOKUP in a file'),
            (v2.readdir(file), nfs.NOTDIR, 'READDIR of a file'),
            (v2.mkdir(fh, 'dir', mode=0o755), nfs.EXIST, 'MKDIR over a directory'),
            (v2.rmdir(fh, 'dir'), nfs.NOTEMPTY, 'RMDIR of a full directory'),
            (v2.remove(fh, 'dir'), nfs.ISDIR, 'REMOVE of a directory'),
            (v2.read(sub, 0, 1), nfs.ISDIR, 'READ of a directory'),
            (v2.write(sub, 0, b'x'), nfs.ISDIR, 'WRITE to a directory'),
            (v2.link(sub, fh, 'more'), nfs.PERM, 'LINK of a directory'),
            (v2.readlink(file), nfs.IO, 'READLINK of a file'),
            (v2.rename(fh, 'dir', sub, 'x'), nfs.IO, 'RENAME into itself'),
            (v2.rmdir(fh, '.'), nfs.IO, 'RMDIR of "."'),
            (v2.create(fh, b'a/b', mode=0o644), nfs.ACCES, 'CREATE with a slash'),
            (v2.create(fh, b'a\0b', mode=0o644), nfs.ACCES, 'CREATE with a NUL')):
        equal(seen.status, right, what)


def a_read_only_export_changes_nothing():
    with nfs.Server(options='ro,no_root_squash,insecure') as server:
        with open(os.path.join(server.export, 'file'), 'w', encoding='ascii') as out:
            out.write('x')
        v2 = Nfs2(server.tcp())
        root = v2.mount(server.export).fh
        file = v2.lookup(root, 'file').fh
        for result in (v2.write(file, 0, b'y'), v2.setattr(file, size=0), v2.remove(root, 'file'),
                       v2.create(root, 'new', mode=0o644), v2.mkdir(root, 'new'),
                       v2.symlink(root, 'new', 'x'), v2.link(file, root, 'new'),
                       v2.rename(root, 'file', root, 'new'), v2.rmdir(root, 'file'),
                       v2.create(root, 'pipe', mode=stat.S_IFIFO)):
            equal(result.status, nfs.ROFS, 'a change')
        equal(v2.read_all(file), b'x', 'contents')


def root_is_squashed_as_the_export_says():
    with nfs.Server(options='rw,async,insecure') as server:
        os.chmod(server.export, 0o777)
        v2 = Nfs2(server.udp())
        made = v2.create(v2.mount(server.export).fh, 'file', mode=0o644, size=0)
        equal((made.status, made.attr.uid), (nfs.OK, 65534), 'the file of a squashed root')


# ---- listings --------------------------------------------------------------------------------

def pages_of_any_size_give_each_name_once(server, client, fh):
    """P05."""
    v2 = two(client)
    directory = path_of(server, pages_of_any_size_give_each_name_once)
    for total, counts in ((400, (36, 64, 100)), (5000, (512, 1024, 4096, 8192, 0xffffffff))):
        right = fill(directory, [f'name{i}' for i in range(total)])
        for count in counts:
            once_each(v2.walk(fh, count), right, f'READDIR of {total}, count {count}')
        once_each(Nfs2(server.udp()).walk(fh, 8192), right, 'READDIR over UDP')
        shutil.rmtree(directory)
        fh = v2.new_dir(server.root(client), os.path.basename(directory), mode=0o755)


def names_of_the_longest_kind(server, client, fh):
    """One to a page, exactly; with less the answer is an error, not an empty page for ever."""
    v2 = two(client)
    right = fill(path_of(server, names_of_the_longest_kind), [f'{i:0>255}' for i in range(20)])
    once_each(v2.walk(fh, 4 + 4 + 4 + 256 + 4 + 8), right, 'READDIR, a name a page')
    page = v2.readdir(fh, count=4 + 4 + 4 + 256 + 4 + 7)
    while page.status == nfs.OK and not page.eof:
        page = v2.readdir(fh, page.entries[-1].cookie, 4 + 4 + 4 + 256 + 4 + 7)
    equal(page.status, nfs.IO, 'a page too small for a name')


def remove_together(v2, fh, names):
    """One REMOVE for each name, sent at once."""
    calls = [nfs.call_message(nfs.NFS, 2, nfs2.REMOVE, nfs2.fhandle(fh) + opaque(name))
             for name in names]
    v2.transport.send(b''.join(nfs.record(call) for call in calls))
    for _ in calls:
        equal(nfs.Reply(v2.transport.receive()).body.u32(), nfs.OK, 'REMOVE')


def removing_while_reading_ends(server, client, fh):
    """P06, with 5,000 names in small pages: each is offered once, and nothing is left."""
    v2 = two(client)
    names = [f'file{i}' for i in range(5000)]
    fill(path_of(server, removing_while_reading_ends), names)
    offered, cookie, eof, pages = [], bytes(4), False, 0
    while not eof:
        page = v2.readdir(fh, cookie, 300)
        equal(page.status, nfs.OK, 'a page')
        pages += 1
        check(pages < 2000, 'the walk does not end')
        seen = [e.name for e in page.entries if e.name not in (b'.', b'..')]
        remove_together(v2, fh, seen)
        offered += seen
        eof, cookie = page.eof, page.entries[-1].cookie if page.entries else cookie
    equal(sorted(offered), sorted(n.encode() for n in names), 'names offered')
    once_each(v2.walk(fh), {b'.', b'..'}, 'what is left')


def others_come_and_go_while_one_reads(server, client, fh):
    """P25's kind: what stays is seen once, whatever is made and removed beside it."""
    v2, rng = two(client), random.Random(3)
    directory = path_of(server, others_come_and_go_while_one_reads)
    stay = fill(directory, [f'stay{i}' for i in range(1500)])
    go = [f'go{i}' for i in range(1500)]
    fill(directory, go)
    rng.shuffle(go)
    seen, cookie, eof, made = [], bytes(4), False, 0
    while not eof:
        page = v2.readdir(fh, cookie, 400)
        equal(page.status, nfs.OK, 'a page')
        seen += [e.name for e in page.entries]
        for _ in range(8):
            if go:
                os.unlink(os.path.join(directory, go.pop()))
            os.mknod(os.path.join(directory, f'made{made}'))
            made += 1
        eof, cookie = page.eof, page.entries[-1].cookie if page.entries else cookie
    equal(len(seen), len(set(seen)), 'names seen, and different names')
    check(stay <= set(seen), f'{len(stay - set(seen))} names that stayed were not seen')


def cookies_outlive_a_restart(server, client, fh):
    v2 = two(client)
    right = fill(path_of(server, cookies_outlive_a_restart), [f'n{i}' for i in range(800)])
    page = v2.readdir(fh, count=2000)
    entries = page.entries
    while not page.eof:
        server.restart()
        page = Nfs2(server.tcp()).readdir(fh, entries[-1].cookie, 8000)
        equal(page.status, nfs.OK, 'a page after the restart')
        entries += page.entries
    once_each(entries, right, 'READDIR over restarts')


def every_cookie_of_a_page_goes_on_behind_its_name(server, client, fh):
    """Clients may drop the rest of a page, and come back for it."""
    v2 = two(client)
    fill(path_of(server, every_cookie_of_a_page_goes_on_behind_its_name),
         [f'n{i}' for i in range(300)])
    entries = v2.walk(fh, 8192)
    for at in range(0, len(entries) - 1, 7):
        page = v2.readdir(fh, entries[at].cookie, 200)
        equal((page.status, page.entries[0].name), (nfs.OK, entries[at + 1].name),
              f'what is behind {entries[at].name}')


def ext4_server():
    """A server whose export is an ext4 of which the hashes are known, or None."""
    server = nfs.Server(options='rw,async,no_root_squash,insecure')
    script = (f'truncate -s 32M "$0/image" && mkfs.ext4 -q -E hash_seed={HASH_SEED} "$0/image" '
              '>/dev/null 2>&1 && mount -o loop "$0/image" "$0/export" && exec "$@"')
    server.prefix = ['unshare', '--mount', 'sh', '-c', script, server.work]
    probe = subprocess.run([*server.prefix, 'true'], check=False)
    if probe.returncode != 0:
        print('skipped: no loop mounts here')
        server.log.close()
        shutil.rmtree(server.work)
        return None
    return server


def upper_halves(client, fh):
    """Of the positions of version 3, by name: where an entry is, the one before it points to."""
    position, found = 0, {}
    for entry in client.walk(fh):
        found[entry.name] = position >> 32
        position = entry.cookie
    return found


def names_with_the_same_cookie(_=None):
    """ext4's hashes have 31 + 32 bits, a cookie 32. Two names that differ in the lower half only
    are never parted by the end of a page; in pages too small for both nothing is lost in silence;
    and with one of them removed meanwhile, the other is still found."""
    server = ext4_server()
    if server is None:
        return
    with server:
        client, v2 = server.nfs(), Nfs2(server.tcp())
        fh = v2.new_dir(v2.mount(server.export).fh, 'd', mode=0o755)
        names = [*TIES, *(f'n{i}' for i in range(400))]
        for name in names:
            v2.new_file(fh, name)
        right = {b'.', b'..'} | {n.encode() for n in names}
        tied = [t.encode() for t in TIES]
        halves = upper_halves(client, fh)
        equal(halves[tied[0]], halves[tied[1]], 'upper halves of the hashes')
        for count in range(60, 200, 4):
            once_each(v2.walk(fh, count), right, f'READDIR, count {count}')
        page, entries = v2.readdir(fh, count=30), []
        while page.status == nfs.OK and not page.eof:
            entries += page.entries
            page = v2.readdir(fh, entries[-1].cookie, 30)
        equal(page.status, nfs.IO, 'pages too small for the two names together')
        behind = {e.name: e.cookie for e in v2.walk(fh)}
        order = [e.name for e in v2.walk(fh)]
        first, second = sorted(tied, key=order.index)
        before = order[order.index(first) - 1]
        equal([e.name for e in v2.readdir(fh, behind[first], 100).entries][:2], [first, second],
              'behind the first of the two, both again')
        equal(v2.remove(fh, first).status, nfs.OK, 'REMOVE of the first')
        for cookie in (behind[before], behind[first]):
            equal(v2.readdir(fh, cookie, 100).entries[0].name, second, 'the second is still there')


# ---- on the wire -----------------------------------------------------------------------------

def changing_calls(v2, fh):
    """(name, procedure, arguments, right status) of everything that is not idempotent."""
    file = v2.new_file(fh, 'file', b'data')
    v2.new_file(fh, 'gone')
    v2.new_file(fh, 'old')
    v2.new_dir(fh, 'empty', mode=0o755)
    here = nfs2.fhandle(fh)
    return (('SETATTR', nfs2.SETATTR, nfs2.fhandle(file) + nfs2.sattr(mtime=NOW)),
            ('WRITE', nfs2.WRITE, nfs2.fhandle(file) + u32(0, 2, 0) + opaque(b'xy')),
            ('CREATE', nfs2.CREATE, here + opaque('new') + nfs2.sattr(mode=0o644, size=0)),
            ('REMOVE', nfs2.REMOVE, here + opaque('gone')),
            ('RENAME', nfs2.RENAME, here + opaque('old') + here + opaque('newer')),
            ('LINK', nfs2.LINK, nfs2.fhandle(file) + here + opaque('more')),
            ('SYMLINK', nfs2.SYMLINK, here + opaque('link') + opaque('text') + nfs2.sattr()),
            ('MKDIR', nfs2.MKDIR, here + opaque('dir') + nfs2.sattr(mode=0o755)),
            ('RMDIR', nfs2.RMDIR, here + opaque('empty')))


def a_datagram_sent_again_gets_the_same_reply(server, client, fh):
    v2, transport = two(client), server.udp()
    for name, proc, args in changing_calls(v2, fh):
        message = nfs.call_message(nfs.NFS, 2, proc, args)
        first = transport.exchange(message)
        equal(nfs.Reply(first).body.u32(), nfs.OK, name)
        for _ in range(3):
            equal(transport.exchange(message).hex(), first.hex(), f'{name}, sent again')
    names = {e.name for e in v2.walk(fh)}
    equal(names, {b'.', b'..', b'file', b'new', b'newer', b'more', b'link', b'dir'}, 'names')


def the_way_of_a_boot_loader(server, client, fh):
    """P24: UDP from a port above 1023, MOUNT v1, LOOKUP, a link to the kernel, READs of 1,024."""
    rng = random.Random(24)
    kernel = rng.randbytes(70000)
    directory = path_of(server, the_way_of_a_boot_loader)
    os.makedirs(os.path.join(directory, 'boot', 'images'))
    with open(os.path.join(directory, 'boot', 'images', 'vmlinuz-6.1'), 'wb') as out:
        out.write(kernel)
    os.symlink('images/vmlinuz-6.1', os.path.join(directory, 'boot', 'vmlinuz'))
    with server.udp() as transport:
        check(transport.socket.getsockname()[1] > 1023, 'a high port')
        for v in (Nfs2(transport), nfs.Nfs(transport)):
            here = v.mount(directory + '/boot').fh
            link = v.lookup(here, 'vmlinuz')
            equal(link.attr.type, nfs2.NFLNK, 'type of the link')
            equal(v.read(link.fh, 0, 1024).status, nfs.ISDIR if v.__class__ is Nfs2 else nfs.INVAL,
                  'READ of the link, by which U-Boot finds out what it is')
            for part in v.readlink(link.fh).text.split(b'/'):
                here = v.lookup(here, part).fh
            data = b''.join(v.read(here, at, 1024).data for at in range(0, 70000, 1024))
            check(data == kernel, 'the kernel')


def every_procedure_survives_bad_arguments(server, client, fh):
    """Cut short anywhere, and random: GARBAGE_ARGS or a status, and the server goes on."""
    rng = random.Random(7)
    handle = nfs2.fhandle(fh)
    for proc in range(18):
        for args in (b'', handle[:16], handle, *(handle + rng.randbytes(rng.randrange(0, 120, 4))
                                                 for _ in range(30))):
            message = nfs.call_message(nfs.NFS, 2, proc, args)
            reply = nfs.Reply(client.transport.exchange(message))
            check(not reply.denied and reply.accept_stat in (nfs.SUCCESS, nfs.GARBAGE_ARGS),
                  f'procedure {proc}: {reply.accept_stat}')
    equal(two(client).getattr(fh).status, nfs.OK, 'GETATTR afterwards')


def what_cannot_be_made_durable_is_an_error():
    """§1.4.1 by its contrary: where every sync fails, a change on a sync export is not OK; on an
    async export nothing waits for it."""
    library = os.environ.get('HOLDFAST_FAILSYNC')
    if not library:
        print('skipped: HOLDFAST_FAILSYNC does not name the library')
        return
    for options, right in (('sync', nfs.IO), ('async', nfs.OK)):
        server = nfs.Server(options=f'rw,{options},no_root_squash,insecure')
        sign = os.path.join(server.state, 'sign')  # which the server sees
        asan = os.environ.get('ASAN_OPTIONS', '') + ':verify_asan_link_order=0'
        server.prefix = ['env', f'LD_PRELOAD={library}', f'FAILSYNC_WHILE={sign}',
                         f'ASAN_OPTIONS={asan}']
        with server:
            os.mknod(os.path.join(server.export, 'file'))
            v2 = Nfs2(server.udp())
            root = v2.mount(server.export).fh
            file = v2.lookup(root, 'file').fh
            equal(v2.write(file, 0, b'x').status, nfs.OK, 'WRITE while syncs work')
            open(sign, 'x', encoding='ascii').close()
            for what, result in (('WRITE', v2.write(file, 0, b'x')),
                                 ('SETATTR', v2.setattr(file, mode=0o600)),
                                 ('CREATE', v2.create(root, 'new', mode=0o644)),
                                 ('MKDIR', v2.mkdir(root, 'dir')),
                                 ('SYMLINK', v2.symlink(root, 'link', 'x')),
                                 ('LINK', v2.link(file, root, 'more')),
                                 ('RENAME', v2.rename(root, 'more', root, 'most')),
                                 ('RMDIR', v2.rmdir(root, 'dir')),
                                 ('REMOVE', v2.remove(root, 'file'))):
                equal(result.status, right, f'{what} on an export that is {options}')


CASES = [handles_have_32_bytes_everywhere, what_is_no_handle_is_stale, handles_outlive_a_restart,
         files_of_every_size_over_both_transports, large_files_are_told_as_the_largest,
         numbers_fit_their_words, a_full_disk_is_no_short_write, times_of_the_server,
         what_is_left_stays, special_files_the_old_way, errors_are_those_of_version_2,
         a_read_only_export_changes_nothing, root_is_squashed_as_the_export_says,
         pages_of_any_size_give_each_name_once, names_of_the_longest_kind,
         removing_while_reading_ends, others_come_and_go_while_one_reads,
         cookies_outlive_a_restart, every_cookie_of_a_page_goes_on_behind_its_name,
         names_with_the_same_cookie, a_datagram_sent_again_gets_the_same_reply,
         the_way_of_a_boot_loader, every_procedure_survives_bad_arguments,
         what_cannot_be_made_durable_is_an_error]

if __name__ == '__main__':
    nfs.run(CASES)
