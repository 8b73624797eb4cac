#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The portmapper (RFC 1833) as the system's own tools and other programs of the machine see it."""
import os
import shutil
import subprocess
import sys

import nfs
from nfs import MOUNT, NFS, PMAP, Local, Nfs, Server, Tcp, Udp, check, equal, opaque, u32

TCP, UDP = 6, 17
SPRAY, NLM, NSM, NFS_ACL, RQUOTA = 100012, 100021, 100024, 100227, 100011


def rpcb(prog, vers, netid='', addr='', owner=''):
    return u32(prog, vers) + opaque(netid) + opaque(addr) + opaque(owner)


def text(transport, proc, args, vers=4):
    reader = Nfs(transport).rpc(proc, args, prog=PMAP, vers=vers)
    answer = reader.opaque().decode()
    reader.end()
    return answer


def word(transport, proc, args, vers=2):
    reader = Nfs(transport).rpc(proc, args, prog=PMAP, vers=vers)
    answer = reader.u32()
    reader.end()
    return answer


def dump(transport, vers):
    reader = Nfs(transport).rpc(4, b'', prog=PMAP, vers=vers)
    entries = []
    while reader.bool():
        entry = (reader.u32(), reader.u32())
        if vers == 2:
            entry += (reader.u32(), reader.u32())
        else:
            entry += tuple(reader.opaque().decode() for _ in range(3))
        entries.append(entry)
    reader.end()
    return entries


def what_is_registered_is_served(server):
    """P23: every entry answers NULL at its address, and everything that answers is an entry."""
    entries = dump(Tcp(111), 2)
    expected = {(prog, vers, prot) for prog, versions in ((PMAP, (2, 3, 4)), (NFS, (2, 3)),
                                                          (MOUNT, (1, 2, 3)), (SPRAY, (1,)),
                                                          (NLM, (1, 3, 4)), (NSM, (1,)),
                                                          (NFS_ACL, (2, 3)), (RQUOTA, (1, 2)))
                for vers in versions for prot in (TCP, UDP)}
    equal({entry[:3] for entry in entries}, expected, 'programs, versions and protocols')
    for prog, vers, prot, port in entries:
        equal(port, 111 if prog == PMAP else server.port, f'port of {prog}')
        transport = (Tcp if prot == TCP else Udp)(port)
        Nfs(transport).rpc(0, b'', prog=prog, vers=vers).end()
        equal(word(Udp(111), 3, u32(prog, vers, prot, 0)), port, f'GETPORT of {prog}, {vers}')
    for vers in (3, 4):
        listed = dump(Tcp(111), vers)
        netids = {entry[2] for entry in listed if entry[:2] == (NFS, 3)}
        equal(netids, {'tcp', 'udp', 'tcp6', 'udp6'}, f'netids of NFS, version {vers}')
        for prog, _, netid, addr, owner in listed:
            if netid != 'local':
                high, low = (server.port >> 8, server.port & 255) if prog != PMAP else (0, 111)
                host = '::' if netid[-1] == '6' else '0.0.0.0'
                equal(addr, f'{host}.{high}.{low}', f'address of {prog} on {netid}')
            equal(owner, 'superuser', 'owner')


def the_address_that_was_asked_is_the_answer(server):
    for host in ('127.0.0.1', '127.0.0.2', '127.1.2.3', '::1'):
        for kind in (Tcp, Udp):
            answer = text(kind(111, host), 3, rpcb(NFS, 3))
            equal(answer, f'{host}.{server.port >> 8}.{server.port & 255}', f'GETADDR at {host}')
    answer = text(Local(), 3, rpcb(NFS, 3, 'tcp'))
    equal(answer, f'127.0.0.1.{server.port >> 8}.{server.port & 255}', 'GETADDR on the socket')
    equal(text(Local(), 3, rpcb(PMAP, 4, 'local')), '/run/rpcbind.sock', 'its own address')


def programs_of_this_host_register(server):
    """From a reserved port of loopback, or over the local socket; not from elsewhere."""
    def set_(transport, prog):
        return word(transport, 1, u32(prog, 1, UDP, 999))

    def unset(transport, prog):
        return word(transport, 2, u32(prog, 1, 0, 0))

    del server
    for port, allowed in ((1001, 1), (0, 0), (1024, 0)):
        source = ('127.0.0.1', port)
        equal(set_(Udp(111, source=source), 0x20000001), allowed, f'SET from {source}')
        equal(unset(Udp(111, source=source), 0x20000001), allowed, f'UNSET from {source}')
    equal(set_(Tcp(111, '::1', source=('::1', 1002)), 0x20000001), 1, 'SET from ::1')
    equal(unset(Local(), 0x20000001), 1, 'UNSET over the socket')
    subprocess.run(['ip', 'address', 'add', '192.0.2.7/32', 'dev', 'lo'], check=True)
    away = Udp(111, '192.0.2.7', source=('192.0.2.7', 1003))
    equal(set_(away, 0x20000001), 0, 'SET from a reserved port of another address')
    equal(word(away, 3, u32(NFS, 3, TCP, 0)) != 0, True, 'GETPORT from there')


def as_user(uid, function):
    """Runs a function as another user; its result is a number."""
    child = os.fork()
    if child == 0:
        try:
            os.setgid(uid)
            os.setuid(uid)
            os._exit(function())
        finally:
            os._exit(99)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def users_register_only_their_own(server):
    del server
    program = rpcb(0x20000002, 1, 'udp', '0.0.0.0.250.1')
    reserved = rpcb(0x20000003, 1, 'udp', '0.0.0.0.3.1')
    equal(as_user(1000, lambda: word(Local(), 1, program, 4)), 1, 'SET by a user')
    equal(as_user(1000, lambda: word(Local(), 1, reserved, 4)), 0, 'SET of a reserved port')
    equal([e[4] for e in dump(Tcp(111), 4) if e[0] == 0x20000002], ['1000'], 'owner')
    equal(as_user(1001, lambda: word(Local(), 2, program, 4)), 0, 'UNSET by another user')
    equal(as_user(1000, lambda: word(Local(), 2, rpcb(NFS, 3), 4)), 0, 'UNSET of NFS by a user')
    equal(as_user(1000, lambda: word(Local(), 2, program, 4)), 1, 'UNSET by the owner')
    equal(as_user(1000, lambda: word(Local(), 1, program, 4)), 1, 'SET by the user again')
    equal(word(Local(), 2, program, 4), 1, 'UNSET by root')
    word(Local(), 1, rpcb(0x20000004, 1, 'udp', '0.0.0.0.250.1'), 4)
    equal(as_user(1000, lambda: word(Local(), 2, rpcb(0x20000004, 1), 4)), 0, "UNSET of root's")
    word(Local(), 2, rpcb(0x20000004, 1), 4)

    def flood():
        local = Local()
        taken = [word(local, 1, rpcb(0x20001000 + i, 1, 'udp', '0.0.0.0.250.1'), 4)
                 for i in range(300)]
        return sum(taken)

    check(as_user(1000, flood) <= 64, 'a user can fill the table')
    equal(word(Local(), 1, u32(0x20000005, 1, UDP, 999)), 1, 'SET by root after that')


def nothing_is_forwarded(server):
    """CALLIT, BCAST: only the null procedure of what is here, and no larger than the call."""
    del server
    for vers in (2, 3, 4):
        for prog, call_vers, proc, args in ((NFS, 3, 1, bytes(32)), (MOUNT, 3, 5, b''),
                                            (NFS, 4, 0, b''), (PMAP, 2, 4, b''), (PMAP, 2, 5, b''),
                                            (0x20000001, 1, 0, b'')):
            with Udp(111) as socket_:
                socket_.send(nfs.call_message(PMAP, vers, 5, u32(prog, call_vers, proc)
                                              + opaque(args), cred=nfs.AUTH_NONE))
                check(socket_.silent(0.1), f'version {vers} answers for {prog}, {proc}')
        with Udp(111) as socket_:
            call = nfs.call_message(PMAP, vers, 5, u32(NFS, 3, 0, 0), cred=nfs.AUTH_NONE)
            reply = socket_.exchange(call)
            equal(nfs.Reply(reply).accept_stat, nfs.SUCCESS, f'discovery, version {vers}')
            check(len(reply) <= len(call), f'{len(reply)} bytes for a call of {len(call)}')


def the_systems_tools(server):
    """rpcinfo and showmount, by people who have never seen us."""
    def output(*command):
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=30)
        check(done.returncode == 0, f'{command}: {done.stdout}{done.stderr}')
        return done.stdout

    port = str(server.port)
    check(port in output('rpcinfo', '-p', '127.0.0.1'), 'rpcinfo -p lacks the port')
    check('nfs' in output('rpcinfo', '127.0.0.1'), 'rpcinfo (version 4 or 3) lacks nfs')
    check('3' in output('rpcinfo', '-s', '127.0.0.1'), 'rpcinfo -s')
    check('2' in output('rpcinfo', '-m', '127.0.0.1'), 'rpcinfo -m (GETSTAT)')
    for host in ('127.0.0.1', '::1'):
        for how in ('-t', '-u'):
            if host == '::1':
                netid = {'-t': 'tcp6', '-u': 'udp6'}[how]
                output('rpcinfo', '-T', netid, host, '100003', '3')
                continue
            for prog, vers in (('100003', '2'), ('100003', '3'), ('100005', '1'), ('100005', '3'),
                               ('100000', '2')):
                check(f'version {vers} ready' in output('rpcinfo', how, host, prog, vers),
                      f'rpcinfo {how} {prog} {vers}')
            every = output('rpcinfo', how, host, '100005')
            check(every.count('ready') == 3, f'rpcinfo {how} 100005: {every}')
            wrong = subprocess.run(['rpcinfo', how, host, '100003', '4'], check=False,
                                   capture_output=True, text=True, timeout=30)
            check(wrong.returncode != 0, 'rpcinfo finds NFS version 4')
    check(server.export in output('showmount', '-e', '127.0.0.1'), 'showmount -e')
    check(server.export in output('showmount', '--no-headers', '-e', '127.0.0.1'), 'showmount')
    server.root()
    check('127.0.0.1:' + server.export in output('showmount', '-a', '127.0.0.1'), 'showmount -a')


def main():
    nfs.have_own_network()
    cases = [
        what_is_registered_is_served,
        the_address_that_was_asked_is_the_answer,
        programs_of_this_host_register,
        users_register_only_their_own,
        nothing_is_forwarded,
    ]
    if shutil.which('rpcinfo') and shutil.which('showmount'):
        cases.append(the_systems_tools)
    else:
        print('the_systems_tools: skipped, rpcinfo or showmount is missing', file=sys.stderr)
    nfs.run(cases, portmap='on')


if __name__ == '__main__':
    main()
