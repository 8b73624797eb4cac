#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Where exports begin and end: what is mounted in them, links that lead to them, directories moved
out of them, exports inside exports. One rule for all versions of MOUNT and NFS."""
import os
import subprocess

import nfs
from nfs import Failure, Server, check, equal

RW = 'rw,async,no_root_squash,insecure'


class Mounts(Server):
    """Exports written with @work, in a directory with a file system mounted on e/m, with the file
    `inside`, over a directory with the file `covered`, and another one mounted on e/m/deep."""

    def __init__(self, *directories, disks=('e/m', 'e/m/deep'), dirs=(), links=()):
        super().__init__(directories=list(directories))
        self.disks = []
        for path in ('e', 'e/m', *dirs):
            os.makedirs(f'{self.work}/{path}', exist_ok=True)
            os.chmod(f'{self.work}/{path}', 0o777)
        for path, text in links:
            os.symlink(text, f'{self.work}/{path}')
        self.note('e/m/covered')
        for disk in disks:
            self.disk(disk)
        if disks:
            self.note('e/m/inside')

    def note(self, path):
        with open(f'{self.work}/{path}', 'w', encoding='ascii') as out:
            out.write(path)

    def disk(self, path):
        os.makedirs(f'{self.work}/{path}', exist_ok=True)
        subprocess.run(['mount', '-t', 'tmpfs', 'none', f'{self.work}/{path}'], check=True)
        self.disks.append(path)

    def mnt(self, path, client=None, vers=3):
        return (client or self.nfs()).mount(f'{self.work}/{path}', vers)

    def fh(self, path, client=None):
        found = self.mnt(path, client)
        equal(found.status, 0, f'MNT of {path}')
        return found.fh

    def refuses(self, path, status=nfs.ACCES):
        for vers in (1, 2, 3):
            equal(self.mnt(path, vers=vers).status, status, f'MNT of {path}, version {vers}')

    def reload(self):
        subprocess.run([self.binary, 'exports', 'reload', '--state', self.state], check=True,
                       stdout=subprocess.DEVNULL, timeout=60)

    def __exit__(self, *how):
        for disk in reversed(self.disks):
            subprocess.run(['umount', '-l', f'{self.work}/{disk}'], check=False)
        super().__exit__(*how)


def names(client, fh):
    return sorted(e.name.decode() for e in client.walk(fh) if e.name not in (b'.', b'..'))


def what_is_mounted_is_not_reached_by_accident():
    """Neither by LOOKUP nor by MNT, of the mount or below it."""
    with Mounts(f'@work/e({RW})') as server:
        client = server.nfs()
        root = server.fh('e', client)
        covered = client.lookup(root, 'm').fh
        equal(names(client, covered), ['covered'], 'names below the mount')
        for path in ('e/m', 'e/m/deep'):
            server.refuses(path)
        os.mkdir(server.work + '/e/m/new')
        server.refuses('e/m/new')
        server.refuses('e/m/none', nfs.NOENT)
        server.reload()
        server.refuses('e/m')
        equal(client.rmdir(root, 'm').status in (nfs.ACCES, nfs.NOTEMPTY), True, 'RMDIR')


def crossmnt_leads_on():
    """Into every file system below, as one of its own."""
    with Mounts(f'@work/e({RW},crossmnt)') as server:
        client = server.nfs()
        root = server.fh('e', client)
        m = client.lookup(root, 'm')
        equal(names(client, m.fh), ['deep', 'inside'], 'names of what is mounted')
        deep = client.lookup(m.fh, 'deep')
        equal(server.fh('e/m', client), m.fh, 'MNT of what is mounted')
        equal(server.fh('e/m/deep', client), deep.fh, 'MNT of what is mounted in it')
        fsids = {client.getattr(fh).attr.fsid for fh in (root, m.fh, deep.fh)}
        equal(len(fsids), 3, 'different fsids')
        equal(m.attr.fileid, os.stat(server.work + '/e/m').st_ino, 'fileid of the root')
        equal(client.create(m.fh, 'made').status, nfs.OK, 'CREATE with the options from above')
        file = client.new_file(root, 'file')
        equal(client.rename(root, 'file', m.fh, 'file').status, nfs.XDEV, 'RENAME across')
        equal(client.link(file, m.fh, 'file').status, nfs.XDEV, 'LINK across')
        up = client.lookup(m.fh, '..')
        check(up.status != nfs.OK or up.fh in (m.fh, root), 'LOOKUP of ".." leads elsewhere')
        for entry in client.walk(root, plus=True):
            if entry.name == b'm':
                check(not entry.fh or entry.fh == m.fh, 'READDIRPLUS shows what is below the mount')


def crossmnt_is_each_clients_own():
    with Mounts(f'@work/e 127.0.0.2({RW},crossmnt) 127.0.0.3({RW})') as server:
        two, three = (server.nfs(source=(f'127.0.0.{n}', 0)) for n in (2, 3))
        root = server.fh('e', two)
        inside = two.lookup(root, 'm').fh
        equal(names(two, inside), ['deep', 'inside'], 'names for who has crossmnt')
        equal(names(three, three.lookup(root, 'm').fh), ['covered'], 'names for who has not')
        equal(three.getattr(inside).status, nfs.ACCES, 'GETATTR by who has not')
        equal(server.mnt('e/m', three).status, nfs.ACCES, 'MNT by who has not')


def nohide_opens_one():
    """An export of its own is hidden from above, unless it says nohide."""
    with Mounts(f'@work/e({RW})', f'@work/e/m({RW})') as server:
        client = server.nfs()
        root = server.fh('e', client)
        own = server.fh('e/m', client)
        equal(names(client, own), ['deep', 'inside'], 'names of the export')
        equal(names(client, client.lookup(root, 'm').fh), ['covered'], 'names from above')
    with Mounts(f'@work/e({RW})', f'@work/e/m({RW},nohide)') as server:
        client = server.nfs()
        root = server.fh('e', client)
        found = client.lookup(root, 'm').fh
        equal(found, server.fh('e/m', client), 'LOOKUP from above')
        equal(names(client, client.lookup(found, 'deep').fh), [], 'names below the next mount')
        server.refuses('e/m/deep')


def its_own_line_decides():
    """Below crossmnt a line for what is mounted goes first, for the clients that it names."""
    with Mounts(f'@work/e *({RW},crossmnt)', '@work/e/m 127.0.0.2(ro,insecure)') as server:
        two, three = (server.nfs(source=(f'127.0.0.{n}', 0)) for n in (2, 3))
        root = server.fh('e', two)
        m = two.lookup(root, 'm').fh
        equal(m, server.fh('e/m', three), 'one handle for both')
        equal(two.create(m, 'new').status, nfs.ROFS, 'CREATE by the one that is named')
        equal(three.create(m, 'new').status, nfs.OK, 'CREATE by another')


def what_is_mounted_later_is_found():
    with Mounts(f'@work/e({RW},crossmnt)', disks=()) as server:
        client = server.nfs()
        root = server.fh('e', client)
        equal(names(client, client.lookup(root, 'm').fh), ['covered'], 'names before')
        server.disk('e/m')
        server.note('e/m/inside')
        server.reload()
        equal(names(client, client.lookup(root, 'm').fh), ['inside'], 'names after')
        subprocess.run(['umount', server.work + '/e/m'], check=True)
        server.disks.clear()
        server.reload()
        equal(names(client, client.lookup(root, 'm').fh), ['covered'], 'names when it is gone')


def mountpoint_waits_for_the_mount():
    with Mounts(f'@work/e/m({RW},mountpoint)', f'@work/e/n({RW},mp=@work/e/m)', f'@work/e/o({RW})',
                disks=(), dirs=('e/n', 'e/o')) as server:
        client = server.nfs()
        server.refuses('e/m')
        server.refuses('e/n')
        server.fh('e/o', client)
        server.disk('e/m')
        server.note('e/m/inside')
        m = server.fh('e/m', client)
        equal(names(client, m), ['inside'], 'names of what is mounted')
        n = server.fh('e/n', client)
        subprocess.run(['umount', server.work + '/e/m'], check=True)
        server.disks.clear()
        server.refuses('e/m')
        check(client.getattr(m).status in (nfs.STALE, nfs.ACCES), 'GETATTR of what is gone')
        equal(client.getattr(n).status, nfs.ACCES, 'GETATTR of what depends on it')


def links_lead_to_exports():
    """A path is followed as on the server; the export may be written by either name."""
    links = (('link', 'real'), ('e/d/out', '../../real/sub'), ('e/d/etc', '/etc'))
    with Mounts(f'@work/link({RW})', f'@work/e/d({RW})', disks=(), dirs=('e/d', 'real/sub'),
                links=links) as server:
        by_link = server.fh('link')
        equal(server.fh('real'), by_link, 'MNT by the name it resolves to')
        equal(server.fh('real/sub'), server.fh('link/sub'), 'MNT of a directory in it')
        equal(server.fh('e/d/out'), server.fh('real/sub'), 'MNT through a link between exports')
        server.refuses('e/d/etc', nfs.NOENT)


def one_directory_by_two_names():
    with Mounts(f'@work/e 127.0.0.2({RW})', f'@work/also 127.0.0.3({RW})', disks=(),
                links=[('also', 'e')]) as server:
        two, three = (server.nfs(source=(f'127.0.0.{n}', 0)) for n in (2, 3))
        fh = server.fh('e', two)
        equal(server.fh('also', three), fh, 'one handle')
        equal(three.getattr(fh).status, nfs.OK, 'GETATTR')


def a_directory_mounted_twice():
    """A bind mount is a place of its own, with its own options."""
    server = Mounts(f'@work/e({RW})', '@work/twin(ro,insecure)', disks=(), dirs=['twin'])
    subprocess.run(['mount', '--bind', server.work + '/e', server.work + '/twin'], check=True)
    server.disks.append('twin')
    with server:
        client = server.nfs()
        one, two = server.fh('e', client), server.fh('twin', client)
        check(one != two, 'one handle for both')
        equal(client.create(one, 'new').status, nfs.OK, 'CREATE in one')
        equal(client.create(two, 'other').status, nfs.ROFS, 'CREATE in the other')
        equal(names(client, two), names(client, one), 'names')
        server.restart()
        client = server.nfs()
        equal((server.fh('e', client), server.fh('twin', client)), (one, two), 'handles, later')


def exports_inside_exports():
    """The longest path that names the client decides at MNT; from there a client stays inside."""
    with Mounts(f'@work/e *({RW})', '@work/e/in 127.0.0.2(ro,insecure)', disks=(),
                dirs=['e/in']) as server:
        two, three = (server.nfs(source=(f'127.0.0.{n}', 0)) for n in (2, 3))
        inner = server.fh('e/in', two)
        equal(two.create(inner, 'new').status, nfs.ROFS, 'CREATE in the inner export')
        equal(three.getattr(inner).status, nfs.ACCES, 'GETATTR by who is not named there')
        outer = server.fh('e/in', three)
        check(inner != outer, 'one handle for both exports')
        equal(three.create(outer, 'new').status, nfs.OK, 'CREATE through the outer export')
        equal(outer, two.lookup(server.fh('e', two), 'in').fh, 'LOOKUP stays in the export')


def a_directory_moved_out_shows_nothing():
    """Its parent is nobody's business; who has the handle keeps what is in it."""
    with Mounts(f'@work/e({RW})', disks=()) as server:
        client = server.nfs()
        root = server.fh('e', client)
        moved = client.new_dir(root, 'moved')
        client.new_file(moved, 'file', b'x')
        os.rename(server.work + '/e/moved', server.work + '/out')
        outside = os.stat(server.work).st_ino
        for plus in (False, True):
            for entry in client.walk(moved, plus=plus):
                check(entry.fileid != outside, f'{entry.name!r} shows the fileid outside')
        up = client.lookup(moved, '..')
        check(up.status in (nfs.NOENT, nfs.STALE), f'LOOKUP of "..": {up.status}')
        equal(client.lookup(moved, 'file').status, nfs.OK, 'what is in it')


def the_state_is_in_no_export():
    """A client could read the key of all handles."""
    for export in ('@work', '@work/state', '/'):
        server = Mounts(f'{export}({RW})', disks=())
        try:
            server.start()
        except Failure as failure:
            check('state directory' in str(failure), f'{export}: {failure}')
            server.process.wait(10)
            server.process.stdout.close()
        else:
            raise Failure(f'{export} was exported')
        finally:
            subprocess.run(['rm', '-rf', server.work], check=True)
    with Mounts(f'@work/state/in({RW})', disks=(), dirs=['state/in']) as server:
        server.fh('state/in')  # what lies in it is another thing


def nordirplus_is_obeyed():
    with Mounts(f'@work/e 127.0.0.2({RW},nordirplus) 127.0.0.3({RW})', disks=()) as server:
        two, three = (server.nfs(source=(f'127.0.0.{n}', 0)) for n in (2, 3))
        root = server.fh('e', two)
        equal(two.readdirplus(root).status, nfs.NOTSUPP, 'READDIRPLUS')
        equal(two.readdir(root).status, nfs.OK, 'READDIR')
        equal(three.readdirplus(root).status, nfs.OK, 'READDIRPLUS by another')


if __name__ == '__main__':
    nfs.have_own_mounts()
    nfs.run([
        what_is_mounted_is_not_reached_by_accident,
        crossmnt_leads_on,
        crossmnt_is_each_clients_own,
        nohide_opens_one,
        its_own_line_decides,
        what_is_mounted_later_is_found,
        mountpoint_waits_for_the_mount,
        links_lead_to_exports,
        one_directory_by_two_names,
        a_directory_mounted_twice,
        exports_inside_exports,
        a_directory_moved_out_shows_nothing,
        the_state_is_in_no_export,
        nordirplus_is_obeyed,
    ])
