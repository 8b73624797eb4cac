#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Attributes (RFC 1813 §2.5, §3.3.1, §3.3.2, §3.3.4): times, guards, owners, rights, and the
truth of before and after."""
import os
import subprocess

import nfs
from nfs import Nfs, Server, auth_sys, check, equal

READ, LOOKUP, MODIFY, EXTEND, DELETE, EXECUTE = 1, 2, 4, 8, 16, 32


def a_guard_lets_through_once(server, client, fh):
    """§3.3.2: the ctime that the server itself reported, to the nanosecond."""
    client.new_file(fh, 'file', b'x', mode=0o644)
    found = client.lookup(fh, 'file')
    seconds, nseconds = found.attr.ctime
    done = client.setattr(found.fh, guard=(seconds, nseconds), mode=0o600)
    equal(done.status, nfs.OK, 'SETATTR with the right guard')
    check(done.wcc.before and done.wcc.after, 'wcc_data is missing')
    equal(done.wcc.before[2], (seconds, nseconds), 'ctime before')
    again = client.setattr(found.fh, guard=(seconds, nseconds), mode=0o644)
    equal(again.status, nfs.NOT_SYNC, 'SETATTR with the old guard')
    check(again.wcc.after, 'wcc_data after a refused guard is missing')
    equal(again.wcc.after.mode, 0o600, 'mode')
    seconds, nseconds = client.getattr(found.fh).attr.ctime
    for guard in ((seconds, nseconds + 1), (seconds, nseconds - 1), (seconds + 1, nseconds),
                  (seconds ^ 0x80000000, nseconds), (0, 0), (seconds, 0xffffffff)):
        equal(client.setattr(found.fh, guard=guard, mode=0o644).status, nfs.NOT_SYNC,
              f'guard {guard} for {(seconds, nseconds)}')
    equal(client.getattr(found.fh).attr.mode, 0o600, 'mode in the end')


def times_of_every_century_can_be_read(server, client, fh):
    """nfstime3 has 32 unsigned bits: no error, and the seconds modulo 2^32."""
    path = os.path.join(server.export, 'times_of_every_century_can_be_read', 'file')
    file = client.new_file(fh, 'file')
    for date in ('1901-12-14', '1960-01-01', '1969-12-31 23:59:59', '1970-01-01', '2038-01-20',
                 '2040-01-01', '2110-01-01', '2446-01-01'):
        subprocess.run(['touch', '-d', date + ' UTC', path], check=True)
        stored = os.stat(path).st_mtime_ns // 10 ** 9
        attr = client.getattr(file).attr
        equal(attr.mtime[0], stored & 0xffffffff, f'mtime word of {date}')
        equal(client.lookup(fh, 'file').attr.mtime[0], stored & 0xffffffff, f'LOOKUP of {date}')


def every_word_of_seconds_reads_back(server, client, fh):
    file = client.new_file(fh, 'file')
    for word in (0, 1, 0x7fffffff, 0x80000000, 0x80000001, 0xed3008bc, 0xfffffffe, 0xffffffff):
        done = client.setattr(file, mtime=(word, 123456789), atime=(word ^ 1, 999999999))
        equal(done.status, nfs.OK, f'SETATTR of {word:#x}')
        attr = client.getattr(file).attr
        equal(attr.mtime, (word, 123456789), f'mtime {word:#x}')
        equal(attr.atime, (word ^ 1, 999999999), f'atime {word ^ 1:#x}')
        equal(done.wcc.after.mtime, (word, 123456789), 'mtime in wcc_data')


def every_word_reads_back_where_inodes_have_32_bits():
    """ext4 with inodes of 128 bytes keeps 1901 to 2038, and no nanoseconds."""
    script = ('truncate -s 16M "$0/image" && mkfs.ext4 -q -I 128 "$0/image" >/dev/null 2>&1 &&'
              'mount -o loop "$0/image" "$0/export" && exec "$@"')
    server = Server()
    server.prefix = ['unshare', '--mount', 'sh', '-c', script, server.work]
    with server:
        client = server.nfs()
        file = client.new_file(server.root(client), 'file')
        for word in (0, 0x7fffffff, 0x80000000, 0xed3008bc, 0xffffffff):
            equal(client.setattr(file, mtime=(word, 0), atime=(word, 0)).status, nfs.OK, 'SETATTR')
            attr = client.getattr(file).attr
            equal((attr.mtime[0], attr.atime[0]), (word, word), f'seconds {word:#x}')


def a_billion_nanoseconds_are_invalid(server, client, fh):
    """P09: in every procedure that takes a sattr3; nothing is made or changed."""
    file = client.new_file(fh, 'file', mtime=(5, 5))
    bad = {'mtime': (1, 10 ** 9)}
    equal(client.setattr(file, **bad).status, nfs.INVAL, 'SETATTR mtime')
    equal(client.setattr(file, atime=(1, 0xffffffff)).status, nfs.INVAL, 'SETATTR atime')
    equal(client.getattr(file).attr.mtime, (5, 5), 'mtime')
    equal(client.create(fh, 'a', **bad).status, nfs.INVAL, 'CREATE')
    equal(client.mkdir(fh, 'b', **bad).status, nfs.INVAL, 'MKDIR')
    equal(client.mknod(fh, 'c', 7, **bad).status, nfs.INVAL, 'MKNOD')
    equal(client.symlink(fh, 'd', 'text', **bad).status, nfs.INVAL, 'SYMLINK')
    equal(sorted(e.name for e in client.walk(fh)), [b'.', b'..', b'file'], 'names')


def local_changes_are_seen_at_once(server, client, fh):
    path = os.path.join(server.export, 'local_changes_are_seen_at_once')
    file = client.new_file(fh, 'file', b'12345', mode=0o644)
    for size in range(1, 60):
        with open(path + '/file', 'ab') as out:
            out.write(b'x')
        os.chmod(path + '/file', 0o600 + size)
        attr = client.getattr(file).attr
        equal((attr.size, attr.mode), (5 + size, 0o600 + size), 'size and mode')
    os.rename(path + '/file', path + '/other')
    equal(client.lookup(fh, 'file').status, nfs.NOENT, 'LOOKUP of the old name')
    equal(client.lookup(fh, 'other').fh, file, 'handle under the new name')
    os.unlink(path + '/other')
    equal(client.getattr(file).status, nfs.STALE, 'GETATTR of what a local process removed')


def attributes_agree_with_the_file_system(server, client, fh):
    path = os.path.join(server.export, 'attributes_agree_with_the_file_system')
    client.new_file(fh, 'file', b'x' * 5000, mode=0o4711)
    client.new_dir(fh, 'dir', mode=0o3770)
    client.symlink(fh, 'link', 'to/somewhere')
    client.mknod(fh, 'fifo', 7)
    client.mknod(fh, 'sock', 6)
    client.mknod(fh, 'char', 4, rdev=(5, 300000))
    client.mknod(fh, 'block', 3, rdev=(4095, 7))
    types = {'file': 1, 'dir': 2, 'block': 3, 'char': 4, 'link': 5, 'sock': 6, 'fifo': 7}
    for name, ftype in types.items():
        attr = client.lookup(fh, name).attr
        stat = os.lstat(os.path.join(path, name))
        equal(attr.type, ftype, f'type of {name}')
        equal((attr.mode, attr.nlink, attr.uid, attr.gid, attr.size, attr.used, attr.fileid),
              (stat.st_mode & 0o7777, stat.st_nlink, stat.st_uid, stat.st_gid, stat.st_size,
               stat.st_blocks * 512, stat.st_ino), name)
        equal(attr.rdev, (os.major(stat.st_rdev), os.minor(stat.st_rdev)), f'rdev of {name}')
        for seen, right in ((attr.atime, stat.st_atime_ns), (attr.mtime, stat.st_mtime_ns),
                            (attr.ctime, stat.st_ctime_ns)):
            equal(seen, divmod(right, 10 ** 9), f'a time of {name}')


def before_and_after_are_the_truth(server, client, fh):
    """wcc_data: before is what the last GETATTR said, after is what the next one says."""
    def short(attr):
        return attr.size, attr.mtime, attr.ctime

    file = client.new_file(fh, 'file', b'x')
    for what, run in (
            ('SETATTR', lambda: client.setattr(file, mode=0o640).wcc),
            ('WRITE', lambda: client.write(file, 7, b'more', nfs.FILE_SYNC).wcc),
            ('WRITE unstable', lambda: client.write(file, 700, b'more').wcc)):
        before = short(client.getattr(file).attr)
        wcc = run()
        check(wcc.before and wcc.after, f'{what}: wcc_data is missing')
        equal(wcc.before, before, f'{what}: before')
        equal(short(wcc.after), short(client.getattr(file).attr), f'{what}: after')
    for what, run in (
            ('CREATE', lambda: client.create(fh, 'new').wcc),
            ('MKDIR', lambda: client.mkdir(fh, 'dir').wcc),
            ('SYMLINK', lambda: client.symlink(fh, 'link', 'text').wcc),
            ('MKNOD', lambda: client.mknod(fh, 'fifo', 7).wcc),
            ('LINK', lambda: client.link(file, fh, 'hard').wcc),
            ('RENAME', lambda: client.rename(fh, 'new', fh, 'newer').from_wcc),
            ('RENAME', lambda: client.rename(fh, 'newer', fh, 'newest').to_wcc),
            ('REMOVE', lambda: client.remove(fh, 'newest').wcc),
            ('RMDIR', lambda: client.rmdir(fh, 'dir').wcc)):
        before = short(client.getattr(fh).attr)
        wcc = run()
        check(wcc.before and wcc.after, f'{what}: wcc_data is missing')
        equal(wcc.before, before, f'{what}: before')
        equal(short(wcc.after), short(client.getattr(fh).attr), f'{what}: after')
        check(wcc.before != short(wcc.after), f'{what}: before and after are the same')


def every_change_changes_the_ctime(server, client, fh):
    """Clients tell contents apart by it, also within one tick of the clock."""
    file = client.new_file(fh, 'file', b'x')
    seen = set()
    for i in range(200):
        wcc = client.write(file, 0, bytes([i & 255])).wcc
        seen.add((wcc.after.mtime, wcc.after.ctime))
    check(len(seen) > 190 or len(seen) > 1,
          f'200 writes left {len(seen)} different times')


def failures_carry_attributes(server, client, fh):
    """§3.1: post_op_attr and wcc_data with errors, when the object was found."""
    file = client.new_file(fh, 'file')
    checks = {
        'LOOKUP': client.lookup(fh, 'none').dir,
        'READLINK': client.readlink(file).attr,
        'READ of a directory': client.read(fh, 0, 1).attr,
        'WRITE to a directory': client.write(fh, 0, b'x').wcc.after,
        'CREATE': client.create(fh, 'file', nfs.GUARDED).wcc.after,
        'MKDIR': client.mkdir(fh, 'file').wcc.after,
        'SYMLINK': client.symlink(fh, 'file', 'x').wcc.after,
        'MKNOD': client.mknod(fh, 'file', 7).wcc.after,
        'REMOVE': client.remove(fh, 'none').wcc.after,
        'RMDIR': client.rmdir(fh, 'none').wcc.after,
        'RENAME': client.rename(fh, 'none', fh, 'x').from_wcc.after,
        'LINK': client.link(file, fh, 'file').wcc.after,
        'READDIR of a file': client.readdir(file).dir,
    }
    for what, attr in checks.items():
        check(attr is not None, f'{what} failed without attributes')


def setattr_follows_posix(server, client, fh):
    """Who may do what is the file system's affair (§3.3.2; chown_restricted)."""
    file = client.new_file(fh, 'file', b'12345', mode=0o644)
    equal(client.setattr(file, uid=1000, gid=1000).status, nfs.OK, 'chown by root')
    owner = Nfs(server.tcp(), auth_sys(1000, 1000, [2000]))
    other = Nfs(server.tcp(), auth_sys(1001, 1001))
    equal(owner.setattr(file, mode=0o640).status, nfs.OK, 'chmod by the owner')
    equal(other.setattr(file, mode=0o666).status, nfs.PERM, 'chmod by another')
    equal(owner.setattr(file, uid=1001).status, nfs.PERM, 'giving a file away')
    equal(owner.setattr(file, gid=2000).status, nfs.OK, 'chgrp to a group of the owner')
    equal(owner.setattr(file, gid=3000).status, nfs.PERM, 'chgrp to a group of others')
    equal(other.setattr(file, size=0).status, nfs.ACCES, 'truncation by another')
    equal(other.setattr(file, atime='now', mtime='now').status, nfs.ACCES, 'touch by another')
    equal(other.setattr(file, mtime=(1, 1)).status, nfs.PERM, 'setting a time by another')
    equal(owner.setattr(file, size=3).status, nfs.OK, 'truncation by the owner')
    equal(client.read(file, 0, 100).data, b'123', 'data')
    equal(client.setattr(file, size=10).status, nfs.OK, 'growing')
    equal(client.read(file, 0, 100).data, b'123' + bytes(7), 'data')
    equal(client.setattr(file, size=1 << 63).status in (nfs.INVAL, nfs.FBIG), True, 'size 2^63')
    equal(client.setattr(file, uid=0xffffffff).status, nfs.INVAL, 'the owner that is none')
    check(client.setattr(fh, size=0).status in (nfs.ISDIR, nfs.INVAL), 'the size of a directory')
    attr = client.getattr(file).attr
    equal((attr.uid, attr.gid, attr.mode, attr.size), (1000, 2000, 0o640, 10), 'in the end')


def setuid_goes_when_another_writes(server, client, fh):
    file = client.new_file(fh, 'file', b'x', mode=0o6777)
    other = Nfs(server.tcp(), auth_sys(1001, 1001))
    equal(other.write(file, 0, b'y').status, nfs.OK, 'WRITE by another')
    equal(client.getattr(file).attr.mode, 0o777, 'mode after it')


def access_is_what_the_kernel_grants(server, client, fh):
    """§3.3.4, for owner, group, supplementary group and others."""
    file = client.new_file(fh, 'file', mode=0o640, uid=1000, gid=2000)
    directory = client.new_dir(fh, 'dir', mode=0o750, uid=1000, gid=2000)
    program = client.new_file(fh, 'program', mode=0o755)
    everything = READ | LOOKUP | MODIFY | EXTEND | DELETE | EXECUTE
    for who, cred, on_file, on_dir, on_program in (
            ('root', auth_sys(), READ | MODIFY | EXTEND,
             READ | LOOKUP | MODIFY | EXTEND | DELETE, READ | MODIFY | EXTEND | EXECUTE),
            ('the owner', auth_sys(1000, 99), READ | MODIFY | EXTEND,
             READ | LOOKUP | MODIFY | EXTEND | DELETE, READ | EXECUTE),
            ('the group', auth_sys(1001, 2000), READ, READ | LOOKUP, READ | EXECUTE),
            ('a supplementary group', auth_sys(1001, 99, range(1985, 2001)), READ, READ | LOOKUP,
             READ | EXECUTE),
            ('others', auth_sys(1001, 99), 0, 0, READ | EXECUTE),
            ('nobody', nfs.AUTH_NONE, 0, 0, READ | EXECUTE)):
        user = Nfs(client.transport, cred)
        equal(user.access(file, everything).access, on_file, f'{who}, file')
        equal(user.access(directory, everything).access, on_dir, f'{who}, directory')
        equal(user.access(program, everything).access, on_program, f'{who}, program')


def identities_do_not_leak_between_calls(server, client, fh):
    """Calls of different users in one segment: each is judged as itself."""
    secret = client.new_file(fh, 'secret', b'x', mode=0o600, uid=1000)
    calls, right = [], {}
    for i in range(300):
        uid = (0, 1000, 1001, None)[i % 4]
        cred = nfs.AUTH_NONE if uid is None else auth_sys(uid, 1)
        call = nfs.call_message(nfs.NFS, 3, nfs.READ,
                                nfs.opaque(secret) + nfs.u64(0) + nfs.u32(1), cred=cred)
        calls.append(nfs.record(call))
        right[call[:4]] = nfs.OK if uid in (0, 1000) else nfs.ACCES
    with server.tcp() as connection:
        connection.send(b''.join(calls))
        for _ in calls:
            message = connection.receive()
            equal(nfs.Reply(message).body.u32(), right[message[:4]], 'status')


if __name__ == '__main__':
    nfs.run([
        a_guard_lets_through_once,
        times_of_every_century_can_be_read,
        every_word_of_seconds_reads_back,
        every_word_reads_back_where_inodes_have_32_bits,
        a_billion_nanoseconds_are_invalid,
        local_changes_are_seen_at_once,
        attributes_agree_with_the_file_system,
        before_and_after_are_the_truth,
        every_change_changes_the_ctime,
        failures_carry_attributes,
        setattr_follows_posix,
        setuid_goes_when_another_writes,
        access_is_what_the_kernel_grants,
        identities_do_not_leak_between_calls,
    ])
