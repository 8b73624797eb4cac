#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""NFS_ACL (spec/nfsacl.x), against setfacl(1) and getfacl(1) on the server's own file system: what
is set on one side is seen on the other, and the kernel decides by it."""
import os
import random
import shutil
import socket
import subprocess

import nfs
import nfs2
from nfs import Result, Server, auth_sys, check, equal, opaque, u32

NFSACL, GETACL, SETACL = 100227, 1, 2
ACL, ACLCNT, DFACL, DFACLCNT = 1, 2, 4, 8
USER_OBJ, USER, GROUP_OBJ, GROUP, CLASS_OBJ, OTHER_OBJ, DEFAULT = 1, 2, 4, 8, 16, 32, 0x1000
WORDS = {USER_OBJ: 'user', USER: 'user', GROUP_OBJ: 'group', GROUP: 'group', CLASS_OBJ: 'mask',
         OTHER_OBJ: 'other'}
READ, LOOKUP, MODIFY = 1, 2, 4


def wire_list(entries, kind=0):
    """[(type, id, perm)] with its two lengths."""
    return u32(len(entries), len(entries)) + b''.join(
        u32(type_ | kind, id_, perm) for type_, id_, perm in entries)


def read_list(reader):
    told, count = reader.u32(), reader.u32()
    entries = [(reader.u32(), reader.u32(), reader.u32()) for _ in range(count)]
    return told, entries


class Client(nfs.Nfs):
    """Version 3, beside NFS over the same transport."""

    def getacl(self, fh, mask=ACL | ACLCNT | DFACL | DFACLCNT):
        reader = self.rpc(GETACL, opaque(fh) + u32(mask), NFSACL)
        result = Result(reader.u32())
        result.attr = nfs.post_op_attr(reader)
        if result.status == nfs.OK:
            equal(reader.u32(), mask, 'the mask of the reply')
            result.count, result.acl = read_list(reader)
            result.default_count, result.default = read_list(reader)
        reader.end()
        return result

    def setacl(self, fh, acl=None, default=None, xid=None):
        mask = (ACL if acl is not None else 0) | (DFACL if default is not None else 0)
        args = opaque(fh) + u32(mask) + wire_list(acl or []) + wire_list(default or [], DEFAULT)
        reader = self.rpc(SETACL, args, NFSACL, xid=xid)
        result = Result(reader.u32())
        result.attr = nfs.post_op_attr(reader)
        reader.end()
        return result


def client_of(client, **more):
    return Client(client.transport, **more)


def text_of(entries, attr, default=False):
    """As `getfacl -n -c -E` has it, for a list from the wire. A mask of four entries that says what
    the group's says is one that Solaris wants and getfacl does not know."""
    perms = {type_ & ~DEFAULT: perm for type_, _, perm in entries}
    idle = len(entries) == 4 and perms.get(CLASS_OBJ) == perms[GROUP_OBJ]
    lines = []
    for type_, id_, perm in entries:
        check(bool(type_ & DEFAULT) == default, f'type {type_:#x}')
        type_ &= ~DEFAULT
        if type_ == CLASS_OBJ and idle:
            continue
        right = {USER_OBJ: attr.uid, GROUP_OBJ: attr.gid, CLASS_OBJ: 0, OTHER_OBJ: 0}
        equal(id_, right.get(type_, id_), f'id of type {type_:#x}')
        name = str(id_) if type_ in (USER, GROUP) else ''
        bits = ''.join(c if perm & bit else '-' for c, bit in zip('rwx', (4, 2, 1)))
        lines.append(f'{"default:" if default else ""}{WORDS[type_]}:{name}:{bits}')
    return lines


def local(path):
    """What getfacl says on the server."""
    done = subprocess.run(['getfacl', '-n', '-c', '-E', '-p', path], check=True,
                          capture_output=True, text=True)
    return done.stdout.split()


def seen(client, fh):
    """What a client sees, as getfacl would say it."""
    result = client.getacl(fh)
    equal(result.status, nfs.OK, 'GETACL')
    equal((result.count, result.default_count), (len(result.acl), len(result.default)), 'lengths')
    return text_of(result.acl, result.attr) + text_of(result.default, result.attr, True)


def path_of(server, case, *names):
    return os.path.join(server.export, case.__name__, *names)


def random_list(rng, default=False):
    """As setfacl makes them, in any order of ids."""
    def perm():
        return ''.join(c if rng.random() < 0.6 else '-' for c in 'rwx')

    users = rng.sample(range(1, 70000), rng.randrange(0, 6))
    groups = rng.sample(range(1, 70000), rng.randrange(0, 6))
    group, mask = perm(), perm()
    words = [f'u::{perm()}', f'g::{group}', f'o::{perm()}']
    words += [f'u:{id_}:{perm()}' for id_ in users] + [f'g:{id_}:{perm()}' for id_ in groups]
    if users or groups or mask != group:
        words.append(f'm::{mask}')
    return ','.join(('d:' if default else '') + word for word in words)


def wire_of(words):
    """The wire's entries for what setfacl was given."""
    tags = {'u': (USER_OBJ, USER), 'g': (GROUP_OBJ, GROUP), 'm': (CLASS_OBJ, 0),
            'o': (OTHER_OBJ, 0)}
    entries = []
    for word in words.split(','):
        tag, id_, perm = word.removeprefix('d:').split(':')
        value = sum(bit for c, bit in zip('rwx', (4, 2, 1)) if c in perm)
        entries.append((tags[tag][1], int(id_), value) if id_ else (tags[tag][0], 0, value))
    return entries


# ---- the same on both sides ------------------------------------------------------------------

def what_setfacl_sets_is_seen(server, client, fh):
    rng, client = random.Random(1), client_of(client)
    file, made = path_of(server, what_setfacl_sets_is_seen, 'f'), client.new_file(fh, 'f')
    dir_, made_dir = path_of(server, what_setfacl_sets_is_seen, 'd'), client.new_dir(fh, 'd')
    for _ in range(60):
        subprocess.run(['setfacl', '--set', random_list(rng), file], check=True)
        equal(seen(client, made), local(file), 'the list of a file')
        words = ','.join((random_list(rng), random_list(rng, True)))
        subprocess.run(['setfacl', '--set', words, dir_], check=True)
        equal(seen(client, made_dir), local(dir_), 'the lists of a directory')
    subprocess.run(['setfacl', '-b', dir_, file], check=True)
    for path, handle in ((file, made), (dir_, made_dir)):
        equal(seen(client, handle), local(path), 'without lists')
        equal(client.getacl(handle).default_count, 0, 'entries of the default list')


def what_is_set_getfacl_says(server, client, fh):
    """And it is what setfacl makes of the same words; entries in any order."""
    rng, client = random.Random(2), client_of(client)
    file, made = path_of(server, what_is_set_getfacl_says, 'f'), client.new_file(fh, 'f')
    dir_, made_dir = path_of(server, what_is_set_getfacl_says, 'd'), client.new_dir(fh, 'd')
    right = path_of(server, what_is_set_getfacl_says, 'right')
    os.mkdir(right)
    for _ in range(60):
        words, default = random_list(rng), random_list(rng, True)
        subprocess.run(['setfacl', '--set', f'{words},{default}', right], check=True)
        entries, default_entries = wire_of(words), wire_of(default)
        rng.shuffle(entries)
        rng.shuffle(default_entries)
        done = client.setacl(made_dir, entries, default_entries)
        equal(done.status, nfs.OK, f'SETACL of {words} {default}')
        equal(done.attr.mode, os.stat(dir_).st_mode & 0o7777, 'mode in the reply')
        equal(local(dir_), local(right), f'SETACL of {words} {default}')
        equal(client.setacl(made, entries).status, nfs.OK, f'SETACL of {words}')
        equal(local(file), [line for line in local(right) if not line.startswith('default')],
              f'SETACL of {words}')
    equal(client.setacl(made_dir, default=[]).status, nfs.OK, 'SETACL of no default list')
    equal([line for line in local(dir_) if line.startswith('default')], [], 'default list')
    mode = os.stat(file).st_mode
    equal(client.setacl(made, []).status, nfs.OK, 'SETACL of no list')
    equal((os.stat(file).st_mode, os.listxattr(file)), (mode, []), 'mode, and no list')


def a_list_that_is_not_named_stays(server, client, fh):
    client = client_of(client)
    made = client.new_dir(fh, 'd', mode=0o755)
    path = path_of(server, a_list_that_is_not_named_stays, 'd')
    subprocess.run(['setfacl', '-m', 'u:7:rwx,d:u:8:rwx', path], check=True)
    before = local(path)
    entries = wire_of('u::rwx,u:9:r--,g::r-x,m::rwx,o::---')
    equal(client.setacl(made, entries).status, nfs.OK, 'SETACL of the access list')
    after = local(path)
    check('user:9:r--' in after and 'user:7:rwx' not in after, f'the access list is {after}')
    equal([x for x in after if 'default' in x], [x for x in before if 'default' in x], 'default')
    equal(client.setacl(made, default=entries).status, nfs.OK, 'SETACL of the default list')
    equal([x for x in local(path) if 'default' not in x], [x for x in after if 'default' not in x],
          'the access list')
    equal(client.setacl(made).status, nfs.OK, 'SETACL of nothing')


def both_or_neither(server, client, fh):
    client = client_of(client)
    made = client.new_dir(fh, 'd', mode=0o755)
    path = path_of(server, both_or_neither, 'd')
    subprocess.run(['setfacl', '-m', 'u:7:rwx,d:u:8:rwx', path], check=True)
    before = local(path)
    good, bad = wire_of('u::rwx,u:9:r--,g::r-x,m::rwx,o::---'), wire_of('u::rwx,u:9:r--,o::---')
    equal(client.setacl(made, bad, good).status, nfs.INVAL, 'a bad access list')
    equal(local(path), before, 'lists')
    equal(client.setacl(made, good, bad).status, nfs.INVAL, 'a bad default list')
    equal(local(path), before, 'lists')


def what_is_no_list_is_invalid(server, client, fh):
    client = client_of(client)
    made = client.new_file(fh, 'f', mode=0o640)
    three = [(USER_OBJ, 0, 6), (GROUP_OBJ, 0, 4), (OTHER_OBJ, 0, 0)]
    for what, entries in (('no owner', three[1:]), ('two owners', three + [(USER_OBJ, 0, 6)]),
                          ('a user without a mask', three + [(USER, 5, 4)]),
                          ('four bits', three[:2] + [(OTHER_OBJ, 0, 8)]),
                          ('type 0', three + [(0, 0, 0)]), ('type 64', three + [(64, 0, 0)]),
                          ('two types', three + [(USER | GROUP, 5, 4), (CLASS_OBJ, 0, 7)]),
                          ('nobody', three + [(USER, 0xffffffff, 4), (CLASS_OBJ, 0, 7)])):
        equal(client.setacl(made, entries).status, nfs.INVAL, what)
    args = opaque(made) + u32(ACL) + u32(2, 3) + wire_list(three)[8:] + u32(0, 0)
    equal(client.rpc(SETACL, args, NFSACL).u32(), nfs.INVAL, 'a length that is another one')
    equal(client.setacl(made, default=three).status, nfs.ACCES, 'a default list of a file')
    equal(client.setacl(made, default=[]).status, nfs.OK, 'no default list of a file')
    equal(local(path_of(server, what_is_no_list_is_invalid, 'f')),
          ['user::rw-', 'group::r--', 'other::---'], 'the list in the end')


def long_lists(server, client, fh):
    """As many entries as the file system takes; more is an error, and changes nothing."""
    client = client_of(client)
    made, path = client.new_file(fh, 'f'), path_of(server, long_lists, 'f')
    longest = 0
    for count in (25, 100, 500, 1019, 1020):
        entries = wire_of('u::rwx,g::r-x,m::rwx,o::---') + [(USER, 1 + i, 4) for i in range(count)]
        before = local(path)
        status = client.setacl(made, entries).status
        check(status in (nfs.OK, nfs.NOSPC, nfs.FBIG), f'{count} users: status {status}')
        if status != nfs.OK:
            equal(local(path), before, f'the list after {count} users were refused')
            continue
        longest = count
        equal(seen(client, made), local(path), f'{count} users')
        equal(len(local(path)), count + 4, 'entries')
    check(longest > 0, 'not even 25 users')


def special_files_have_lists_and_links_have_not(server, client, fh):
    client = client_of(client)
    path = path_of(server, special_files_have_lists_and_links_have_not)
    os.mkfifo(f'{path}/fifo', 0o600)
    with socket.socket(socket.AF_UNIX) as bound:
        os.chdir(path)  # a socket's name has few bytes
        bound.bind('socket')
        os.chdir('/')
    os.mknod(f'{path}/device', 0o20600, os.makedev(1, 3))
    os.symlink('fifo', f'{path}/link')
    for name in ('fifo', 'socket', 'device'):
        made = client.lookup(fh, name).fh
        equal(seen(client, made), local(f'{path}/{name}'), name)
        done = client.setacl(made, wire_of('u::rw-,u:5:r--,g::---,m::r--,o::---'))
        equal(done.status, nfs.OK, f'SETACL of a {name}')
        check('user:5:r--' in local(f'{path}/{name}'), f'list of a {name}')
        equal(seen(client, made), local(f'{path}/{name}'), name)
    link = client.lookup(fh, 'link').fh
    equal(text_of(client.getacl(link).acl, client.getattr(link).attr),
          ['user::rwx', 'group::rwx', 'other::rwx'], 'a link')
    equal(client.setacl(link, wire_of('u::rw-,g::---,o::---')).status, nfs.NOTSUPP, 'SETACL')


# ---- who may, and what follows ---------------------------------------------------------------

def the_owner_sets_and_the_kernel_decides(server, client, fh):
    client = client_of(client)
    made = client.new_file(fh, 'f', b'words', mode=0o600, uid=1000, gid=1000)
    users = {uid: client_of(client, cred=auth_sys(uid, uid)) for uid in (1000, 1001, 1002)}
    equal(users[1001].access(made, READ | MODIFY).access, 0, 'ACCESS of another')
    for uid, status in ((1001, nfs.PERM), (1000, nfs.OK), (1002, nfs.PERM)):
        entries = wire_of('u::rw-,u:1001:rw-,u:1002:rw-,g::---,m::r--,o::---')
        equal(users[uid].setacl(made, entries).status, status, f'SETACL of {uid}')
    for uid, right in ((1000, READ | MODIFY), (1001, READ), (1002, READ)):
        equal(users[uid].access(made, READ | MODIFY).access, right, f'ACCESS of {uid}')
        status = users[uid].write(made, 0, b'W').status
        equal(status, nfs.OK if right & MODIFY else nfs.ACCES, f'WRITE of {uid}')
        equal(users[uid].read(made, 0, 9).data, b'Words', f'READ of {uid}')
        equal(seen(users[uid], made), seen(client, made), f'what {uid} sees')
    equal(client.setattr(made, mode=0o660).status, nfs.OK, 'SETATTR of the mode: the mask is rw-')
    check('mask::rw-' in seen(client, made), 'the mask')
    equal(users[1001].access(made, READ | MODIFY).access, READ | MODIFY, 'ACCESS then')
    equal(users[1001].write(made, 0, b'w').status, nfs.OK, 'WRITE then')
    equal(users[1000].setacl(made, wire_of('u::rw-,g::---,o::---')).status, nfs.OK, 'taken away')
    equal(users[1001].access(made, READ | MODIFY).access, 0, 'ACCESS in the end')


def what_is_made_begins_with_the_default_list(server, client, fh):
    """As when a program makes it on the server, with the same mode and no umask."""
    client = client_of(client)
    top = path_of(server, what_is_made_begins_with_the_default_list)
    subprocess.run(['setfacl', '-m', 'd:u::rwx,d:u:7:rwx,d:g::r-x,d:g:8:rwx,d:m::rwx,d:o::r-x',
                    top], check=True)
    old = os.umask(0)
    try:
        for mode in (0o777, 0o750, 0o644, 0o600, 0o000):
            os.close(os.open(f'{top}/here{mode:o}', os.O_CREAT | os.O_WRONLY, mode))
            os.mkdir(f'{top}/dir{mode:o}', mode)
            os.mkfifo(f'{top}/fifo{mode:o}', mode)
            client.new_file(fh, f'f{mode:o}', mode=mode)
            client.new_dir(fh, f'd{mode:o}', mode=mode)
            equal(client.mknod(fh, f'p{mode:o}', 7, mode=mode).status, nfs.OK, 'MKNOD')
            for ours, theirs in (('f', 'here'), ('d', 'dir'), ('p', 'fifo')):
                equal(local(f'{top}/{ours}{mode:o}'), local(f'{top}/{theirs}{mode:o}'),
                      f'{ours} with mode {mode:o}')
    finally:
        os.umask(old)


def a_read_only_export_changes_nothing():
    with Server('ro,no_root_squash,insecure') as server:
        os.mknod(f'{server.export}/f')
        client = Client(server.tcp())
        made = client.lookup(client.mount(server.export).fh, 'f').fh
        equal(client.setacl(made, wire_of('u::rwx,g::---,o::---')).status, nfs.ROFS, 'SETACL')
        equal(seen(client, made), local(f'{server.export}/f'), 'GETACL')


def an_export_with_no_acl_tells_of_none():
    with Server('rw,no_acl,no_root_squash,insecure') as server:
        os.mknod(f'{server.export}/f', 0o600)
        subprocess.run(['setfacl', '-m', 'u:1001:r--', f'{server.export}/f'], check=True)
        client = Client(server.tcp())
        made = client.lookup(client.mount(server.export).fh, 'f').fh
        got = client.getacl(made)
        equal((got.status, got.attr.mode), (nfs.NOTSUPP, 0o640), 'GETACL')
        equal(client.setacl(made, wire_of('u::rwx,g::---,o::---')).status, nfs.NOTSUPP, 'SETACL')
        user = client_of(client, cred=auth_sys(1001, 1001))
        equal(user.access(made, READ | MODIFY).access, READ, 'it is obeyed all the same')


def a_file_system_without_lists_says_so():
    script = ('truncate -s 128M "$0/image" && mkfs.btrfs -q -f "$0/image" >&2 &&'
              'mount -o loop,noacl "$0/image" "$0/export" && exec "$@"')
    server = Server()
    server.prefix = ['unshare', '--mount', 'sh', '-c', script, server.work]
    if subprocess.run([*server.prefix, 'true'], check=False, capture_output=True).returncode != 0:
        print('skipped: btrfs cannot be made, or not mounted without lists')
        server.log.close()
        shutil.rmtree(server.work)
        return
    with server:
        client = Client(server.tcp())
        made = client.new_file(client.mount(server.export).fh, 'f', mode=0o640)
        got = client.getacl(made)
        equal((got.status, got.attr.mode), (nfs.NOTSUPP, 0o640), 'GETACL')
        done = client.setacl(made, wire_of('u::rwx,g::---,o::---'))
        equal((done.status, done.attr.mode), (nfs.NOTSUPP, 0o640), 'SETACL')


# ---- durable, and once -----------------------------------------------------------------------

def a_list_that_is_not_durable_is_an_error():
    """Where every sync fails SETACL is not OK on a sync export, with a journal or without; on an
    async export without one nothing waits for it."""
    library = os.environ.get('HOLDFAST_FAILSYNC')
    if not library:
        print('skipped: HOLDFAST_FAILSYNC does not name the library')
        return
    for options, logged, right in (('sync', False, nfs.IO), ('sync', True, nfs.IO),
                                   ('async', False, nfs.OK)):
        server = Server(f'rw,{options},no_root_squash,insecure')
        if logged:
            server.log_inside()
        else:
            server.arguments += ['--journal', 'off']
        sign = os.path.join(server.state, 'sign')  # which the server sees
        asan = os.environ.get('ASAN_OPTIONS', '') + ':verify_asan_link_order=0'
        server.prefix = ['env', f'LD_PRELOAD={library}', f'FAILSYNC_WHILE={sign}',
                         f'ASAN_OPTIONS={asan}']
        with server:
            os.mknod(os.path.join(server.export, 'f'))
            client = Client(server.tcp())
            made = client.lookup(client.mount(server.export).fh, 'f').fh
            entries = wire_of('u::rw-,u:5:r--,g::---,m::r--,o::---')
            equal(client.setacl(made, entries).status, nfs.OK, 'SETACL while syncs work')
            open(sign, 'x', encoding='ascii').close()
            equal(client.setacl(made, entries).status, right, f'SETACL, {options}, log: {logged}')
            v2 = nfs2.fhandle(made) + u32(ACL) + wire_list(entries) + u32(0, 0)
            equal(client.rpc(SETACL, v2, NFSACL, 2).u32(), right, f'version 2, {options}')
            os.unlink(sign)


def a_datagram_sent_again_gets_the_same_reply(server, client, fh):
    made = client.new_file(fh, 'f')
    args = opaque(made) + u32(ACL) + wire_list(wire_of('u::rw-,u:5:r--,g::---,m::r--,o::---'))
    message = nfs.call_message(NFSACL, 3, SETACL, args + u32(0, 0))
    with server.udp() as transport:
        first = transport.exchange(message)
        equal(nfs.Reply(first).body.u32(), nfs.OK, 'SETACL')
        other = client_of(client)
        equal(other.setacl(made, wire_of('u::rw-,g::r--,o::---')).status, nfs.OK, 'another')
        equal(transport.exchange(message).hex(), first.hex(), 'sent again')
        check('user:5:r--' not in seen(other, made), 'a late copy has changed the list')


def bad_arguments_are_survived(server, client, fh):
    rng = random.Random(7)
    made = client.new_file(fh, 'f')
    for vers, handle, procs in ((2, nfs2.fhandle(made), 5), (3, opaque(made), 3)):
        for proc in range(procs):
            for _ in range(60):
                tail = rng.choice((b'', u32(rng.randrange(16), 4, 4))) + \
                    rng.randbytes(rng.randrange(0, 160, 4))
                message = nfs.call_message(NFSACL, vers, proc, handle + tail)
                reply = nfs.Reply(client.transport.exchange(message))
                check(not reply.denied and reply.accept_stat in (nfs.SUCCESS, nfs.GARBAGE_ARGS),
                      f'version {vers}, procedure {proc}: {reply.accept_stat}')
    equal(client_of(client).getacl(made).status, nfs.OK, 'GETACL afterwards')


CASES = [what_setfacl_sets_is_seen, what_is_set_getfacl_says, a_list_that_is_not_named_stays,
         both_or_neither, what_is_no_list_is_invalid, long_lists,
         special_files_have_lists_and_links_have_not, the_owner_sets_and_the_kernel_decides,
         what_is_made_begins_with_the_default_list, a_read_only_export_changes_nothing,
         an_export_with_no_acl_tells_of_none, a_file_system_without_lists_says_so,
         a_list_that_is_not_durable_is_an_error, a_datagram_sent_again_gets_the_same_reply,
         bad_arguments_are_survived]

if __name__ == '__main__':
    nfs.run(CASES)
