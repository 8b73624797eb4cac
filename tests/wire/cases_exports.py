#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""MOUNT (RFC 1813 appendix I) and what an export allows: who may mount, and that every later
call is judged again."""
import os

import nfs
from nfs import MOUNT, Nfs, Server, auth_sys, check, equal, opaque, u32


def mount_list(client, vers=3):
    reader = client.rpc(2, b'', prog=MOUNT, vers=vers)
    entries = []
    while reader.bool():
        entries.append((reader.opaque().decode(), reader.opaque().decode()))
    reader.end()
    return entries


def export_list(client, vers=3):
    reader = client.rpc(5, b'', prog=MOUNT, vers=vers)
    exports = {}
    while reader.bool():
        path, groups = reader.opaque().decode(), []
        while reader.bool():
            groups.append(reader.opaque().decode())
        exports[path] = groups
    reader.end()
    return exports


def mounts(server):
    """The export, directories below it, and nothing else."""
    client = server.nfs()
    os.makedirs(server.export + '/dir/sub')
    with open(server.export + '/file', 'w', encoding='ascii'):
        pass
    os.symlink('dir', server.export + '/link')
    root = client.mount(server.export)
    equal(root.status, 0, 'MNT of the export')
    equal(root.flavors, [1, 0], 'flavors')
    for path in (server.export + '/', '/' + server.export, server.export + '//dir/..'):
        found = client.mount(path)
        check(found.status != 0 or found.fh == root.fh, f'MNT of {path} gives something else')
    for path in ('dir', 'dir/sub', 'dir/'):
        found = client.mount(f'{server.export}/{path}')
        equal(found.status, 0, f'MNT of {path}')
        fh = root.fh
        for part in path.strip('/').split('/'):
            fh = client.lookup(fh, part).fh
        equal(found.fh, fh, f'handle of {path}')
    equal(client.mount(server.export + '/none').status, nfs.NOENT, 'MNT of what is not there')
    equal(client.mount(server.export + '/file').status, nfs.NOTDIR, 'MNT of a file')
    equal(client.mount(server.export + '/link').fh, client.mount(server.export + '/dir').fh,
          'MNT of a link')
    for path in ('/', '/etc', server.work, server.state, server.export + '/../state',
                 server.export + 'x', server.export[:-1], 'export', '', 'etc', '/' * 1024,
                 server.export + '/dir/../../state', server.export + '\0/dir'):
        for vers in (1, 2, 3):
            check(client.mount(path, vers).status != 0, f'MNT of {path!r}, version {vers}')


def exports_are_listed_as_they_were_written():
    server = Server(directories=['@work/export 127.0.0.2(rw) 10.1.0.0/16(ro) 2001:db8::/32(ro)',
                                 '@work/two *(ro)'])
    os.mkdir(server.work + '/two')
    with server:
        for vers in (1, 2, 3):
            exports = export_list(server.nfs(), vers)
            equal(set(exports), {server.export, server.work + '/two'}, 'paths')
            equal(exports[server.export], ['127.0.0.2', '10.1.0.0/16', '2001:db8::/32'], 'clients')
            equal(exports[server.work + '/two'], ['*'], 'everybody')


def lists_do_not_go_to_strangers_over_udp():
    """Who wrote that address on the datagram may be another, who has them sent to a victim."""
    with Server(directories=['@work/export 127.0.0.2(rw,insecure)']) as server:
        known, stranger = ('127.0.0.2', 0), ('127.0.0.3', 0)
        equal(server.nfs(source=known).mount(server.export).status, 0, 'MNT')
        for client, told in ((server.nfs(source=known), True), (server.nfs(source=stranger), True),
                             (Nfs(server.udp(source=known)), True),
                             (Nfs(server.udp(source=stranger)), False)):
            equal(bool(export_list(client)), told, 'EXPORT')
            equal(bool(mount_list(client)), told, 'DUMP')


def the_mount_list_knows_addresses(server):
    clients = [server.nfs(source=(f'127.0.0.{n}', 0)) for n in (5, 6)]
    os.makedirs(server.export + '/a')
    for client in clients:
        client.mount(server.export)
        client.mount(server.export + '/a')
        client.mount(server.export + '/a')
    listed = mount_list(clients[0])
    for n in (5, 6):
        for path in (server.export, server.export + '/a'):
            equal(listed.count((f'127.0.0.{n}', path)), 1, f'entry of 127.0.0.{n} for {path}')
    clients[0].rpc(3, opaque(server.export + '/a'), prog=MOUNT).end()
    listed = mount_list(clients[1])
    check(('127.0.0.5', server.export + '/a') not in listed, 'UMNT left its entry')
    check(('127.0.0.6', server.export + '/a') in listed, "UMNT took another client's entry")
    clients[1].rpc(4, b'', prog=MOUNT).end()
    listed = mount_list(clients[1])
    check(not [e for e in listed if e[0] == '127.0.0.6'], 'UMNTALL left entries')
    check(('127.0.0.5', server.export) in listed, "UMNTALL took another client's entry")


def the_mount_list_is_bounded(server):
    client = server.nfs()
    for i in range(1300):
        os.mkdir(f'{server.export}/m{i}')
        equal(client.mount(f'{server.export}/m{i}').status, 0, 'MNT')
    for transport in (server.nfs(), server.nfs(udp=True)):
        listed = mount_list(transport)
        check(0 < len(listed) <= 1024, f'{len(listed)} entries')
        equal(listed[0], ('127.0.0.1', server.export + '/m1299'), 'the newest entry')
    client.rpc(4, b'', prog=MOUNT).end()
    equal([e for e in mount_list(client) if e[0] == '127.0.0.1'], [], 'entries after UMNTALL')


def changing_calls(client, root, file):
    return {
        'SETATTR': lambda: client.setattr(file, mode=0o600),
        'WRITE': lambda: client.write(file, 0, b'x'),
        'CREATE': lambda: client.create(root, 'new'),
        'CREATE exclusive': lambda: client.create(root, 'new', nfs.EXCLUSIVE),
        'MKDIR': lambda: client.mkdir(root, 'new'),
        'SYMLINK': lambda: client.symlink(root, 'new', 'text'),
        'MKNOD': lambda: client.mknod(root, 'new', 7),
        'REMOVE': lambda: client.remove(root, 'file'),
        'RMDIR': lambda: client.rmdir(root, 'dir'),
        'RENAME': lambda: client.rename(root, 'file', root, 'other'),
        'LINK': lambda: client.link(file, root, 'hard'),
    }


def read_only_is_read_only():
    """Every changing procedure says NFS3ERR_ROFS, ACCESS does not promise it, READ works."""
    with Server('ro,no_root_squash,insecure') as server:
        with open(server.export + '/file', 'w', encoding='ascii') as out:
            out.write('data')
        os.mkdir(server.export + '/dir')
        os.chmod(server.export, 0o777)
        client = server.nfs()
        root = server.root(client)
        file = client.lookup(root, 'file').fh
        for what, run in changing_calls(client, root, file).items():
            equal(run().status, nfs.ROFS, what)
        equal(client.read(file, 0, 10).data, b'data', 'READ')
        equal(client.access(file, 0x3f).access, 0x01, 'ACCESS of the file')
        equal(client.access(root, 0x3f).access, 0x03, 'ACCESS of the directory')
        equal(sorted(os.listdir(server.export)), ['dir', 'file'], 'names')


def each_address_has_its_own_rights():
    """Matched at every call, not at MNT alone."""
    server = Server(directories=['@work/export 127.0.0.2(ro,insecure) '
                                 '127.0.0.3(rw,no_root_squash,insecure) ::1(ro,insecure)'])
    with server:
        os.chmod(server.export, 0o777)
        writer = server.nfs(source=('127.0.0.3', 0))
        root = server.root(writer)
        file = writer.new_file(root, 'file', b'data', mode=0o644)
        reader = server.nfs(source=('127.0.0.2', 0))
        equal(reader.mount(server.export).fh, root, 'MNT by 127.0.0.2')
        equal(reader.read(file, 0, 4).data, b'data', 'READ by 127.0.0.2')
        equal(reader.write(file, 0, b'x').status, nfs.ROFS, 'WRITE by 127.0.0.2')
        equal(reader.create(root, 'new').status, nfs.ROFS, 'CREATE by 127.0.0.2')
        equal(writer.write(file, 0, b'x').status, nfs.OK, 'WRITE by 127.0.0.3')
        six = server.nfs(host='::1')
        equal(six.read(file, 0, 4).data, b'xata', 'READ by ::1')
        equal(six.write(file, 0, b'y').status, nfs.ROFS, 'WRITE by ::1')
        for transport in (server.tcp(source=('127.0.0.4', 0)), server.udp(source=('127.0.0.4', 0))):
            stranger = Nfs(transport)
            equal(stranger.mount(server.export).status, nfs.ACCES, 'MNT by a stranger')
            equal(stranger.mount(server.export, 1).status, nfs.ACCES, 'MNT version 1 by a stranger')
            check(stranger.getattr(root).status in (nfs.ACCES, nfs.STALE), 'GETATTR by a stranger')
            check(stranger.read(file, 0, 4).status in (nfs.ACCES, nfs.STALE), 'READ by a stranger')
            check(stranger.fsinfo(root).status in (nfs.ACCES, nfs.STALE), 'FSINFO by a stranger')
            stranger.null()


def secure_means_a_reserved_port():
    with Server('rw,secure') as server:
        client = server.nfs()
        equal(client.mount(server.export).status, nfs.PERM, 'MNT from a high port')
        trusted = None
        for port in range(1023, 600, -1):
            try:
                trusted = server.nfs(source=('127.0.0.1', port))
                break
            except OSError:
                continue
        root = trusted.mount(server.export)
        equal(root.status, 0, 'MNT from a reserved port')
        equal(trusted.getattr(root.fh).status, nfs.OK, 'GETATTR from a reserved port')
        check(client.getattr(root.fh).status in (nfs.PERM, nfs.ACCES), 'GETATTR from a high port')


def root_is_squashed_unless_told_otherwise():
    with Server('rw,insecure') as server:
        os.chmod(server.export, 0o777)
        with open(server.export + '/secret', 'w', encoding='ascii') as out:
            out.write('secret')
        os.chmod(server.export + '/secret', 0o600)
        client = server.nfs()
        root = server.root(client)
        made = client.create(root, 'file')
        equal((made.attr.uid, made.attr.gid), (65534, 65534), 'owner of what root made')
        secret = client.lookup(root, 'secret').fh
        equal(client.read(secret, 0, 10).status, nfs.ACCES, 'READ by root')
        user = Nfs(client.transport, auth_sys(1000, 1001))
        equal(user.create(root, 'mine').attr.uid, 1000, 'owner of what a user made')
        group = Nfs(client.transport, auth_sys(1000, 0, [0, 5]))
        equal(group.create(root, 'ours').attr.gid, 65534, 'group 0 of a user')
        nobody = Nfs(client.transport, nfs.AUTH_NONE)
        equal(nobody.create(root, 'none').attr.uid, 65534, 'AUTH_NONE')


def everybody_is_squashed_when_told():
    with Server('rw,insecure,all_squash,anonuid=1234,anongid=4321') as server:
        os.chmod(server.export, 0o777)
        root = server.root()
        for name, cred in (('a', auth_sys()), ('b', auth_sys(1000, 1000)), ('c', nfs.AUTH_NONE)):
            made = server.nfs(cred=cred).create(root, name)
            equal((made.attr.uid, made.attr.gid), (1234, 4321), f'owner of {name}')


def handles_stay_in_their_export():
    """Two exports: a handle is judged by the rules of its own, and moves nothing over."""
    server = Server(directories=['@work/export(rw,no_root_squash,insecure)',
                                 '@work/state/two(ro,no_root_squash,insecure)'])
    os.makedirs(server.state + '/two')
    with server:
        client = server.nfs()
        one = server.root(client)
        two = client.mount(server.state + '/two').fh
        check(one != two, 'two exports with one handle')
        file = client.new_file(one, 'file')
        equal(client.create(two, 'file').status, nfs.ROFS, 'CREATE in the second')
        check(client.rename(one, 'file', two, 'file').status in (nfs.XDEV, nfs.ROFS), 'RENAME')
        check(client.link(file, two, 'file').status in (nfs.XDEV, nfs.ROFS), 'LINK')
        check(client.getattr(one).attr.fsid != client.getattr(two).attr.fsid, 'fsid')


def a_boot_loader_over_udp(server):
    """P24: handles of 32 bytes at most, everything from one high port, data in 1,024-byte steps."""
    kernel = os.urandom(100 * 1024 + 5)
    os.makedirs(server.export + '/a/' + 'long' * 60)
    with open(f'{server.export}/a/{"long" * 60}/image', 'wb') as out:
        out.write(kernel)
    os.symlink(f'a/{"long" * 60}/image', server.export + '/kernel')
    client = server.nfs(udp=True)
    for vers in (1, 3):
        root = client.mount(server.export, vers)
        equal(root.status, 0, f'MNT, version {vers}')
        link = client.lookup(root.fh, 'kernel')
        fh = root.fh
        for part in client.readlink(link.fh).text.split(b'/'):
            fh = client.lookup(fh, part).fh
            check(len(fh) <= 32, f'a handle of {len(fh)} bytes')
        data = b''
        while True:
            read = client.read(fh, len(data), 1024)
            data += read.data
            if read.eof:
                break
        check(data == kernel, 'the kernel that was read is another one')


def pathconf_of_version_2(server):
    reader = server.nfs().rpc(7, opaque(server.export), prog=MOUNT, vers=2)
    words = [reader.u32() for _ in range(10)]
    reader.end()
    equal(words[3], 255, 'pc_name_max')
    equal(words[8:], [0, 0], 'pc_mask')
    equal(u32(*words)[:4], u32(server.nfs().pathconf(server.root()).linkmax), 'pc_link_max')


if __name__ == '__main__':
    nfs.run([
        mounts,
        exports_are_listed_as_they_were_written,
        lists_do_not_go_to_strangers_over_udp,
        the_mount_list_knows_addresses,
        the_mount_list_is_bounded,
        read_only_is_read_only,
        each_address_has_its_own_rights,
        secure_means_a_reserved_port,
        root_is_squashed_unless_told_otherwise,
        everybody_is_squashed_when_told,
        handles_stay_in_their_export,
        a_boot_loader_over_udp,
        pathconf_of_version_2,
    ])
