#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""manage_gids: the groups of the server's user database in place of the sixteen of AUTH_SYS. The
server has an /etc of its own (mount namespace)."""
import os
import subprocess
import time

import nfs
from nfs import Nfs, Server, auth_sys, check, equal

MEMBER, OTHER, ROOTLY, STRANGER = 4242, 4243, 4244, 4299
GROUPS = range(7001, 7021)
CLAIMED = 7099  # a group that somebody says he is in, and is not


def etc_files(work, groups=GROUPS):
    files = {
        'passwd': 'root:x:0:0::/:/bin/sh\n' + ''.join(
            f'{name}:x:{uid}:{uid}::/:/bin/sh\n'
            for name, uid in (('member', MEMBER), ('other', OTHER), ('rootly', ROOTLY))),
        'group': 'root:x:0:rootly\n' + ''.join(f'g{gid}:x:{gid}:member\n' for gid in groups)
                 + f'claimed:x:{CLAIMED}:\n',
        'nsswitch.conf': 'passwd: files\ngroup: files\nhosts: files\nnetgroup: files\n',
        'hosts': '127.0.0.1 localhost\n',
    }
    for name, text in files.items():
        with open(os.path.join(work, name), 'w', encoding='ascii') as out:
            out.write(text)
    return files


def server_with(options='manage_gids', arguments=(), environment=()):
    server = Server(f'rw,async,no_root_squash,insecure,{options}'.rstrip(','), arguments)
    script = ''.join(f'mount --bind "$0/{name}" /etc/{name};' for name in etc_files(server.work))
    server.prefix = ['unshare', '--mount', 'sh', '-ec', script + 'exec "$@"', server.work,
                     'env', *environment]
    return server


def make_file(server, gid, mode=0o640):
    path = os.path.join(server.export, f'f{gid}')
    with open(path, 'w', encoding='ascii') as out:
        out.write('words')
    os.chown(path, 0, gid)
    os.chmod(path, mode)
    return path


def reads(server, uid, gid, gids, name):
    """The status of a READ, by who has only that credential."""
    with server.tcp() as connection:
        client = Nfs(connection, auth_sys(uid, gid, gids))
        root = client.mount(server.export).fh
        return client.read(client.lookup(root, name).fh, 0, 9).status


def twenty_groups():
    """The last of twenty does not fit a credential."""
    for options, arguments, right in (('', (), nfs.ACCES), ('manage_gids', (), nfs.OK),
                                      ('', ('--manage-gids',), nfs.OK),
                                      ('manage_gids,no_manage_gids', (), nfs.ACCES)):
        with server_with(options, arguments) as server:
            what = f'{options} {arguments}'
            for gid in GROUPS:
                make_file(server, gid)
            first = list(GROUPS)[:16]
            equal(reads(server, MEMBER, MEMBER, first, 'f7020'), right, f'{what}: group 20')
            equal(reads(server, MEMBER, MEMBER, first, 'f7016'), nfs.OK, f'{what}: group 16')
            equal(reads(server, MEMBER, MEMBER, (), 'f7001'), right, f'{what}: of no groups told')
            equal(reads(server, OTHER, OTHER, (), 'f7020'), nfs.ACCES, f'{what}: another user')


def what_a_credential_says_does_not_count():
    """But for the first group, so that newgrp(1) works."""
    with server_with() as server:
        make_file(server, CLAIMED)
        make_file(server, 7001)
        name = f'f{CLAIMED}'
        equal(reads(server, MEMBER, MEMBER, (CLAIMED,), name), nfs.ACCES, 'a group that is told')
        equal(reads(server, MEMBER, CLAIMED, (), name), nfs.OK, 'a first group that is told')
        equal(reads(server, MEMBER, CLAIMED, (), 'f7001'), nfs.OK, 'and the others stay')
        equal(reads(server, STRANGER, STRANGER, (CLAIMED,), name), nfs.ACCES, 'an unknown user')
        equal(reads(server, STRANGER, STRANGER, (7001,), 'f7001'), nfs.ACCES, 'an unknown user')


def every_way_in_knows_them():
    """ACCESS, again and again and in turns with others (answers are kept), CREATE, chgrp."""
    with server_with() as server:
        path = os.path.join(server.export, 'dir')
        os.mkdir(path)
        os.chown(path, 0, 7020)
        os.chmod(path, 0o2770)
        with server.tcp() as connection:
            member = Nfs(connection, auth_sys(MEMBER, MEMBER))
            other = Nfs(connection, auth_sys(OTHER, OTHER, [7020]))
            fh = member.lookup(member.mount(server.export).fh, 'dir').fh
            for _ in range(20):
                equal(member.access(fh, 0x1f).access, 0x1f, 'ACCESS of a member')
                equal(other.access(fh, 0x1f).access, 0, 'ACCESS of another')
            made = member.create(fh, 'file', mode=0o2755)
            equal(made.status, nfs.OK, 'CREATE')
            equal((made.attr.uid, made.attr.gid), (MEMBER, 7020), 'owner of the new file')
            equal(other.create(fh, 'more').status, nfs.ACCES, 'CREATE of another')
            equal(member.setattr(made.fh, gid=7003).status, nfs.OK, 'chgrp to one of his')
            equal(member.setattr(made.fh, gid=CLAIMED).status, nfs.PERM, 'chgrp to another')


def group_zero_is_squashed():
    for options, right in (('root_squash', nfs.ACCES), ('no_root_squash', nfs.OK)):
        with server_with(f'manage_gids,{options},anongid=7500') as server:
            make_file(server, 0)
            make_file(server, 7500)
            equal(reads(server, ROOTLY, ROOTLY, (), 'f0'), right, f'{options}: group root')
            squashed = {nfs.ACCES: nfs.OK, nfs.OK: nfs.ACCES}[right]
            equal(reads(server, ROOTLY, ROOTLY, (), 'f7500'), squashed, f'{options}: anongid')


def two_exports_squash_in_two_ways():
    """One list of the database, two lists of groups, in turns on one connection."""
    directories = [f'@work/export/{name}(rw,async,insecure,manage_gids,{options})'
                   for name, options in (('a', 'root_squash,anongid=7500'),
                                         ('b', 'root_squash,anongid=7501'),
                                         ('c', 'no_root_squash'))]
    server = server_with()
    server.directories = [d.replace('@work', server.work) for d in directories]
    for name in 'abc':
        os.mkdir(f'{server.export}/{name}')
        for gid in (0, 7500, 7501):
            path = f'{server.export}/{name}/f{gid}'
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o640))
            os.chown(path, 0, gid)
            os.chmod(path, 0o640)
    with server, server.tcp() as connection:
        client = Nfs(connection, auth_sys(ROOTLY, ROOTLY))
        roots = {name: client.mount(f'{server.export}/{name}').fh for name in 'abc'}
        for _ in range(5):
            for name, gid in (('a', 7500), ('b', 7501), ('c', 0)):
                for other in (0, 7500, 7501):
                    fh = client.lookup(roots[name], f'f{other}').fh
                    equal(client.access(fh, 1).access, 1 if gid == other else 0,
                          f'group {other} in {name}')


def told_anew_after_a_reload():
    with server_with() as server:
        make_file(server, 7020)
        equal(reads(server, MEMBER, MEMBER, (), 'f7020'), nfs.OK, 'a member')
        etc_files(server.work, range(7001, 7020))
        equal(reads(server, MEMBER, MEMBER, (), 'f7020'), nfs.OK, 'it is kept for a while')
        subprocess.run([server.binary, 'exports', 'reload', '--state', server.state], check=True,
                       capture_output=True)
        equal(reads(server, MEMBER, MEMBER, (), 'f7020'), nfs.ACCES, 'after a reload')


def a_slow_database_stops_nobody_else():
    """A user's first call waits, others are served meanwhile; and it is one question for many
    calls."""
    library = os.environ.get('HOLDFAST_SLOWNSS')
    if not library:
        print('skipped: HOLDFAST_SLOWNSS does not name the library')
        return
    asan = os.environ.get('ASAN_OPTIONS', '') + ':verify_asan_link_order=0'
    server = server_with()
    until, log = os.path.join(server.work, 'until'), os.path.join(server.work, 'asked')
    server.prefix += [f'LD_PRELOAD={library}', f'ASAN_OPTIONS={asan}', 'SLOWNSS_USER=member',
                      f'SLOWNSS_UNTIL={until}', f'SLOWNSS_LOG={log}']
    with server:
        make_file(server, 7020)
        root = server.root()
        equal(reads(server, OTHER, OTHER, (), 'f7020'), nfs.ACCES, 'READ of another user')
        with server.tcp(timeout=60) as waiting, server.tcp(timeout=60) as also, \
                server.tcp(timeout=60) as others:
            call = nfs.call_message(nfs.NFS, 3, nfs.LOOKUP, nfs.opaque(root) + nfs.opaque('f7020'),
                                    cred=auth_sys(MEMBER, MEMBER))
            for connection in (waiting, also):
                connection.send(nfs.record(call))
            other = Nfs(others, auth_sys(OTHER, OTHER))
            for _ in range(100):
                equal(other.getattr(root).status, nfs.OK, 'GETATTR of another user')
            with open(until, 'x', encoding='ascii'):
                pass
            for connection in (waiting, also):
                status = nfs.Reply(connection.receive()).body.u32()
                check(status in (nfs.OK, nfs.JUKEBOX), f'LOOKUP of the member: {status}')
            for _ in range(50):
                while (status := reads(server, MEMBER, MEMBER, (), 'f7020')) == nfs.JUKEBOX:
                    time.sleep(0.1)
                equal(status, nfs.OK, 'READ of the member')
        with open(log, encoding='ascii') as lines:
            asked = lines.read().split()
        equal(sorted(asked), ['member', 'other', 'root'], 'who was asked about')


if __name__ == '__main__':
    nfs.run([twenty_groups, what_a_credential_says_does_not_count, every_way_in_knows_them,
             group_zero_is_squashed, two_exports_squash_in_two_ways, told_anew_after_a_reload,
             a_slow_database_stops_nobody_else])
