#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Locks over NLM (XNFS chapter 10, RFC 1813 §6): ranges, owners, waiting and being told, limits."""
import os
import socket
import subprocess
import sys
import time

import locks
import nfs
from locks import (BLOCKED, CANCEL_MSG, CANCEL_RES, DEADLCK, DENIED, FAILED, FBIG, GRACE, GRANTED,
                   GRANTED_MSG, GRANTED_OK, GRANTED_RES, LOCK_MSG, LOCK_RES, NLM, NM_LOCK, NOLOCKS,
                   NSM, ROFS, SHARE, SM_NOTIFY, STALE_FH, TEST_MSG, TEST_RES, UNLOCK_MSG,
                   UNLOCK_RES, UNSHARE, Host, LocalLock, Machine, local_would_block, lock_server,
                   send_only)
from nfs import check, equal, opaque, u32

GRANT_ME = dict(block=True)


def file_of(server, name='f', data=b'0123456789'):
    client = server.nfs()
    fh = client.new_file(server.root(client), name, data, mode=0o666)
    client.transport.close()
    return fh


def path_of(server, name='f'):
    return os.path.join(server.export, name)


def until(condition, what, seconds=locks.PATIENCE):
    end = time.monotonic() + seconds
    while not condition():
        check(time.monotonic() < end, f'not within {seconds} s: {what}')
        time.sleep(0.05)


# ---- ranges and owners

def ranges_conflict_where_they_overlap():
    with lock_server() as server:
        fh = file_of(server)
        for vers in (1, 3, 4):
            a, b = Machine(server, 2, vers=vers), Machine(server, 3, vers=vers, udp=True)
            equal(a.lock(fh, 10, 10), GRANTED_OK, f'the first lock, version {vers}')
            equal(b.lock(fh, 0, 10), GRANTED_OK, 'before it')
            equal(b.lock(fh, 20, 0), GRANTED_OK, 'behind it')
            equal(b.lock(fh, 19, 1), DENIED, 'its last byte')
            equal(b.lock(fh, 19, 1, exclusive=False), DENIED, 'shared')
            seen = b.test(fh, 0, 11)
            equal((seen.status, seen.exclusive, seen.svid, seen.oh, seen.start, seen.length),
                  (DENIED, True, 1, b'1@machine2', 10, 10), 'TEST tells the holder')
            equal(a.test(fh, 10, 10).status, GRANTED_OK, 'TEST of one\'s own')
            equal(b.test(fh, 20, 5, svid=2).length, 0, 'a lock to the end has length 0')
            equal(a.lock(fh, 12, 2, exclusive=False), GRANTED_OK, 'a part downgraded')
            equal(b.lock(fh, 12, 2, exclusive=False), GRANTED_OK, 'may be shared')
            equal(b.lock(fh, 11, 1, exclusive=False), DENIED, 'and no more than that')
            for machine in (a, b):
                equal(machine.unlock(fh), GRANTED_OK, 'UNLOCK of everything')
                equal(machine.unlock(fh), GRANTED_OK, 'UNLOCK of nothing')
            equal(a.lock(fh), GRANTED_OK, 'all of it')
            equal(a.unlock(fh), GRANTED_OK, 'UNLOCK')
            a.close(), b.close()


def an_owner_is_machine_svid_and_oh():
    with lock_server() as server:
        fh = file_of(server)
        a = Machine(server, 2)
        namesake, other = Machine(server, 3, name=a.name), Machine(server, 2, name='other')
        equal(a.lock(fh, svid=7, oh=b'x'), GRANTED_OK, 'LOCK')
        for machine, svid, oh, what in ((a, 8, b'x', 'svid'), (a, 7, b'y', 'oh'),
                                        (namesake, 7, b'x', 'address'),
                                        (other, 7, b'x', 'caller_name')):
            equal(machine.lock(fh, svid=svid, oh=oh), DENIED, f'another {what}')
            equal(machine.unlock(fh, svid=svid, oh=oh), GRANTED_OK, f'UNLOCK with another {what}')
            equal(machine.lock(fh, svid=svid, oh=oh), DENIED, f'it unlocked nothing: {what}')
        again = Machine(server, 2, udp=True)
        equal(again.unlock(fh, svid=7, oh=b'x'), GRANTED_OK, 'UNLOCK from another port')
        equal(namesake.lock(fh), GRANTED_OK, 'it is free then')


def odd_ranges():
    with lock_server() as server:
        fh = file_of(server)
        a, b = Machine(server, 2), Machine(server, 3)
        top = 2 ** 63
        for start, length in ((top, 1), (top - 1, 2), (0, 2 ** 64 - 1), (2 ** 64 - 1, 0),
                              (1, top), (2 ** 64 - 1, 2 ** 64 - 1)):
            equal(a.lock(fh, start, length), FBIG, f'LOCK {start:#x} {length:#x}')
            equal(a.test(fh, start, length).status, FBIG, f'TEST {start:#x} {length:#x}')
            equal(a.unlock(fh, start, length), FBIG, f'UNLOCK {start:#x} {length:#x}')
        equal(a.lock(fh, top - 1, 1), GRANTED_OK, 'the last byte there can be')
        equal(b.lock(fh, 0, top - 1), GRANTED_OK, 'all others')
        equal(b.lock(fh, top - 1, 0), DENIED, 'to the end')
        seen = b.test(fh, top - 1, 0)
        equal((seen.start, seen.length), (top - 1, 1), 'the holder')
        # Version 3 cannot say where that is, but must not say it wrongly.
        old = Machine(server, 4, vers=3)
        equal(old.lock(fh, 2 ** 32 - 1, 2 ** 32 - 1), DENIED, 'beyond 32 bits')
        equal(a.unlock(fh) + b.unlock(fh), 0, 'UNLOCK')
        equal(old.lock(fh, 2 ** 32 - 1, 2 ** 32 - 1), GRANTED_OK, 'beyond 32 bits')
        seen = b.test(fh, 0, 0)
        equal((seen.start, seen.length), (2 ** 32 - 1, 2 ** 32 - 1), 'the holder, in 64 bits')


def handles_and_kinds_of_files():
    with lock_server() as server:
        client = server.nfs()
        root = server.root(client)
        fh = file_of(server)
        a = Machine(server, 2)
        old = Machine(server, 2, vers=3)
        for bad, what in ((b'', 'none'), (bytes(32), 'zeros'), (fh[:-1] + b'\0', 'forged'),
                          (fh + bytes(100), 'long'), (bytes(1024), 'very long')):
            equal(a.lock(bad), STALE_FH, f'a handle: {what}')
            equal(a.unlock(bad), STALE_FH, f'UNLOCK: {what}')
            equal(old.lock(bad), NOLOCKS, f'version 3: {what}')
        equal(a.lock(root), FAILED, 'a directory')
        # An NFSv2 client pads its handle to 32 bytes (RFC 1094 §2.3.3): the same file.
        equal(a.lock(fh), GRANTED_OK, 'LOCK')
        equal(Machine(server, 3, vers=1).lock(fh.ljust(32, b'\0')), DENIED, 'a padded handle')
        equal(a.unlock(fh.ljust(32, b'\0')), GRANTED_OK, 'UNLOCK with it')
        equal(a.lock(fh), GRANTED_OK, 'LOCK of a file that is removed then')
        equal(client.remove(root, 'f').status, 0, 'REMOVE')
        equal(a.unlock(fh), GRANTED_OK, 'UNLOCK of a removed file')
        fh = file_of(server)
        equal(client.remove(root, 'f').status, 0, 'REMOVE')
        equal(a.lock(fh), STALE_FH, 'a file that is gone')
        equal(a.lock(file_of(server, 'g'), oh=b''), GRANTED_OK, 'an empty oh')
        equal(a.lock(file_of(server, 'h'), oh=bytes(1024)), GRANTED_OK, 'the longest oh')


def export_rules_hold():
    directories = ('@work/export 127.0.0.2(ro,secure) 127.0.0.3(rw,insecure) 127.0.0.1(rw,insecure,'
                   'no_root_squash)', )
    with lock_server(directories=directories) as server:
        fh = file_of(server)
        reader, writer, stranger = (Machine(server, n) for n in (2, 3, 4))
        equal(stranger.lock(fh), FAILED, 'a stranger')
        equal(reader.lock(fh), FAILED, 'a high port, and no `insecure`')
        port = next(p for p in range(700, 1000) if not os.system(
            f'python3 -c "import socket; socket.socket().bind((\'127.0.0.2\', {p}))"'))
        reader.transport = nfs.Tcp(server.port, source=('127.0.0.2', port))
        reader.nfs = nfs.Nfs(reader.transport)
        equal(reader.lock(fh), ROFS, 'an exclusive lock on a read-only export')
        equal(reader.lock(fh, exclusive=False), GRANTED_OK, 'a shared one')
        equal(writer.lock(fh), DENIED, 'it counts')
        os.chmod(path_of(server), 0o600)
        secret = Machine(server, 3)
        secret.nfs.cred = nfs.auth_sys(1000, 1000)
        equal(secret.lock(fh, exclusive=False), FAILED, 'who may not read may not lock')


# ---- waiting

def a_waiter_is_told():
    """Over UDP and TCP, all versions; the arguments are those of the LOCK."""
    with lock_server() as server:
        fh = file_of(server)
        number = 10
        for vers in (1, 3, 4):
            for udp in (False, True):
                a = Machine(server, 2, vers=vers)
                b = Host(server, number, vers=vers, udp=udp)
                number += 1
                equal(a.lock(fh), GRANTED_OK, 'LOCK')
                equal(b.lock(fh, 3, 4, svid=9, oh=b'me', block=True), BLOCKED, 'LOCK that waits')
                equal(b.lock(fh, 3, 4, svid=9, oh=b'me', block=True), BLOCKED, 'asked again')
                equal(b.lock(fh, 3, 4, svid=9, oh=b'me'), DENIED, 'asked without waiting')
                b.not_called(0.2)
                equal(a.unlock(fh), GRANTED_OK, 'UNLOCK')
                call = b.called(GRANTED)
                equal((call.vers, call.tcp), (vers, not udp), 'version and transport of GRANTED')
                args = call.lock_args()
                equal((args.exclusive, args.caller, args.fh, args.oh, args.svid, args.start,
                       args.length), (True, b.name.encode(), fh, b'me', 9, 3, 4), 'its arguments')
                equal(a.lock(fh), DENIED, 'the lock is held')
                b.not_called(0.3)
                equal(b.unlock(fh, svid=9, oh=b'me'), GRANTED_OK, 'UNLOCK by the waiter')
                a.close(), b.close()


def waiters_are_served_in_order():
    with lock_server() as server:
        fh = file_of(server)
        first, second, third = (Host(server, n) for n in (2, 3, 4))
        holder = Machine(server, 5)
        equal(holder.lock(fh, exclusive=False), GRANTED_OK, 'a shared lock')
        equal(first.lock(fh, **GRANT_ME), BLOCKED, 'an exclusive one waits')
        equal(second.lock(fh, exclusive=False, **GRANT_ME), BLOCKED, 'a shared one behind it')
        equal(third.lock(fh, 0, 5, exclusive=False), GRANTED_OK, 'without waiting it is had')
        equal(third.unlock(fh), GRANTED_OK, 'UNLOCK')
        equal(holder.unlock(fh), GRANTED_OK, 'UNLOCK')
        first.called(GRANTED)
        second.not_called()
        equal(first.unlock(fh), GRANTED_OK, 'UNLOCK')
        second.called(GRANTED)


def one_that_is_deaf_delays_nobody():
    """And a lock manager that has UDP only is called over UDP."""
    with lock_server() as server:
        fh = file_of(server)
        holder = Machine(server, 2)
        deaf = [Machine(server, n) for n in range(10, 20)]
        good = Host(server, 3, tcp=False)
        for i, machine in enumerate((*deaf, good)):
            equal(holder.lock(fh, i, 1), GRANTED_OK, 'LOCK')
            equal(machine.lock(fh, i, 1, block=True), BLOCKED, 'LOCK that waits')
        equal(holder.unlock(fh), GRANTED_OK, 'UNLOCK')
        equal(good.called(GRANTED).tcp, False, 'GRANTED over TCP')


def a_client_may_poll_instead():
    """It cannot be called at all; asking again gives the lock, and the grant is not taken away."""
    with lock_server() as server:
        fh = file_of(server)
        a, b = Machine(server, 2), Machine(server, 3)
        equal(a.lock(fh), GRANTED_OK, 'LOCK')
        equal(b.lock(fh, **GRANT_ME), BLOCKED, 'LOCK that waits')
        equal(a.unlock(fh), GRANTED_OK, 'UNLOCK')
        equal(a.lock(fh), DENIED, 'it is for the waiter')
        equal(b.lock(fh, **GRANT_ME), GRANTED_OK, 'asked again')
        # It comes to life, and knows nothing of a lock it waits for.
        host = Host(server, 3, answers=(DENIED,))
        host.not_called(3)
        equal(a.lock(fh), DENIED, 'still held')
        equal(b.unlock(fh), GRANTED_OK, 'UNLOCK')
        equal(a.lock(fh), GRANTED_OK, 'free')


def a_client_that_says_no_has_nothing():
    with lock_server() as server:
        fh = file_of(server)
        a, b = Machine(server, 2), Host(server, 3, answers=(DENIED,))
        equal(a.lock(fh), GRANTED_OK, 'LOCK')
        equal(b.lock(fh, **GRANT_ME), BLOCKED, 'LOCK that waits')
        equal(a.unlock(fh), GRANTED_OK, 'UNLOCK')
        b.called(GRANTED)
        until(lambda: a.lock(fh) == GRANTED_OK, 'the lock is taken back')
        b.not_called()


def a_lost_answer_is_no_refusal():
    """The first answer is lost; the client has the lock, and does not know the second call."""
    with lock_server() as server:
        fh = file_of(server)
        a, b = Machine(server, 2), Host(server, 3, answers=(None, DENIED), udp=True)
        equal(a.lock(fh), GRANTED_OK, 'LOCK')
        equal(b.lock(fh, **GRANT_ME), BLOCKED, 'LOCK that waits')
        equal(a.unlock(fh), GRANTED_OK, 'UNLOCK')
        equal(b.called(GRANTED).xid, b.called(GRANTED).xid, 'xid of the retransmission')
        b.not_called()
        equal(a.lock(fh), DENIED, 'the lock is kept')
        equal(b.unlock(fh), GRANTED_OK, 'UNLOCK')
        equal(a.lock(fh), GRANTED_OK, 'free')


def a_deaf_client_is_told_when_it_hears():
    with lock_server() as server:
        fh = file_of(server)
        a, b = Machine(server, 2), Machine(server, 3, udp=True)
        equal(a.lock(fh), GRANTED_OK, 'LOCK')
        equal(b.lock(fh, **GRANT_ME), BLOCKED, 'LOCK that waits')
        equal(a.unlock(fh), GRANTED_OK, 'UNLOCK')
        time.sleep(1)
        host = Host(server, 3)
        host.called(GRANTED)
        equal(a.lock(fh), DENIED, 'it has the lock')


def grace_of_the_client_is_waited_for():
    with lock_server() as server:
        fh = file_of(server)
        a, b = Machine(server, 2), Host(server, 3, answers=(GRACE, GRANTED_OK))
        equal(a.lock(fh), GRANTED_OK, 'LOCK')
        equal(b.lock(fh, **GRANT_ME), BLOCKED, 'LOCK that waits')
        equal(a.unlock(fh), GRANTED_OK, 'UNLOCK')
        b.called(GRANTED)
        b.called(GRANTED)
        b.not_called()
        equal(a.lock(fh), DENIED, 'it has the lock')


def cancelling():
    with lock_server() as server:
        fh = file_of(server)
        a, b, c = Machine(server, 2), Host(server, 3), Machine(server, 4)
        equal(b.cancel(fh), DENIED, 'CANCEL of nothing')
        equal(a.lock(fh), GRANTED_OK, 'LOCK')
        equal(b.lock(fh, **GRANT_ME), BLOCKED, 'LOCK that waits')
        equal(b.cancel(fh, 1), DENIED, 'another range')
        equal(b.cancel(fh, exclusive=False), DENIED, 'another kind')
        equal(b.cancel(fh), GRANTED_OK, 'CANCEL')
        equal(a.unlock(fh), GRANTED_OK, 'UNLOCK')
        b.not_called()
        # The lock is granted and the client cannot be told of it: it does not want it any more.
        equal(a.lock(fh), GRANTED_OK, 'LOCK')
        equal(c.lock(fh, **GRANT_ME), BLOCKED, 'LOCK that waits')
        equal(a.unlock(fh), GRANTED_OK, 'UNLOCK')
        equal(a.lock(fh), DENIED, 'granted')
        equal(c.cancel(fh), GRANTED_OK, 'CANCEL of what was granted and not told')
        equal(a.lock(fh), GRANTED_OK, 'free')


def a_circle_of_waits_is_refused():
    with lock_server() as server:
        fh, other = file_of(server), file_of(server, 'g')
        a, b = Host(server, 2), Host(server, 3)
        equal(a.lock(fh) + b.lock(other), 0, 'LOCK')
        equal(a.lock(other, **GRANT_ME), BLOCKED, 'waits')
        equal(b.lock(fh, **GRANT_ME), DEADLCK, 'would wait for itself')
        equal(b.unlock(other), GRANTED_OK, 'UNLOCK')
        a.called(GRANTED)


# ---- programs on the server

def programs_on_the_server_are_met():
    with lock_server() as server:
        fh, path = file_of(server), path_of(server)
        a = Host(server, 2)
        local = LocalLock(path, True, 2, 3)
        check(local.taken, 'a program cannot lock the file')
        equal(a.lock(fh, 4, 1), DENIED, 'a program has it')
        seen = a.test(fh)
        equal((seen.status, seen.exclusive, seen.svid, seen.oh, seen.start, seen.length),
              (DENIED, True, local.pid, b'', 2, 3), 'the holder')
        equal(a.lock(fh, 0, 2), GRANTED_OK, 'beside it')
        check(local_would_block(path, False, 0, 1), 'a program gets what a client has')
        check(not local_would_block(path, True, 5, 1), 'a program does not get what is free')
        equal(a.lock(fh, **GRANT_ME), BLOCKED, 'a client waits for a program')
        a.not_called()
        local.close()
        a.called(GRANTED)
        check(local_would_block(path, False, 9, 1), 'a program gets what a client has')
        waits = subprocess.Popen([sys.executable, '-c', 'import fcntl, sys; '
                                  'fcntl.lockf(open(sys.argv[1], "r+b"), fcntl.LOCK_EX)', path])
        time.sleep(0.5)
        check(waits.poll() is None, 'a program does not wait')
        equal(a.unlock(fh), GRANTED_OK, 'UNLOCK')
        equal(waits.wait(locks.PATIENCE), 0, 'a program that waited')


# ---- _MSG

def results_come_as_calls():
    with lock_server() as server:
        fh = file_of(server)
        for vers, number, udp in ((1, 2, True), (3, 3, False), (4, 4, True)):
            a = Host(server, number, vers=vers, udp=udp)
            b = Machine(server, 9, vers=vers)
            send_only(a, LOCK_MSG, a.lockargs(fh, cookie=b'one'))
            call = a.called(LOCK_RES)
            equal((call.vers, call.tcp), (vers, not udp), 'version and transport')
            equal(call.res(), (b'one', GRANTED_OK), 'LOCK_RES')
            equal(b.lock(fh), DENIED, 'it holds')
            send_only(a, UNLOCK_MSG, a.unlockargs(fh, cookie=b'two'))
            equal(a.called(UNLOCK_RES).res(), (b'two', GRANTED_OK), 'UNLOCK_RES')
            equal(b.lock(fh), GRANTED_OK, 'it is free')
            send_only(a, TEST_MSG, a.testargs(fh))
            seen = a.testres(a.called(TEST_RES).args)
            equal((seen.status, seen.oh), (DENIED, b'1@machine9'), 'TEST_RES')
            send_only(a, LOCK_MSG, a.lockargs(fh, block=True))
            equal(a.called(LOCK_RES).res(), (b'cook', BLOCKED), 'LOCK_RES')
            send_only(a, CANCEL_MSG, a.cancargs(fh))
            equal(a.called(CANCEL_RES).res(), (b'cook', GRANTED_OK), 'CANCEL_RES')
            send_only(a, LOCK_MSG, a.lockargs(fh, block=True))
            a.called(LOCK_RES)
            equal(b.unlock(fh), GRANTED_OK, 'UNLOCK')
            told = a.called(GRANTED_MSG).lock_args()
            send_only(a, GRANTED_RES, opaque(told.cookie) + u32(GRANTED_OK))
            a.not_called()
            equal(b.lock(fh), DENIED, 'it holds')
            equal(a.unlock(fh), GRANTED_OK, 'UNLOCK')
            # We never wait for a lock of anybody.
            send_only(a, GRANTED_MSG, a.testargs(fh))
            equal(a.called(GRANTED_RES).res(), (b'cook', DENIED), 'GRANTED_RES')
            a.close(), b.close()


def a_refusal_comes_as_a_call():
    with lock_server() as server:
        fh = file_of(server)
        a, b, thief = Host(server, 2), Machine(server, 3), Machine(server, 4)
        equal(b.lock(fh), GRANTED_OK, 'LOCK')
        send_only(a, LOCK_MSG, a.lockargs(fh, block=True))
        a.called(LOCK_RES)
        equal(b.unlock(fh), GRANTED_OK, 'UNLOCK')
        told = a.called(GRANTED_MSG).lock_args()
        send_only(thief, GRANTED_RES, opaque(told.cookie) + u32(DENIED))
        equal(b.lock(fh), DENIED, 'only who was told may refuse')
        send_only(a, GRANTED_RES, opaque(told.cookie) + u32(DENIED))
        until(lambda: b.lock(fh) == GRANTED_OK, 'the lock is taken back')


def an_answer_that_was_lost_is_sent_again():
    with lock_server() as server:
        fh = file_of(server)
        a = Host(server, 2, udp=True)
        message = nfs.call_message(NLM, 4, LOCK_MSG, a.lockargs(fh))
        for _ in range(2):
            a.transport.exchange(message)
            equal(a.called(LOCK_RES).res(), (b'cook', GRANTED_OK), 'LOCK_RES')


def a_late_copy_changes_nothing():
    """The DRC: the copy of an old LOCK must not lock again."""
    with lock_server() as server:
        fh = file_of(server)
        a, b = Machine(server, 2, udp=True), Machine(server, 3)
        xid = nfs.next_xid()
        equal(a.lock(fh, xid=xid), GRANTED_OK, 'LOCK')
        equal(a.unlock(fh), GRANTED_OK, 'UNLOCK')
        equal(a.lock(fh, xid=xid), GRANTED_OK, 'the copy gets the old answer')
        equal(b.lock(fh), GRANTED_OK, 'and takes no lock')


# ---- shares

def shares_deny_each_other():
    with lock_server() as server:
        fh = file_of(server)
        for vers in (3, 4):
            a, b = Machine(server, 2, vers=vers), Machine(server, 3, vers=vers)
            for mode, access, theirs, their_access, stat in (
                    (0, 3, 0, 3, GRANTED_OK), (1, 3, 0, 1, DENIED), (2, 3, 0, 1, GRANTED_OK),
                    (2, 3, 0, 2, DENIED), (0, 1, 1, 0, DENIED), (0, 1, 2, 2, GRANTED_OK),
                    (3, 0, 3, 0, GRANTED_OK), (3, 0, 0, 1, DENIED)):
                equal(a.share(fh, mode, access), GRANTED_OK, 'SHARE')
                equal(b.share(fh, theirs, their_access), stat,
                      f'deny {theirs} access {their_access} beside deny {mode} access {access}')
                equal(b.lock(fh), GRANTED_OK, 'locks do not look at shares')
                equal(b.unlock(fh), GRANTED_OK, 'UNLOCK')
                equal(b.share(fh, 0, 0, proc=UNSHARE), GRANTED_OK, 'UNSHARE')
                equal(a.share(fh, 0, 0, proc=UNSHARE), GRANTED_OK, 'UNSHARE')
            equal(a.share(fh, 3, 3), GRANTED_OK, 'SHARE')
            equal(a.share(fh, 0, 1), GRANTED_OK, 'one\'s own is replaced')
            equal(b.share(fh, 0, 3), GRANTED_OK, 'nothing denies it')
            a.free_all(), b.free_all()


# ---- restarts of clients

def a_client_gives_up_all_it_has():
    with lock_server() as server:
        fh = file_of(server)
        a, b = Machine(server, 2), Machine(server, 3)
        equal(a.lock(fh, proc=NM_LOCK), GRANTED_OK, 'NM_LOCK')
        equal(a.share(fh, 3, 3), GRANTED_OK, 'SHARE')
        b.free_all(a.name)
        equal(b.lock(fh), DENIED, 'nobody speaks for another')
        a.free_all()
        equal(b.lock(fh) + b.share(fh, 3, 3), 0, 'all is free')


def a_restarted_client_loses_its_locks():
    with lock_server() as server:
        fh, other = file_of(server), file_of(server, 'g')
        a, b, c = Machine(server, 2, state=3), Host(server, 3), Machine(server, 4)
        equal(a.lock(fh) + c.lock(other), 0, 'LOCK')
        equal(b.lock(fh, **GRANT_ME), BLOCKED, 'LOCK that waits')
        d = Machine(server, 5)
        d.notify('nobody', 5)
        equal(d.lock(fh), DENIED, 'another address, and no such name')
        a.notify(state=5)
        b.called(GRANTED)
        equal(a.lock(other), DENIED, 'the locks of others stay')
        # The same notice again, after it has locked anew.
        equal(b.unlock(fh), GRANTED_OK, 'UNLOCK')
        equal(a.lock(fh, state=5), GRANTED_OK, 'LOCK in the new life')
        a.notify(state=5)
        a.notify(f'{a.name}.example', 5)
        equal(c.lock(fh), DENIED, 'the new lock stays')
        # A lock of the next life may come before its notice.
        equal(a.lock(fh, 0, 1, svid=2, state=7), DENIED, 'the old one is in the way')
        equal(a.lock(fh, 0, 1, state=7), GRANTED_OK, 'the owner of before has nothing any more')
        a.notify(state=7)
        equal(c.lock(fh, 1, 0), GRANTED_OK, 'what was locked in the old life is free')
        equal(c.lock(fh, 0, 1), DENIED, 'what was locked in the new one is not')


def names_of_one_address_are_told_apart():
    with lock_server() as server:
        fh, other = file_of(server), file_of(server, 'g')
        a, b = Machine(server, 2, name='one'), Machine(server, 2, name='two.example')
        c = Machine(server, 3)
        equal(a.lock(fh) + b.lock(other), 0, 'LOCK')
        a.notify('three', 5)
        equal([c.lock(fh), c.lock(other)], [DENIED, DENIED], 'neither of them')
        a.notify('TWO', 5)
        equal([c.lock(fh), c.lock(other)], [DENIED, GRANTED_OK], 'the second, and only that')
        # From another address, by its name: a machine with two.
        c.notify('one', 5)
        equal(c.lock(fh), GRANTED_OK, 'the first')


# ---- restarts of the server

def locks_are_given_back_after_a_crash():
    with lock_server('--grace', '8') as server:
        fh, other = file_of(server), file_of(server, 'g')
        a, b, stranger = Host(server, 2), Host(server, 3), Machine(server, 4)
        equal(a.lock(fh) + b.lock(other), 0, 'LOCK')
        a.calls.queue.clear()
        server.restart(nfs.signal.SIGKILL)
        started = time.monotonic()
        for host in (a, b):
            call = host.called(SM_NOTIFY, NSM)
            name, state = call.args.opaque(), call.args.u32()
            equal((name, state % 2), (os.uname().nodename.encode(), 1), 'SM_NOTIFY')
            host.close()
        a, b, stranger = (Machine(server, n) for n in (2, 3, 4))
        equal(a.lock(fh, reclaim=True), GRANTED_OK, 'a reclaim')
        equal(b.lock(fh, reclaim=True), DENIED, 'of what another has')
        equal(stranger.lock(other, reclaim=True), DENIED, 'by one who had nothing')
        in_time = time.monotonic() - started < 6
        if in_time:
            equal(stranger.lock(other), GRACE, 'LOCK in the grace period')
            equal(b.lock(other, block=True), GRACE, 'LOCK that waits')
            equal(stranger.test(other).status, GRACE, 'TEST')
            equal(stranger.share(other, 0, 1), GRACE, 'SHARE')
            equal(a.unlock(fh, 5, 1), GRANTED_OK, 'UNLOCK is no problem')
        until(lambda: stranger.lock(other) == GRANTED_OK, 'the grace period ends')
        check(not in_time or time.monotonic() - started >= 7, 'it ended too early')
        equal(b.lock(other, reclaim=True), GRACE, 'a reclaim that is too late')
        equal(stranger.lock(fh, 0, 5), DENIED, 'what was given back is held')


def without_clients_there_is_no_grace_period():
    with lock_server() as server:
        fh = file_of(server)
        equal(Machine(server, 2).lock(fh, proc=NM_LOCK), GRANTED_OK, 'NM_LOCK')
        server.restart(nfs.signal.SIGKILL)
        equal(Machine(server, 3).lock(fh), GRANTED_OK, 'LOCK')
        files = os.listdir(os.path.join(server.state, 'sm'))
        equal(len(files), 1, 'machines on the list')
        with open(os.path.join(server.state, 'sm', files[0]), encoding='ascii') as file:
            equal(file.read(), '127.0.0.3\n127.0.0.1\nmachine3\n', 'the file of a machine')


def the_state_number_grows():
    with lock_server('--grace', '0') as server:
        seen = []
        for _ in range(3):
            reader = Machine(server, 2).rpc(locks.SM_STAT, opaque('x'), prog=NSM, vers=1)
            equal(reader.u32(), 1, 'names are not looked up for strangers')
            seen.append(reader.u32())
            server.restart()
        check(seen[0] < seen[1] < seen[2] and all(state % 2 for state in seen), f'states {seen}')


def names_on_the_list_may_be_anything():
    with lock_server('--grace', '30') as server:
        fh = file_of(server)
        names = ['../../etc/passwd', 'a\nb', '%00%', '\x7f\xff', 'x' * 1024, '']
        hosts = []
        for i, name in enumerate(names):
            hosts.append(Machine(server, 20 + i, name=name or None))
            hosts[-1].name = name.encode('latin-1')
            equal(hosts[-1].lock(fh, i, 1, oh=b'o'), GRANTED_OK, f'LOCK by {name[:20]!r}')
        server.restart(nfs.signal.SIGKILL)
        for i, host in enumerate(hosts):
            host.connect()
            equal(host.lock(fh, i, 1, oh=b'o', reclaim=True), GRANTED_OK, f'reclaim by {i}')


# ---- the status monitor for programs of this machine

def programs_of_this_machine_hear_of_restarts():
    with lock_server() as server, nfs.Local() as local:
        mine, far = nfs.Nfs(server.udp()), Machine(server, 2)
        program = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        program.bind(('127.0.0.1', 0))
        program.settimeout(locks.PATIENCE)
        port = program.getsockname()[1]
        done = nfs.Nfs(local).rpc(1, u32(0x20000001, 3) + opaque('udp')
                                  + opaque(f'127.0.0.1.{port >> 8}.{port & 255}') + opaque('root'),
                                  prog=nfs.PMAP, vers=3)
        check(done.bool(), 'the program is registered')
        my_id = opaque('me') + u32(0x20000001, 3, 24)

        def monitor(proc, args):
            return mine.rpc(proc, args, prog=NSM, vers=1).u32()

        equal(monitor(locks.SM_MON, opaque('no.such.name.invalid') + my_id + b'p' * 16), 1,
              'SM_MON of a name that means nothing')
        equal(monitor(locks.SM_MON, opaque(far.address) + my_id + b'p' * 16), 0, 'SM_MON')
        far.notify('whoever', 9)
        message, source = program.recvfrom(65536)
        call = locks.Call(message, False)
        equal((call.prog, call.vers, call.proc), (0x20000001, 3, 24), 'who is called')
        equal((call.args.opaque(), call.args.u32(), call.args.take(16)),
              (far.address.encode(), 9, b'p' * 16), 'mon_name, state and priv')
        program.sendto(u32(call.xid, 1, 0, 0, 0, 0), source)
        check(monitor(locks.SM_UNMON, opaque(far.address) + my_id) % 2 == 1, 'SM_UNMON')
        far.notify('whoever', 11)
        program.settimeout(0.5)
        try:
            program.recv(65536)
            check(False, 'called after SM_UNMON')
        except socket.timeout:
            program.close()


def a_feigned_crash_looks_like_one():
    with lock_server('--grace', '20') as server:
        fh = file_of(server)
        a, b = Host(server, 2), Machine(server, 3)
        equal(a.lock(fh), GRANTED_OK, 'LOCK')
        nfs.Nfs(server.udp()).rpc(locks.SM_SIMU_CRASH, b'', prog=NSM, vers=1).end()
        a.called(SM_NOTIFY, NSM)
        equal(b.lock(fh), GRACE, 'LOCK in the grace period')
        equal(a.lock(fh, reclaim=True), GRANTED_OK, 'a reclaim')


# ---- the end of an export

def locks_end_with_their_export():
    server = lock_server('--exports', '@exports')
    server.directories = []
    exports = os.path.join(server.work, 'exports')
    server.arguments[server.arguments.index('@exports')] = exports
    line = locks.EVERYONE.replace('@work', server.work) + '\n'

    def export(text):
        with open(exports, 'w', encoding='ascii') as file:
            file.write(text)

    export(line)
    with server:
        fh, path = file_of(server), path_of(server)
        a, b = Machine(server, 2), Machine(server, 3)
        equal(a.lock(fh), GRANTED_OK, 'LOCK')
        equal(b.lock(fh, **GRANT_ME), BLOCKED, 'LOCK that waits')
        export('/srv 127.0.0.9(ro)\n' if os.path.isdir('/srv') else '/tmp 127.0.0.9(ro)\n')
        subprocess.run([server.binary, 'exports', 'reload', '--state', server.state], check=True)
        check(not local_would_block(path), 'a program does not get what nobody has')
        check('locks of 1 files are gone' in server.messages(), server.messages())
        equal(a.unlock(fh), STALE_FH, 'UNLOCK')
        export(line)
        subprocess.run([server.binary, 'exports', 'reload', '--state', server.state], check=True)
        equal(a.lock(fh), GRANTED_OK, 'LOCK when it is back')


# ---- limits and noise

def limits_are_met_and_felt_by_one_only():
    with lock_server() as server:
        fhs = [file_of(server, f'file{i}') for i in range(32)]  # the kernel's lists are long enough
        a, b = Machine(server, 2), Machine(server, 3)
        stream, total, denied = nfs.Stream(a.transport.socket), 0, 0
        while denied == 0 and total < 40000:
            stream.send(b''.join(nfs.record(nfs.call_message(NLM, 4, locks.LOCK, a.lockargs(
                fhs[i % 32], 2 * (total + i), 1))) for i in range(512)))
            for _ in range(512):
                denied += stream.receive()[-4:] == u32(NOLOCKS)
            total += 512
        check(denied > 0, f'{total} locks, and no limit')
        equal(b.lock(fhs[0], 1, 1), GRANTED_OK, 'another machine is not touched by it')
        equal(a.unlock(fhs[0]), GRANTED_OK, 'all can be given back')
        equal(a.lock(fhs[1], 3, 1), GRANTED_OK, 'and there is room again')


def one_address_has_so_many_names():
    with lock_server() as server:
        fh = file_of(server)
        for i in range(100):
            crowd = Machine(server, 9, name=f'name{i}')
            stat = crowd.lock(fh, 1000 + i, 1)
            crowd.close()
            if stat != GRANTED_OK:
                break
        equal((stat, i), (NOLOCKS, 64), 'names of one address')


def noise_is_survived():
    with lock_server() as server:
        fh = file_of(server)
        a = Machine(server, 2)
        for vers in (1, 3, 4):
            for proc in range(0, 25):
                for size in (0, 4, 40, 400):
                    message = nfs.call_message(NLM, vers, proc, os.urandom(size))
                    a.transport.exchange(message)
        for proc in range(0, 8):
            if proc != locks.SM_SIMU_CRASH:
                a.transport.exchange(nfs.call_message(NSM, 1, proc, os.urandom(40)))
        server.alive()
        equal(a.lock(fh), GRANTED_OK, 'LOCK')


if __name__ == '__main__':
    nfs.have_own_network()
    nfs.run([value for name, value in list(globals().items())
             if callable(value) and getattr(value, '__module__', '') == '__main__'
             and value.__code__.co_argcount == 0])
