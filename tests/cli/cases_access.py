#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What an exports file means to clients: the running server from different addresses."""
import contextlib
import os
import subprocess

from cli import DONE, Serving, check, equal, holdfast, own_namespaces, quiet, run, write
from nfs import ACCES, OK, ROFS, UNCHECKED, Nfs, Tcp, Udp


def serving(work, text, *more):
    return Serving(*quiet(work), '--bind', '127.0.0.2', '--bind', '::1', '--exports',
                   write(f'{work}/exports', text.replace('WORK', work)), *more)


def client(server, source='127.0.0.1', udp=False):
    host = '::1' if ':' in source else '127.0.0.1'
    transport = Udp if udp else Tcp
    return Nfs(transport(server.port, host=host, source=(source, 0)))


def mount_status(server, path, source='127.0.0.1'):
    return client(server, source).mount(path).status


def write_status(server, path, source='127.0.0.1', name='file'):
    """What a CREATE from that address is answered."""
    nfs = client(server, source)
    mounted = nfs.mount(path)
    equal(mounted.status, OK, f'MNT of {path} from {source}')
    return nfs.create(mounted.fh, name, how=UNCHECKED, mode=0o644).status


def directories(work, *names):
    for name in names:
        os.makedirs(f'{work}/{name}')
        os.chmod(f'{work}/{name}', 0o777)


def blank_before_the_bracket_is_as_showmount_says(work):
    directories(work, 'e')
    with serving(work, 'WORK/e 10.9.9.0/24 (rw,insecure)\n') as server:
        equal(write_status(server, f'{work}/e'), OK, 'CREATE by everyone')
        reader = client(server).rpc(5, b'', prog=100005)
        check(reader.bool(), 'EXPORT is empty')
        equal(reader.opaque().decode(), f'{work}/e', 'ex_dir')
        groups = []
        while reader.bool():
            groups.append(reader.opaque().decode())
        equal(groups, ['10.9.9.0/24', '*'], 'ex_groups')


def quoted_paths_are_the_ones_that_mount(work):
    directories(work, 'a b', 'c d', 'h#1', 'a')
    text = ('"WORK/a b" 127.0.0.1(rw,insecure)\r\nWORK/c\\040d 127.0.0.1(rw,insecure)\r\n'
            '"WORK/h#1" \\\r\n  127.0.0.1(rw,insecure)')
    with serving(work, text) as server:
        for name in ('a b', 'c d', 'h#1'):
            equal(mount_status(server, f'{work}/{name}'), OK, f'MNT of {name!r}')
        check(mount_status(server, f'{work}/a') != OK, "MNT of 'a', which is not exported")


def defaults_of_a_line_are_overridden_by_its_clients(work):
    directories(work, 'e')
    with serving(work, 'WORK/e -sync,ro,insecure 127.0.0.2 127.0.0.3(rw) 127.0.0.4\n') as server:
        for source, right in (('127.0.0.2', ROFS), ('127.0.0.3', OK), ('127.0.0.4', ROFS)):
            equal(write_status(server, f'{work}/e', source, f'from-{source}'), right,
                  f'CREATE from {source}')
        equal(mount_status(server, f'{work}/e', '127.0.0.5'), ACCES, 'MNT by a stranger')


def ipv6_and_ipv4_are_told_apart(work):
    directories(work, 'e', 'f')
    text = ('WORK/e ::1(rw,insecure) 127.0.0.0/8(ro,insecure)\n'
            'WORK/f 0:0:0:0:0:0:0:1(rw,insecure)\nWORK/g nonsense:(rw)\n')
    with serving(work, text, '--skip-bad-lines') as server:
        equal(write_status(server, f'{work}/e', '::1'), OK, 'CREATE over ::1')
        equal(write_status(server, f'{work}/e', '127.0.0.1', 'x'), ROFS, 'CREATE over 127.0.0.1')
        equal(write_status(server, f'{work}/f', '::1'), OK, 'CREATE over ::1, written out')
        equal(mount_status(server, f'{work}/f'), ACCES, 'MNT over 127.0.0.1')


def a_dual_stack_socket_sees_ipv4(work):
    directories(work, 'e')
    file = write(f'{work}/exports', f'{work}/e 127.0.0.0/8(rw,insecure) ::/0(ro,insecure)\n')
    with Serving('--port', '0', '--portmap', 'off', '--state', f'{work}/state', '--exports',
                 file) as server:
        equal(write_status(server, f'{work}/e'), OK, 'CREATE over 127.0.0.1')
        equal(write_status(server, f'{work}/e', '::1', 'other'), ROFS, 'CREATE over ::1')


def handles_do_not_outlive_the_right_to_use_them(work):
    directories(work, 'e')
    with serving(work, 'WORK/e 127.0.0.1(rw,insecure)\n') as server:
        root = client(server).mount(f'{work}/e').fh
        equal(client(server).getattr(root).status, OK, 'GETATTR by the client')
        for udp in (False, True):
            equal(client(server, '127.0.0.2', udp).getattr(root).status, ACCES,
                  'GETATTR by a stranger with the same handle')


def the_narrower_kind_counts_not_the_line(work):
    directories(work, 'e')
    with serving(work, 'WORK/e *(ro,insecure) 127.0.0.0/8(ro,insecure)\n'
                       'WORK/e 127.0.0.2(rw,insecure)\n') as server:
        equal(write_status(server, f'{work}/e', '127.0.0.2'), OK, 'CREATE by the single host')
        equal(write_status(server, f'{work}/e', '127.0.0.3', 'x'), ROFS, 'CREATE by the network')


@contextlib.contextmanager
def own_etc(work, **files):
    """A copy of /etc with some files written anew, seen as /etc in our mount namespace."""
    etc = f'{work}/etc'
    subprocess.run(['cp', '-a', '/etc', etc], check=True)
    write(f'{etc}/nsswitch.conf', 'hosts: files\nnetgroup: files\npasswd: files\ngroup: files\n')
    for name, text in files.items():
        write(f'{etc}/{name}', text)
    subprocess.run(['mount', '--bind', etc, '/etc'], check=True)
    try:
        yield
    finally:
        subprocess.run(['umount', '/etc'], check=True)


HOSTS = ('127.0.0.1 localhost\n127.0.0.2 alpha.cs.example.org al\n127.0.0.3 pc7.example.org\n'
         '127.0.0.4 beta.example.net\n127.0.0.6 Gamma.Example.Org\n')


def netgroups_are_looked_up(work):
    """Hosts by name, also without their domain; members without a host, or with a number, are
    nobody, as with nfs-utils."""
    directories(work, 'e')
    group = ('friends (127.0.0.5,,) (-,,) (,user,) more\n'
             'more (localhost,-,) (alpha.cs.example.org,,) (pc7,,)\n')
    with own_etc(work, netgroup=group, hosts=HOSTS), \
            serving(work, 'WORK/e @friends(rw,insecure) *(ro,insecure)\n') as server:
        for source, right in (('127.0.0.1', OK), ('127.0.0.2', OK), ('127.0.0.3', OK),
                              ('127.0.0.4', ROFS), ('127.0.0.5', ROFS), ('127.0.0.7', ROFS)):
            equal(write_status(server, f'{work}/e', source, f'from-{source}'), right,
                  f'CREATE from {source}')


def wildcards_are_for_names(work):
    """They match dots, not case; a name that does not lead back to its address is none."""
    directories(work, 'e', 'f')
    text = ('WORK/e *.example.org(rw,insecure) *(ro,insecure)\n'
            'WORK/f pc[0-9].example.org(rw,insecure) a?(rw,insecure) [^g]*.net(ro,insecure)\n')
    with own_etc(work, hosts=HOSTS), serving(work, text) as server:
        for source, right in (('127.0.0.2', OK), ('127.0.0.3', OK), ('127.0.0.4', ROFS),
                              ('127.0.0.6', OK), ('127.0.0.7', ROFS)):
            equal(write_status(server, f'{work}/e', source, f'from-{source}'), right,
                  f'CREATE from {source}')
        for source, right in (('127.0.0.2', OK), ('127.0.0.3', OK), ('127.0.0.4', ROFS)):
            equal(write_status(server, f'{work}/f', source, f'from-{source}'), right,
                  f'CREATE in f from {source}')
        for source in ('127.0.0.1', '127.0.0.6', '127.0.0.7'):
            equal(mount_status(server, f'{work}/f', source), ACCES, f'MNT of f from {source}')


def a_reload_asks_for_names_again(work):
    directories(work, 'e')
    with own_etc(work, hosts=HOSTS), \
            serving(work, 'WORK/e *.example.org(rw,insecure) *(ro,insecure)\n') as server:
        equal(write_status(server, f'{work}/e', '127.0.0.4', 'a'), ROFS, 'CREATE by another name')
        write('/etc/hosts', HOSTS.replace('beta.example.net', 'beta.example.org'))
        holdfast('exports', 'reload', '--state', f'{work}/state').ends(DONE)
        equal(write_status(server, f'{work}/e', '127.0.0.4', 'b'), OK, 'CREATE after the reload')
        write(f'{work}/exports', f'{work}/e @none(rw) a.b.*(rw) *.example.net(rw) *(ro,insecure)\n')
        holdfast('exports', 'reload', '--state', f'{work}/state').ends(DONE)
        equal(write_status(server, f'{work}/e', '127.0.0.4', 'c'), ROFS, 'CREATE with other lines')


if __name__ == '__main__':
    own_namespaces()
    run([blank_before_the_bracket_is_as_showmount_says, quoted_paths_are_the_ones_that_mount,
         defaults_of_a_line_are_overridden_by_its_clients, ipv6_and_ipv4_are_told_apart,
         a_dual_stack_socket_sees_ipv4, handles_do_not_outlive_the_right_to_use_them,
         the_narrower_kind_counts_not_the_line, netgroups_are_looked_up, wildcards_are_for_names,
         a_reload_asks_for_names_again])
