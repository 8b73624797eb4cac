#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A server that is not root's: it may not open files by their handles, and acts as its user. The
tests are root, and do locally what another program of the machine would."""
import os
import shutil
import signal
import time

import nfs
from nfs import Server, check, equal

USER = 64123  # in no user database
OTHER = 64124
OPTIONS = 'rw,async,insecure'


class Patient(nfs.Nfs):
    """Comes again when it is told to, as clients do: the server may have to walk the export."""

    def _begin(self, proc, args):
        end = time.monotonic() + 30
        result, reader = super()._begin(proc, args)
        while result.status == nfs.JUKEBOX and time.monotonic() < end:
            time.sleep(0.1)
            result, reader = super()._begin(proc, args)
        return result, reader


class UserServer(Server):
    """Run by USER, who owns the export. So few descriptors that none lasts: what is used is found
    and opened again and again."""

    def __init__(self, options=OPTIONS, few=True, arguments=(), **more):
        prefix = ['setpriv', f'--reuid={USER}', f'--regid={USER}', '--clear-groups']
        if few:
            prefix = ['prlimit', '--nofile=72:72', *prefix]
        super().__init__(options, arguments, prefix=prefix, **more)
        binary = os.path.join(self.work, 'holdfast')
        shutil.copy(self.binary, binary)  # where it was built may be nobody else's business
        self.binary = binary
        os.chmod(self.work, 0o755)
        for path in self.export, self.state:
            os.chown(path, USER, USER)

    def nfs(self, udp=False, cred=None, **more):
        return Patient(self.tcp(timeout=60, **more), cred)

    def path(self, *names):
        return os.path.join(self.export, *names)


def same_handle(client, dir_fh, name, fh, what):
    found = client.lookup(dir_fh, name)
    equal(found.status, nfs.OK, f'LOOKUP {what}')
    equal(found.fh, fh, f'the handle of {what}')


def reads(client, fh, data, what):
    got = client.read(fh, 0, 1000)
    equal((got.status, got.data), (nfs.OK, data), f'READ of {what}')


def stale(client, fh, what):
    equal(client.getattr(fh).status, nfs.STALE, f'GETATTR of {what}')


def comes_back(client, fh, data, what):
    """That it is gone counts for a second, or for longer where the search took long."""
    end = time.monotonic() + 60
    while client.getattr(fh).status == nfs.STALE and time.monotonic() < end:
        time.sleep(0.2)
    reads(client, fh, data, what)


def it_says_what_it_cannot_do():
    with UserServer() as server:
        said = server.messages()
        check(f'all clients act as uid {USER}' in said, f'no word of who it is: {said}')
        for word in 'chown', 'devices', '--journal', '1024':
            check(word in said, f'no word of {word}: {said}')
        check('sees all files' not in said, said)
        client = server.nfs(cred=nfs.auth_sys(OTHER, OTHER))
        root = server.root(client)
        fh = client.new_file(root, 'mine', b'data', mode=0o600, uid=OTHER)
        attr = client.getattr(fh).attr
        equal((attr.uid, attr.gid), (USER, USER), 'the owner of what others make')
        reads(client, fh, b'data', 'a file of mode 600 as another user')
        equal(client.setattr(fh, uid=OTHER).status, nfs.PERM, 'chown to another')
        equal(client.setattr(fh, gid=OTHER).status, nfs.PERM, 'chgrp to another')
        equal(client.setattr(fh, uid=USER).status, nfs.OK, 'chown to oneself')
        equal(client.mknod(root, 'dev', 4, (1, 3), mode=0o600).status, nfs.PERM, 'MKNOD')
        equal(client.mknod(root, 'fifo', 7, mode=0o600).status, nfs.OK, 'MKNOD of a FIFO')
        with open(server.path('theirs'), 'w', encoding='ascii') as file:
            file.write('secret')
        os.chmod(server.path('theirs'), 0o600)
        theirs = client.lookup(root, 'theirs').fh
        equal(client.read(theirs, 0, 10).status, nfs.ACCES, "READ of another's file")
        equal(client.setattr(theirs, mode=0o666).status, nfs.PERM, "chmod of another's file")


def it_refuses_what_it_could_not_keep():
    for arguments, reason in ((['--journal', 'auto'], b'for root'),
                              (['--sandbox', 'on'], b'not for plain users')):
        server = UserServer(arguments=arguments)
        try:
            server.start()
        except nfs.Failure as failure:
            check(reason.decode() in str(failure) or (
                b'sandbox' in reason or 'checks its memory' in str(failure)), str(failure))
            server.process.wait(10)
            equal(server.process.returncode, 3, f'the exit code with {arguments}')
        else:
            check(False, f'it starts with {arguments}')
        finally:
            server.__exit__(nfs.Failure)


def its_state_is_in_the_users_place():
    server = UserServer()
    home = os.path.join(server.work, 'home')
    os.mkdir(home)
    os.chown(home, USER, USER)
    at = server.arguments.index('--state')
    del server.arguments[at:at + 2]
    server.prefix += ['env', '-u', 'XDG_STATE_HOME', f'HOME={home}']
    with server:
        client = server.nfs()
        fh = client.new_file(server.root(client), 'file', b'x')
        check(os.path.exists(f'{home}/.local/state/holdfast/handle-key'), 'no key below HOME')
        server.restart()
        reads(server.nfs(), fh, b'x', 'a file, after a restart')


def handles_outlive_the_server():
    with UserServer() as server:
        client = server.nfs()
        root = server.root(client)
        data = bytes(range(256))
        top = client.new_dir(root, 'top', mode=0o755)
        names = [b'plain', b'\xff\xfe\x01 name', b'n' * 255, 'grüße'.encode()]
        handles = {name: client.new_file(top, name, name[:50]) for name in names}
        link = client.symlink(top, 'link', b'/etc/passwd').fh
        deep, dirs = top, []
        for level in range(60):  # a path of more than PATH_MAX
            deep = client.new_dir(deep, b'%03d' % level + b'd' * 150, mode=0o755)
            dirs.append(deep)
        bottom = client.new_file(deep, 'bottom', data)
        for how in signal.SIGTERM, signal.SIGKILL:
            server.restart(how)
            client = server.nfs()
            for name, fh in handles.items():
                reads(client, fh, name[:50], name)
            reads(client, bottom, data, 'what lies deep')
            equal(client.readlink(link).text, b'/etc/passwd', 'the text of a link')
            equal(client.write(bottom, 0, b'w', nfs.FILE_SYNC).status, nfs.OK, 'WRITE, deep')
            data = b'w' + data[1:]
            same_handle(client, deep, 'bottom', bottom, 'what lies deep')
            equal(client.lookup(dirs[30], '..').fh, dirs[29], 'the handle above')
            for name, fh in handles.items():
                same_handle(client, top, name, fh, name)


def handles_follow_renames():
    with UserServer() as server:
        client = server.nfs()
        root = server.root(client)
        a, b = (client.new_dir(root, name, mode=0o755) for name in 'ab')
        inner = client.new_dir(a, 'inner', mode=0o755)
        fh = client.new_file(inner, 'file', b'1')
        fillers = [client.new_file(b, f'f{i}') for i in range(200)]

        def all_right(what):
            for filler in fillers:  # takes the descriptors
                equal(client.getattr(filler).status, nfs.OK, 'a filler')
            got = client.read(fh, 0, 10)
            equal((got.status, got.data), (nfs.OK, b'1'), what)
            equal(client.getattr(inner).status, nfs.OK, f'{what}: its directory')

        # By a client.
        equal(client.rename(inner, 'file', b, 'moved').status, nfs.OK, 'RENAME')
        all_right('a file that a client moved')
        equal(client.rename(b, 'moved', inner, 'file').status, nfs.OK, 'RENAME back')
        equal(client.rename(a, 'inner', b, 'inner').status, nfs.OK, 'RENAME of a directory')
        all_right('a file in a directory that a client moved')
        # By programs of the server's machine: in the same directory, elsewhere, above.
        os.rename(server.path('b/inner/file'), server.path('b/inner/other'))
        all_right('a file with another name')
        os.rename(server.path('b/inner/other'), server.path('a/elsewhere'))
        all_right('a file in another directory')
        os.rename(server.path('a/elsewhere'), server.path('b/inner/file'))
        os.rename(server.path('b'), server.path('c'))
        all_right('a file below a directory with another name')
        # A directory and the one above it change places.
        os.rename(server.path('c/inner'), server.path('i'))
        os.rename(server.path('c'), server.path('i/c'))
        all_right('a file in what was below and is above')
        equal(client.lookup(b, '..').fh, inner, 'the new one above')
        # Another object has the old name.
        os.rename(server.path('i/file'), server.path('i/kept'))
        with open(server.path('i/file'), 'w', encoding='ascii') as file:
            file.write('another')
        all_right('a file whose old name leads to another')
        check(client.lookup(inner, 'file').fh != fh, 'two files have one handle')
        server.restart(signal.SIGKILL)
        client = server.nfs()
        os.rename(server.path('i'), server.path('j'))
        all_right('a file of before the start')


def the_dead_stay_dead():
    with UserServer() as server:
        client = server.nfs()
        root = server.root(client)
        dead = {}
        reused = 0
        for i in range(200):
            name = f'f{i % 7}'
            fh = client.new_file(root, name, b'old')
            fileid = client.getattr(fh).attr.fileid
            reused += fileid in dead
            check(fh not in dead.values(), 'a handle came back')
            dead[fileid] = fh
            if i % 3 == 0:
                equal(client.remove(root, name).status, nfs.OK, 'REMOVE')
            elif i % 3 == 1:
                os.unlink(server.path(name))
            else:
                other = client.new_file(root, 'other')
                equal(client.rename(root, 'other', root, name).status, nfs.OK, 'RENAME over it')
                reused += client.getattr(other).attr.fileid in dead
                equal(client.remove(root, name).status, nfs.OK, 'REMOVE')
        check(reused > 0, 'no inode number came back: this file system shows nothing')
        alive = [client.new_file(root, f'new{i}', b'new') for i in range(50)]
        for fh in list(dead.values())[-20:]:
            stale(client, fh, 'a file that was removed')
            equal(client.write(fh, 0, b'x').status, nfs.STALE, 'WRITE')
        for fh in alive:
            reads(client, fh, b'new', 'a file that is there')
        gone = client.new_dir(root, 'gone', mode=0o755)
        below = client.new_file(gone, 'below')
        shutil.rmtree(server.path('gone'))
        stale(client, below, 'a file in a tree that was removed')
        stale(client, gone, 'a directory that was removed')
        server.restart()
        client = server.nfs()
        for fh in [gone, below, *list(dead.values())[-20:]]:
            stale(client, fh, 'a file that was removed before the start')
        for fh in alive:
            reads(client, fh, b'new', 'a file of before the start')


def hard_links():
    with UserServer() as server:
        client = server.nfs()
        root = server.root(client)
        dirs = [client.new_dir(root, name, mode=0o755) for name in 'xyz']
        fh = client.new_file(dirs[0], 'one', b'shared')
        equal(client.link(fh, dirs[1], 'two').status, nfs.OK, 'LINK')
        os.link(server.path('y/two'), server.path('z/three'))
        same_handle(client, dirs[2], 'three', fh, 'the third name')
        equal(client.getattr(fh).attr.nlink, 3, 'names')
        equal(client.remove(dirs[2], 'three').status, nfs.OK, 'REMOVE')
        for i in range(150):
            client.new_file(root, f'filler{i}')
        reads(client, fh, b'shared', 'the file without its last name')
        os.unlink(server.path('x/one'))
        server.restart()
        client = server.nfs()
        reads(client, fh, b'shared', 'the file with one name, after a restart')
        equal(client.remove(dirs[1], 'two').status, nfs.OK, 'REMOVE of the last name')
        stale(client, fh, 'the file without names')


def nothing_leads_out():
    with UserServer() as server:
        client = server.nfs()
        root = server.root(client)
        outside = os.path.join(server.work, 'outside')
        os.mkdir(outside)
        with open(f'{outside}/secret', 'w', encoding='ascii') as file:
            file.write('secret')
        os.chmod(outside, 0o777)
        equal(client.lookup(root, '..').fh, root, 'what is above the root')
        check(client.lookup(root, '../outside').status != nfs.OK, 'a path is no name')
        inner = client.new_dir(root, 'dir', mode=0o755)
        secret = client.new_file(inner, 'secret', b'mine')
        # The directory makes room for a link to one with the same names.
        os.rename(server.path('dir'), server.path('kept'))
        os.symlink(outside, server.path('dir'))
        server.restart()
        client = server.nfs()
        reads(client, secret, b'mine', 'the file, not what the link leads to')
        link = client.lookup(root, 'dir')
        equal(link.attr.type, 5, 'the type of the link')
        check(client.lookup(link.fh, 'secret').status != nfs.OK, 'a link was followed')
        # What is moved out is out of reach, once it is not in hand any more.
        os.rename(server.path('kept'), f'{outside}/kept')
        server.restart()
        client = server.nfs()
        stale(client, secret, 'a file that was moved out')
        mounted = client.mount(server.path('dir'))
        check(mounted.status != 0, 'MNT over a link that leads out')
        os.rename(f'{outside}/kept', server.path('back'))
        comes_back(client, secret, b'mine', 'the file that was moved out')


def closed_files_and_directories():
    """RFC 1813 §4.4: the mode is for who opens a file, not for who has it open."""
    with UserServer() as server:
        client = server.nfs()
        root = server.root(client)
        fh = client.new_file(root, 'file', b'')
        sub = client.new_dir(root, 'dir', mode=0o755)
        below = client.new_file(sub, 'below', b'b')
        equal(client.setattr(fh, mode=0o444).status, nfs.OK, 'chmod 444')
        fillers = [client.new_file(root, f'filler{i}') for i in range(150)]
        equal(client.write(fh, 0, b'late', nfs.FILE_SYNC).status, nfs.OK, 'WRITE after chmod 444')
        equal(client.setattr(fh, mode=0).status, nfs.OK, 'chmod 0')
        for filler in fillers:
            client.read(filler, 0, 1)
        reads(client, fh, b'late', 'a file of mode 0')
        equal(client.getattr(fh).attr.mode, 0, 'the mode afterwards')
        equal(client.access(fh, 63).access, 0, 'ACCESS says what the mode says')
        equal(client.setattr(sub, mode=0).status, nfs.OK, 'chmod 0 of a directory')
        server.restart()
        client = server.nfs()
        check(client.getattr(below).status in (nfs.ACCES, nfs.STALE),
              'a file below a closed directory')
        equal(client.setattr(sub, mode=0o755).status, nfs.OK, 'chmod 755')
        comes_back(client, below, b'b', 'a file below a directory that is open again')
        equal(client.setattr(fh, mode=0o644).status, nfs.OK, 'chmod 644')


def a_subdirectory_is_mounted():
    with UserServer() as server:
        os.makedirs(server.path('one/two'))
        with open(server.path('one/two/file'), 'w', encoding='ascii') as file:
            file.write('x')
        client = server.nfs()
        two = client.mount(server.path('one/two'))
        equal(two.status, 0, 'MNT of a directory below')
        fh = client.lookup(two.fh, 'file').fh
        reads(client, fh, b'x', 'the file')
        entries = {entry.name: entry for entry in client.walk(two.fh, plus=True)}
        equal(entries[b'file'].fh, fh, 'the handle that READDIRPLUS gives')
        above = entries[b'..'].fh
        server.restart()
        client = server.nfs()
        reads(client, fh, b'x', 'the file')
        equal(client.lookup(two.fh, '..').fh, above, 'the one above')
        equal(client.lookup(above, 'two').fh, two.fh, 'the one below that')


def what_readdirplus_gave_is_found_without_a_walk():
    """Also in a tree of some size; nothing here may be JUKEBOX."""
    with UserServer() as server:
        for i in range(30):
            os.mkdir(server.path(f'd{i}'))
            for j in range(100):
                with open(server.path(f'd{i}/f{j}'), 'w', encoding='ascii') as file:
                    file.write(f'{i} {j}')
        client = server.nfs()
        root = server.root(client)
        files = {}
        for entry in client.walk(root, plus=True):
            if entry.name not in (b'.', b'..'):
                for inner in client.walk(entry.fh, plus=True):
                    if inner.name not in (b'.', b'..'):
                        files[entry.name, inner.name] = inner.fh
        equal(len(files), 3000, 'files')
        for round_ in range(2):
            for (d, f), fh in list(files.items())[::7]:
                reads(client, fh, d[1:] + b' ' + f[1:], (d, f))
            if round_ == 0:
                server.restart(signal.SIGKILL)
                client = server.nfs()
        check(server.fd_count() < 72, 'descriptors')
        shutil.rmtree(server.path('d7'))
        for (d, f), fh in files.items():
            if d == b'd7':
                stale(client, fh, (d, f))


if __name__ == '__main__':
    nfs.run([
        it_says_what_it_cannot_do,
        it_refuses_what_it_could_not_keep,
        its_state_is_in_the_users_place,
        handles_outlive_the_server,
        handles_follow_renames,
        the_dead_stay_dead,
        hard_links,
        nothing_leads_out,
        closed_files_and_directories,
        a_subdirectory_is_mounted,
        what_readdirplus_gave_is_found_without_a_walk,
    ])
