#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Names and handles (RFC 1813 §2.4, §3.2, §3.3.3, §3.3.8 to §3.3.15): which names there are, what a
handle survives, and what each procedure makes of odd ones."""
import os
import signal

import nfs
from nfs import EXCLUSIVE, GUARDED, Nfs, Server, auth_sys, check, equal


def by_name(client, fh, other):
    """Every procedure that takes a name, as a function of it."""
    file = client.new_file(fh, 'a file')
    return {
        'LOOKUP': lambda name: client.lookup(fh, name),
        'CREATE': lambda name: client.create(fh, name, GUARDED),
        'MKDIR': lambda name: client.mkdir(fh, name),
        'SYMLINK': lambda name: client.symlink(fh, name, 'text'),
        'MKNOD': lambda name: client.mknod(fh, name, 7),
        'REMOVE': lambda name: client.remove(fh, name),
        'RMDIR': lambda name: client.rmdir(fh, name),
        'RENAME from': lambda name: client.rename(fh, name, other, 'x'),
        'RENAME to': lambda name: client.rename(fh, 'a file', fh, name),
        'LINK': lambda name: client.link(file, fh, name),
    }


def the_empty_name_is_refused(server, client, fh):
    """§3.2: NFS3ERR_ACCES."""
    for what, run in by_name(client, fh, client.new_dir(fh, 'other')).items():
        equal(run(b'').status, nfs.ACCES, what)


def names_that_no_file_can_have_are_refused(server, client, fh):
    """§3.2: NFS3ERR_ACCES for characters that the server cannot handle."""
    for name in (b'/', b'a/b', b'../x', b'/etc', b'\0', b'a file\0', b'\0x'):
        for what, run in by_name(client, fh, client.create(fh, 'a file').fh and fh).items():
            equal(run(name).status, nfs.ACCES, f'{what} of {name}')
    equal(sorted(e.name for e in client.walk(fh)), [b'.', b'..', b'a file'], 'names')


def long_names_are_refused(server, client, fh):
    """§3.2: NFS3ERR_NAMETOOLONG, and the longest that fits works. The limit is PATHCONF's."""
    limit = client.pathconf(fh).name_max
    for what, run in by_name(client, fh, client.new_dir(fh, 'other')).items():
        for size in (limit + 1, 1000, 4096):
            equal(run(b'n' * size).status, nfs.NAMETOOLONG, f'{what} of {size} bytes')
    longest = b'n' * limit
    equal(client.create(fh, longest).status, nfs.OK, 'CREATE of the longest name')
    equal(client.lookup(fh, longest).status, nfs.OK, 'LOOKUP of the longest name')
    equal(client.rename(fh, longest, fh, b'm' * limit).status, nfs.OK, 'RENAME of it')
    equal(client.remove(fh, b'm' * limit).status, nfs.OK, 'REMOVE of it')


def dots_in_every_procedure(server, client, fh):
    """§3.3.9 and others: they exist, and cannot be removed or moved."""
    sub = client.new_dir(fh, 'sub')
    other = client.new_dir(fh, 'other')
    expected = {
        'LOOKUP': {b'.': nfs.OK, b'..': nfs.OK},
        'CREATE': {b'.': nfs.EXIST, b'..': nfs.EXIST},
        'MKDIR': {b'.': nfs.EXIST, b'..': nfs.EXIST},
        'SYMLINK': {b'.': nfs.EXIST, b'..': nfs.EXIST},
        'MKNOD': {b'.': nfs.EXIST, b'..': nfs.EXIST},
        'RMDIR': {b'.': nfs.INVAL, b'..': nfs.EXIST},
        'RENAME from': {b'.': nfs.INVAL, b'..': nfs.INVAL},
        'LINK': {b'.': nfs.EXIST, b'..': nfs.EXIST},
    }
    run = by_name(client, sub, other)
    for what, names in expected.items():
        for name, status in names.items():
            equal(run[what](name).status, status, f'{what} of {name}')
    for name in (b'.', b'..'):
        check(run['REMOVE'](name).status in (nfs.INVAL, nfs.ISDIR, nfs.EXIST, nfs.PERM),
              f'REMOVE of {name}: {run["REMOVE"](name).status}')
        check(run['RENAME to'](name).status in (nfs.INVAL, nfs.EXIST),
              f'RENAME to {name}: {run["RENAME to"](name).status}')
    equal(client.lookup(sub, '..').fh, fh, 'LOOKUP of ".."')
    equal(client.lookup(sub, '.').fh, sub, 'LOOKUP of "."')


def names_are_bytes(server, client, fh):
    names = [b' ', b'*', b'\\', b'\n', b'a\tb', b'\xff', b'\xc3\x28', 'grüße'.encode(), b'-rf',
             b'...', b'..x', b'\x7f', b'#1', b'\x01']
    for name in names:
        equal(client.create(fh, name, GUARDED).status, nfs.OK, f'CREATE {name}')
    equal(sorted(os.listdir(os.path.join(server.export, 'names_are_bytes').encode())),
          sorted(names), 'names on the server')
    equal(sorted(e.name for e in client.walk(fh)), sorted(names + [b'.', b'..']), 'names listed')
    for name in names:
        equal(client.remove(fh, name).status, nfs.OK, f'REMOVE {name}')


def not_a_directory(server, client, fh):
    file = client.new_file(fh, 'file')
    link = client.symlink(fh, 'link', '.').fh
    for what, node in (('file', file), ('link', link)):
        for result in (client.lookup(node, 'x'), client.lookup(node, '.'), client.create(node, 'x'),
                       client.mkdir(node, 'x'), client.symlink(node, 'x', 'y'),
                       client.mknod(node, 'x', 7), client.remove(node, 'x'),
                       client.rmdir(node, 'x'), client.rename(node, 'x', fh, 'y'),
                       client.rename(fh, 'file', node, 'y'),
                       client.link(file, node, 'x'), client.readdir(node),
                       client.readdirplus(node)):
            equal(result.status, nfs.NOTDIR, f'a {what} where a directory must be')


def links_are_never_followed(server, client, fh):
    os.mkdir(server.work + '/outside')
    with open(server.work + '/outside/secret', 'w', encoding='ascii') as out:
        out.write('secret')
    link = client.symlink(fh, 'link', server.work + '/outside').fh
    equal(client.lookup(link, 'secret').status, nfs.NOTDIR, 'LOOKUP through a link')
    equal(client.lookup(fh, 'link').attr.type, 5, 'type')
    file_link = client.symlink(fh, 'file link', server.work + '/outside/secret').fh
    equal(client.read(file_link, 0, 100).status, nfs.INVAL, 'READ of a link')
    check(client.write(file_link, 0, b'x').status in (nfs.INVAL, nfs.ISDIR), 'WRITE to a link')
    done = client.setattr(file_link, size=0)
    check(done.status != nfs.OK, 'truncation of a link')
    over = client.create(fh, 'file link', size=0)
    check(over.status != nfs.OK or over.attr.type == 5, 'CREATE over a link made something else')
    client.setattr(link, mode=0o777)
    client.setattr(link, uid=5, gid=6, mtime=(7, 8))
    attr = client.getattr(link).attr
    equal((attr.uid, attr.gid, attr.mtime), (5, 6, (7, 8)), 'owner and time of the link itself')
    stat = os.stat(server.work + '/outside')
    equal((stat.st_uid, stat.st_gid), (0, 0), 'owner of what it points to')
    with open(server.work + '/outside/secret', encoding='ascii') as kept:
        equal(kept.read(), 'secret', 'what it points to')
    equal(client.link(file_link, fh, 'hard').status, nfs.OK, 'LINK of a link')
    equal(client.lookup(fh, 'hard').attr.type, 5, 'type of the second name')


def link_texts(server, client, fh):
    for text in (b'x', b'/' * 4095, b'a b\n\xff', b'../../../etc/passwd'):
        made = client.symlink(fh, b'link', text)
        equal(made.status, nfs.OK, f'SYMLINK of {len(text)} bytes')
        equal(client.readlink(made.fh).text, text, 'READLINK')
        equal(client.lookup(fh, 'link').attr.size, len(text), 'size')
        client.remove(fh, 'link')
    check(client.symlink(fh, 'link', b'x' * 4096).status == nfs.NAMETOOLONG, '4,096 bytes')
    check(client.symlink(fh, 'link', b'').status in (nfs.NOENT, nfs.INVAL), 'no text')
    check(client.symlink(fh, 'link', b'a\0b').status in (nfs.INVAL, nfs.ACCES), 'a NUL')
    equal(client.lookup(fh, 'link').status, nfs.NOENT, 'LOOKUP of what was refused')


def exclusive_create_repeats(server, client, fh):
    """§3.3.8 (P07): all eight bytes count, whatever they are, and a restart changes nothing."""
    verfs = [bytes.fromhex('ffffffff80000001'), bytes(8), b'\xff' * 8,
             bytes.fromhex('000000003b9aca00'), bytes.fromhex('80000000ffffffff'),
             bytes.fromhex('0123456789abcdef')]
    made = {}
    for i, verf in enumerate(verfs):
        first = client.create(fh, f'ex{i}', EXCLUSIVE, verf)
        equal(first.status, nfs.OK, f'CREATE with {verf.hex()}')
        equal(first.attr.size, 0, 'size')
        made[f'ex{i}', verf] = first.fh
        for bit in range(64):
            other = bytes(b ^ (1 << bit % 8 if j == bit // 8 else 0) for j, b in enumerate(verf))
            equal(client.create(fh, f'ex{i}', EXCLUSIVE, other).status, nfs.EXIST,
                  f'{verf.hex()} against {other.hex()}')
    server.restart()
    client = server.nfs()
    for (name, verf), handle in made.items():
        again = client.create(fh, name, EXCLUSIVE, verf)
        equal((again.status, again.fh), (nfs.OK, handle), f'{verf.hex()} after a restart')
    handle = made['ex0', verfs[0]]
    done = client.setattr(handle, atime=(1000, 1), mtime=(2000, 2), mode=0o640)
    equal(done.status, nfs.OK, 'SETATTR afterwards')
    attr = client.getattr(handle).attr
    equal((attr.atime, attr.mtime, attr.mode), ((1000, 1), (2000, 2), 0o640), 'what it set')
    equal(client.create(fh, 'ex0', EXCLUSIVE, verfs[0]).status, nfs.EXIST,
          'the verifier after the SETATTR')
    equal(client.create(fh, 'ex0', GUARDED).status, nfs.EXIST, 'GUARDED')
    client.new_dir(fh, 'dir')
    equal(client.create(fh, 'dir', EXCLUSIVE, verfs[0]).status, nfs.EXIST, 'over a directory')


def unchecked_create_keeps_what_is_there(server, client, fh):
    file = client.new_file(fh, 'file', b'data', mode=0o600, uid=7)
    again = client.create(fh, 'file', mode=0o777, uid=8)
    equal((again.status, again.fh), (nfs.OK, file), 'CREATE UNCHECKED over a file')
    equal((again.attr.mode, again.attr.uid, again.attr.size), (0o600, 7, 4), 'its attributes')
    equal(client.create(fh, 'file', size=0).attr.size, 0, 'size, when it is given')
    check(client.create(client.new_dir(fh, 'dir'), '.').status != nfs.OK, 'CREATE of "."')
    over = client.create(fh, 'dir', size=0)
    check(over.status in (nfs.EXIST, nfs.ISDIR) or over.attr.type == 2,
          'CREATE over a directory made something else')


def new_objects_belong_to_the_caller(server, client, fh):
    client.setattr(fh, mode=0o777)
    user = Nfs(client.transport, auth_sys(1000, 1001, [1002]))
    made = {
        'CREATE': user.create(fh, 'file', mode=0o644),
        'CREATE exclusive': user.create(fh, 'exclusive', EXCLUSIVE, b'12345678'),
        'MKDIR': user.mkdir(fh, 'dir', mode=0o755),
        'SYMLINK': user.symlink(fh, 'link', 'text'),
        'MKNOD': user.mknod(fh, 'fifo', 7, mode=0o600),
    }
    for what, result in made.items():
        equal((result.status, result.attr.uid, result.attr.gid), (nfs.OK, 1000, 1001), what)
    equal(user.mknod(fh, 'null', 4, rdev=(1, 3)).status, nfs.PERM, 'a device by a user')
    given = user.create(fh, 'given', uid=0, gid=0)
    check(given.status == nfs.PERM or (given.attr.uid, given.attr.gid) == (1000, 1001),
          'a user made a file for root')
    setgid = client.new_dir(fh, 'setgid', gid=4000)
    client.setattr(setgid, mode=0o2777)  # mkdir(2) leaves setgid to chmod(2)
    equal(user.create(setgid, 'file').attr.gid, 4000, 'group in a setgid directory')
    equal(user.mkdir(setgid, 'dir', mode=0o755).attr.mode, 0o2755, 'mode of a directory there')
    sticky = client.new_dir(fh, 'sticky', mode=0o1777)
    user.new_file(sticky, 'file')
    other = Nfs(client.transport, auth_sys(1005, 1005))
    check(other.remove(sticky, 'file').status in (nfs.PERM, nfs.ACCES), 'REMOVE in a sticky dir')
    equal(user.remove(sticky, 'file').status, nfs.OK, 'REMOVE by the owner')
    equal(client.create(fh, 'no mask', mode=0o666).attr.mode, 0o666, 'the server has no umask')


def renames(server, client, fh):
    one, two = client.new_dir(fh, 'one'), client.new_dir(fh, 'two')
    file = client.new_file(one, 'file', b'1')
    target = client.new_file(two, 'file', b'2')
    equal(client.rename(one, 'file', two, 'file').status, nfs.OK, 'RENAME over a file')
    equal(client.lookup(two, 'file').fh, file, 'handle under the new name')
    equal(client.read(target, 0, 1).status, nfs.STALE, 'READ of the file that was replaced')
    client.new_dir(one, 'dir')
    equal(client.rename(one, 'dir', two, 'file').status in (nfs.NOTDIR, nfs.EXIST), True,
          'a directory over a file')
    equal(client.rename(two, 'file', one, 'dir').status in (nfs.ISDIR, nfs.EXIST), True,
          'a file over a directory')
    equal(client.rename(fh, 'two', one, 'dir').status, nfs.OK, 'a directory over an empty one')
    equal(client.lookup(two, '..').fh, one, 'its parent now')
    equal(client.lookup(two, 'file').fh, file, 'a file inside it')
    equal(client.rename(fh, 'one', two, 'loop').status, nfs.INVAL, 'a directory into itself')
    client.link(file, two, 'hard')
    equal(client.rename(two, 'file', two, 'hard').status, nfs.OK, 'over another link of itself')
    equal(client.lookup(two, 'hard').fh, file, 'handle of the link')


def handles_live_as_long_as_their_objects(server, client, fh):
    """§2.4; across renames of the object and its parents, and restarts, also after SIGKILL."""
    one = client.new_dir(fh, 'one')
    two = client.new_dir(one, 'two')
    file = client.new_file(two, 'file', b'data')
    equal(client.rename(two, 'file', one, 'moved').status, nfs.OK, 'RENAME')
    equal(client.rename(fh, 'one', fh, 'uno').status, nfs.OK, 'RENAME of the parent')
    for how in (None, signal.SIGTERM, signal.SIGKILL):
        if how:
            server.restart(how)
            client = server.nfs()
        equal(client.read(file, 0, 10).data, b'data', f'READ after {how}')
        equal(client.lookup(one, 'moved').fh, file, f'LOOKUP after {how}')
        equal(client.lookup(two, '..').fh, one, f'LOOKUP of ".." after {how}')
    equal(len(file) <= 32, True, 'a handle of at most 32 bytes')


def handles_of_the_dead_stay_dead(server, client, fh):
    """Inode numbers are used again at once; the handle must not come alive with them."""
    dead = []
    for i in range(100):
        file = client.new_file(fh, 'file', b'x' * i)
        equal(client.remove(fh, 'file').status, nfs.OK, 'REMOVE')
        dead.append(file)
        directory = client.new_dir(fh, 'dir')
        equal(client.rmdir(fh, 'dir').status, nfs.OK, 'RMDIR')
        dead.append(directory)
    equal(len(set(dead)), 200, 'different handles')
    client.new_file(fh, 'alive')
    for handle in dead:
        equal(client.getattr(handle).status, nfs.STALE, 'GETATTR')
        equal(client.read(handle, 0, 1).status, nfs.STALE, 'READ')
        equal(client.write(handle, 0, b'x').status, nfs.STALE, 'WRITE')
        equal(client.lookup(handle, 'x').status, nfs.STALE, 'LOOKUP')
        equal(client.create(handle, 'x').status, nfs.STALE, 'CREATE')


def handles_cannot_be_made_up(server, client, fh):
    """Every byte is under the MAC: a handle with one bit changed is none of ours."""
    file = client.new_file(fh, 'file')
    for bit in range(len(file) * 8):
        forged = bytearray(file)
        forged[bit // 8] ^= 1 << bit % 8
        status = client.getattr(bytes(forged)).status
        check(status in (nfs.BADHANDLE, nfs.STALE), f'bit {bit}: status {status}')
    for size in range(65):
        status = client.getattr(file[:size] + bytes(max(0, size - len(file)))).status
        check(size in (len(file), 32) or status == nfs.BADHANDLE, f'{size} bytes: status {status}')
    with Server() as other:
        stranger = other.nfs()
        status = stranger.getattr(file).status
        check(status in (nfs.BADHANDLE, nfs.STALE), f'another server: status {status}')


def a_mount_below_is_not_reached():
    """Another file system inside the export: neither its root nor anything in it."""
    script = ('mkdir "$0/export/below" && mount -t tmpfs tmpfs "$0/export/below" &&'
              'echo secret > "$0/export/below/secret" && exec "$@"')
    server = Server()
    server.prefix = ['unshare', '--mount', 'sh', '-c', script, server.work]
    with server:
        client = server.nfs()
        root = server.root(client)
        below = client.lookup(root, 'below')
        if below.status == nfs.OK:
            check(client.lookup(below.fh, 'secret').status != nfs.OK, 'LOOKUP reaches the mount')
            names = [e.name for e in client.walk(below.fh)]
            check(b'secret' not in names, f'READDIR shows the mount: {names}')
            client.create(below.fh, 'new')  # in the directory under the mount, if at all
            check(not os.path.exists(f'/proc/{server.process.pid}/root{server.export}/below/new'),
                  'CREATE reaches the mount')
        for entry in client.walk(root, plus=True):
            if entry.name == b'below' and entry.fh:
                check(client.lookup(entry.fh, 'secret').status != nfs.OK, 'READDIRPLUS gives it')


def hard_links(server, client, fh):
    sub = client.new_dir(fh, 'sub')
    file = client.new_file(fh, 'file', b'x')
    for i in range(10):
        made = client.link(file, sub, f'link{i}')
        equal((made.status, made.attr.nlink), (nfs.OK, 2 + i), 'LINK')
    equal(client.remove(fh, 'file').status, nfs.OK, 'REMOVE of the first name')
    equal(client.getattr(file).attr.nlink, 10, 'nlink')
    equal(client.lookup(sub, 'link3').fh, file, 'handle of another name')
    check(client.link(sub, fh, 'dirlink').status in (nfs.PERM, nfs.ISDIR, nfs.INVAL),
          'a hard link to a directory')


def special_files_are_not_opened(server, client, fh):
    """No READ or WRITE may wait for the other end of a FIFO, or reach a device."""
    for name, ftype, rdev in (('fifo', 7, None), ('sock', 6, None), ('zero', 4, (1, 5)),
                              ('block', 3, (7, 0))):
        node = client.mknod(fh, name, ftype, rdev=rdev or (0, 0), mode=0o666).fh
        for result in (client.read(node, 0, 10), client.write(node, 0, b'x'),
                       client.setattr(node, size=1)):
            check(result.status in (nfs.INVAL, nfs.IO, nfs.NXIO), f'{name}: {result.status}')
        equal(client.setattr(node, mode=0o600, uid=3).status, nfs.OK, f'SETATTR of {name}')
        attr = client.getattr(node).attr
        equal((attr.mode, attr.uid), (0o600, 3), name)
        equal(client.access(node, 63).status, nfs.OK, f'ACCESS of {name}')
        check(client.commit(node).status in (nfs.INVAL, nfs.OK), f'COMMIT of {name}')
    equal(client.mknod(fh, 'reg', 1).status, nfs.BADTYPE, 'MKNOD of a file')
    equal(client.mknod(fh, 'dir', 2).status, nfs.BADTYPE, 'MKNOD of a directory')
    equal(client.mknod(fh, 'lnk', 5).status, nfs.BADTYPE, 'MKNOD of a link')


if __name__ == '__main__':
    nfs.run([
        the_empty_name_is_refused,
        names_that_no_file_can_have_are_refused,
        long_names_are_refused,
        dots_in_every_procedure,
        names_are_bytes,
        not_a_directory,
        links_are_never_followed,
        link_texts,
        exclusive_create_repeats,
        unchecked_create_keeps_what_is_there,
        new_objects_belong_to_the_caller,
        renames,
        handles_live_as_long_as_their_objects,
        handles_of_the_dead_stay_dead,
        handles_cannot_be_made_up,
        a_mount_below_is_not_reached,
        hard_links,
        special_files_are_not_opened,
    ])
