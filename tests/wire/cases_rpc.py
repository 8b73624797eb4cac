#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""RPC (RFC 5531): records in any pieces, credentials of any length, versions, retransmissions, and
peers that mean no good or do not read."""
import os
import random
import socket
import struct
import threading
import time

import nfs
from nfs import Nfs, Reply, call_message, check, equal, opaque, record, u32, u64


def getattr_message(fh, **more):
    return call_message(nfs.NFS, 3, nfs.GETATTR, opaque(fh), **more)


def is_getattr_reply(message, call):
    reply = Reply(message)
    return (message[:4] == call[:4] and reply.accept_stat == nfs.SUCCESS
            and reply.body.u32() == nfs.OK)


def a_call_in_any_number_of_fragments(server):
    root = server.root()
    with server.tcp() as connection:
        for cuts in [(1, 4, 37), (0,), (0, 0, 0, 1), (4, 4, 4), tuple(range(1, 40))]:
            call = getattr_message(root)
            check(is_getattr_reply(connection.exchange(call, cuts), call), f'cut at {cuts}')
        call = getattr_message(root)
        check(is_getattr_reply(connection.exchange(call, (len(call),)), call),
              'the last fragment is empty')


def a_call_one_byte_per_segment(server):
    root = server.root()
    with server.tcp() as connection:
        call = getattr_message(root)
        for byte in record(call, (1, 4, 37)):
            connection.send(bytes([byte]))
            time.sleep(0.001)
        check(is_getattr_reply(connection.receive(), call), 'no good reply')


def calls_glued_and_cut_at_random(server):
    rng = random.Random(1)
    root = server.root()
    with server.tcp() as connection:
        calls = [getattr_message(root) for _ in range(200)]
        stream = b''.join(record(call, sorted(rng.sample(range(len(call)), rng.randrange(3))))
                          for call in calls)
        at = 0
        while at < len(stream):
            size = rng.choice((1, 3, 50, 1000, 5000))
            connection.send(stream[at:at + size])
            at += size
        waiting = {call[:4]: call for call in calls}
        for _ in calls:
            message = connection.receive()
            check(is_getattr_reply(message, waiting.pop(message[:4])), 'a reply is wrong')
        equal(waiting, {}, 'calls without a reply')


def too_many_empty_fragments_end_the_connection(server):
    with server.tcp() as connection:
        try:
            for _ in range(20):
                connection.send(bytes(4) * 10000)
        except ConnectionError:
            return
        check(connection.closed(), 'empty fragments for ever')


def host_names_of_every_length(server):
    """RFC 5531 appendix A: up to 255 bytes."""
    root = server.root()
    for transport in (server.tcp(), server.udp()):
        for size in (0, 1, 2, 3, 4, 16, 33, 42, 64, 254, 255):
            call = getattr_message(root, cred=nfs.auth_sys(host=b'h' * size))
            check(is_getattr_reply(transport.exchange(call), call), f'host name of {size} bytes')
        reply = Reply(transport.exchange(getattr_message(root, cred=nfs.auth_sys(host=b'h' * 256))))
        check(reply.denied and reply.auth_stat == 1, 'a host name of 256 bytes is no AUTH_BADCRED')
        call = getattr_message(root)
        check(is_getattr_reply(transport.exchange(call), call), 'the next call')
        transport.close()


def a_credential_that_contradicts_itself(server):
    """Inner lengths that leave the body, or do not fill it. Refused, and the connection kept."""
    root = server.root()
    inner = u32(0) + opaque(b'h' * 33) + u32(0, 0, 0)
    bad = {
        'its length leaves out padding': u32(1, 53) + inner,
        'a name longer than the body': u32(1) + opaque(u32(0, 200) + bytes(40)),
        'groups that are not there': u32(1) + opaque(u32(0, 0, 0, 0, 16) + bytes(8)),
        'seventeen groups': nfs.auth_sys(gids=range(17)),
        'an empty body': u32(1, 0),
        'a body that stops in the name': u32(1) + opaque(u32(0, 8) + b'half'),
    }
    for transport in (server.tcp(), server.udp()):
        for what, cred in bad.items():
            reply = Reply(transport.exchange(getattr_message(root, cred=cred)))
            check(reply.denied and reply.reject_stat == 1 or reply.accept_stat == 4,
                  f'{what}: neither AUTH_ERROR nor GARBAGE_ARGS')
            call = getattr_message(root)
            check(is_getattr_reply(transport.exchange(call), call), f'the call after: {what}')
        transport.close()


def flavors_that_are_not_served(server):
    root = server.root()
    with server.tcp() as connection:
        for flavor in (2, 3, 4, 6, 390003, 0xffffffff):
            reply = Reply(connection.exchange(getattr_message(root, cred=u32(flavor, 0))))
            check(reply.denied and reply.reject_stat == 1, f'flavor {flavor} is no AUTH_ERROR')
        call = getattr_message(root)
        check(is_getattr_reply(connection.exchange(call), call), 'the call after')


def null_needs_no_credentials(server):
    with server.tcp() as connection:
        for prog, vers in ((nfs.NFS, 3), (nfs.MOUNT, 1), (nfs.MOUNT, 3)):
            reply = Reply(connection.exchange(call_message(prog, vers, 0, cred=nfs.AUTH_NONE)))
            equal(reply.accept_stat, nfs.SUCCESS, f'NULL of {prog} version {vers}')


def versions_and_programs(server):
    """RFC 5531 §9: a client that knows newer versions must learn which ones there are."""
    for transport in (server.tcp(), server.udp()):
        for vers in (0, 1, 4, 5, 65535, 0xffffffff):
            reply = Reply(transport.exchange(call_message(nfs.NFS, vers, 0)))
            equal((reply.accept_stat, reply.low, reply.high), (nfs.PROG_MISMATCH, 2, 3),
                  f'NFS version {vers}')
        for vers in (0, 4, 5):
            reply = Reply(transport.exchange(call_message(nfs.MOUNT, vers, 0)))
            equal((reply.accept_stat, reply.low, reply.high), (nfs.PROG_MISMATCH, 1, 3),
                  f'MOUNT version {vers}')
        for prog in (100226, 0, 0xffffffff):
            equal(Reply(transport.exchange(call_message(prog, 3, 0))).accept_stat,
                  nfs.PROG_UNAVAIL, f'program {prog}')
        for proc in (22, 23, 0xffffffff):
            equal(Reply(transport.exchange(call_message(nfs.NFS, 3, proc))).accept_stat,
                  nfs.PROC_UNAVAIL, f'procedure {proc}')
        equal(Reply(transport.exchange(call_message(nfs.NFS, 2, 18))).accept_stat,
              nfs.PROC_UNAVAIL, 'procedure 18 of version 2')
        for rpcvers in (0, 1, 3, 0xffffffff):
            reply = Reply(transport.exchange(call_message(nfs.NFS, 3, 0, rpcvers=rpcvers)))
            equal((reply.denied, reply.reject_stat, reply.low, reply.high), (True, 0, 2, 2),
                  f'RPC version {rpcvers}')
        transport.close()


def every_procedure_survives_empty_and_random_arguments(server):
    """Well-formed heads, arguments from a die: one reply each, and it is for that call."""
    rng = random.Random(2)
    root = server.root()
    with server.tcp() as connection:
        for prog, vers, procs in ((nfs.NFS, 3, 22), (nfs.MOUNT, 1, 7), (nfs.MOUNT, 2, 8),
                                  (nfs.MOUNT, 3, 6)):
            for proc in range(procs):
                for size in (0, 1, 4, 7, 40, 200, 3000):
                    args = rng.randbytes(size)
                    if rng.random() < 0.5:
                        args = opaque(root) + args
                    call = call_message(prog, vers, proc, args)
                    message = connection.exchange(call)
                    equal(message[:4], call[:4], f'xid of the reply, procedure {proc}')


def a_call_cut_short_anywhere(server):
    """A message may end after any byte. Up to the arguments' end it is noise or GARBAGE_ARGS."""
    root = server.root()
    call = call_message(nfs.NFS, 3, nfs.LOOKUP, opaque(root) + opaque(b'name'))
    with server.udp() as socket_:
        for size in range(len(call)):
            socket_.send(call[:size])
        call = getattr_message(root)
        while True:
            message = socket_.exchange(call) if size else socket_.receive()
            size = 0
            if message[:4] == call[:4]:
                check(is_getattr_reply(message, call), 'the call after')
                break
            reply = Reply(message)
            check(reply.denied or reply.accept_stat == nfs.GARBAGE_ARGS,
                  f'a cut call was answered with {reply.accept_stat}')


# ---- retransmissions ---------------------------------------------------------------------------

def changing_calls(client, fh):
    """One call of each procedure that is not idempotent; each fails or differs when done twice."""
    file = client.new_file(fh, 'file', b'data')
    client.new_file(fh, 'gone')
    client.new_dir(fh, 'empty')
    ctime = client.getattr(file).attr.ctime
    empty = nfs.sattr()
    return {
        nfs.SETATTR: opaque(file) + nfs.sattr(mode=0o600) + u32(1, *ctime),
        nfs.CREATE: opaque(fh) + opaque('made') + u32(nfs.GUARDED) + empty,
        nfs.MKDIR: opaque(fh) + opaque('dir') + empty,
        nfs.SYMLINK: opaque(fh) + opaque('link') + empty + opaque('target'),
        nfs.MKNOD: opaque(fh) + opaque('fifo') + u32(7) + empty,
        nfs.REMOVE: opaque(fh) + opaque('gone'),
        nfs.RMDIR: opaque(fh) + opaque('empty'),
        nfs.RENAME: opaque(fh) + opaque('file') + opaque(fh) + opaque('moved'),
        nfs.LINK: opaque(file) + opaque(fh) + opaque('hard'),
    }


def a_datagram_sent_again_gets_the_same_reply(server, client, fh):
    with server.udp() as socket_:
        for proc, args in changing_calls(client, fh).items():
            call = call_message(nfs.NFS, 3, proc, args)
            first = socket_.exchange(call)
            equal(Reply(first).body.u32(), nfs.OK, f'procedure {proc}')
            equal(socket_.exchange(call).hex(), first.hex(), f'procedure {proc}, second reply')
            equal(socket_.exchange(call).hex(), first.hex(), f'procedure {proc}, third reply')
            anew = socket_.exchange(call_message(nfs.NFS, 3, proc, args))
            check(Reply(anew).body.u32() != nfs.OK, f'procedure {proc}: a new xid is a new call')


def a_call_sent_again_on_a_new_connection_gets_the_same_reply(server, client, fh):
    """As Linux does it: the old connection is reset, the new one comes from the same port.

    The address is this process's own: on 127.0.0.1 another test may hold or leave the same port.
    """
    address = f'127.{1 + (os.getpid() >> 16) % 254}.{os.getpid() >> 8 & 255}.{os.getpid() & 255}'
    for proc, args in changing_calls(client, fh).items():
        connection = server.tcp(source=(address, 0))
        source = connection.socket.getsockname()
        call = call_message(nfs.NFS, 3, proc, args)
        first = connection.exchange(call)
        equal(Reply(first).body.u32(), nfs.OK, f'procedure {proc}')
        connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        connection.close()
        with server.tcp(source=source) as connection:
            equal(connection.exchange(call).hex(), first.hex(), f'procedure {proc}, reply again')


def a_call_sent_again_on_the_same_connection_gets_the_same_reply(server, client, fh):
    with server.tcp() as connection:
        for proc, args in changing_calls(client, fh).items():
            call = call_message(nfs.NFS, 3, proc, args)
            first = connection.exchange(call)
            equal(Reply(first).body.u32(), nfs.OK, f'procedure {proc}')
            equal(connection.exchange(call).hex(), first.hex(), f'procedure {proc}, reply again')


def another_call_under_the_same_xid_is_another_call(server, client, fh):
    for transport in (server.udp(), server.tcp()):
        kind = type(transport).__name__
        for i in range(20):
            args = opaque(fh) + opaque(f'{kind}{i}') + u32(nfs.GUARDED) + nfs.sattr()
            reply = Reply(transport.exchange(call_message(nfs.NFS, 3, nfs.CREATE, args, xid=4711)))
            equal(reply.body.u32(), nfs.OK, f'{kind}: CREATE number {i}')
        transport.close()
    equal(len(client.walk(fh)), 2 + 40, 'entries')


def another_client_under_the_same_xid_is_another_call(server, client, fh):
    args = opaque(fh) + opaque('file') + u32(nfs.GUARDED) + nfs.sattr()
    call = call_message(nfs.NFS, 3, nfs.CREATE, args, xid=4712)
    with (server.udp(source=('127.0.0.2', 0)) as first,
          server.udp(source=('127.0.0.3', 0)) as second):
        equal(Reply(first.exchange(call)).body.u32(), nfs.OK, 'the first client')
        equal(Reply(second.exchange(call)).body.u32(), nfs.EXIST, 'the second client')


def copies_of_a_running_call_do_the_work_once(server, client, fh):
    with server.udp() as socket_:
        for i in range(50):
            args = opaque(fh) + opaque(f'file{i}') + u32(nfs.GUARDED) + nfs.sattr()
            call = call_message(nfs.NFS, 3, nfs.CREATE, args)
            for _ in range(5):
                socket_.send(call)
            first = socket_.receive()
            equal(Reply(first).body.u32(), nfs.OK, f'CREATE {i}')
            socket_.socket.settimeout(0.02)
            try:
                while True:
                    equal(socket_.receive().hex(), first.hex(), 'a copy of the reply')
            except socket.timeout:
                socket_.socket.settimeout(20)


# ---- peers that mean no good -------------------------------------------------------------------

def records_over_the_limit_cost_nothing(server):
    before = server.rss_kb()
    open_ = [server.tcp() for _ in range(50)]
    for connection in open_:
        connection.send(u32(0xffffffff) + bytes(100))
    for connection in open_:
        check(connection.closed(), 'a record of 2 GiB is waited for')
    huge = [server.tcp() for _ in range(50)]
    for connection in huge:
        connection.send(u32(0x80000000 | 3 << 20) + bytes(100))
    for connection in huge:
        check(connection.closed(), 'a record of 3 MiB is waited for')
    joined = server.tcp()
    try:
        for _ in range(40):
            joined.send(u32(65536) + bytes(65536))
    except ConnectionError:
        pass
    check(joined.closed(), 'fragments of 2.5 MiB together were taken')
    check(server.rss_kb() - before < 40000, f'memory went from {before} to {server.rss_kb()} kB')


def half_records_and_sudden_ends_leave_nothing(server):
    root = server.root()
    time.sleep(0.2)
    before = server.fd_count()
    call = record(getattr_message(root))
    for i in range(300):
        with server.tcp() as connection:
            connection.send(call[:i % len(call)])
            if i % 2:
                connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                             struct.pack('ii', 1, 0))
    deadline = time.monotonic() + 20
    after = server.fd_count()
    while after > before + 5 and time.monotonic() < deadline:  # the server opens a few by itself
        time.sleep(0.05)
        after = server.fd_count()
    check(after <= before + 5, f'{after} descriptors, {before} before')


def a_half_closed_connection_still_gets_its_replies(server):
    root = server.root()
    with server.tcp() as connection:
        calls = [getattr_message(root) for _ in range(50)]
        connection.send(b''.join(map(record, calls)))
        connection.socket.shutdown(socket.SHUT_WR)
        for _ in calls:
            equal(Reply(connection.receive()).accept_stat, nfs.SUCCESS, 'a reply')
        check(connection.closed(), 'the server keeps its half open')


def random_streams(server):
    rng = random.Random(3)
    for _ in range(150):
        with server.tcp() as connection:
            try:
                connection.send(rng.randbytes(rng.choice((1, 4, 5, 40, 400, 70000))))
            except ConnectionError:
                pass
    with server.udp() as socket_:
        for _ in range(500):
            socket_.send(rng.randbytes(rng.randrange(200)))
        socket_.send(rng.randbytes(65507))


def kernel_queue_bytes(port, peer_port):
    """What the server's end of a connection holds that was not acknowledged."""
    for family in ('tcp', 'tcp6'):
        with open(f'/proc/net/{family}', encoding='ascii') as lines:
            for line in list(lines)[1:]:
                _, local, remote, _, queues, *_ = line.split()
                if [int(end.split(':')[1], 16) for end in (local, remote)] == [port, peer_port]:
                    return int(queues.split(':')[0], 16)
    raise nfs.Failure('no such connection')


def a_client_that_does_not_read_stalls_nobody(server, client, fh):
    """It is no longer read, its replies do not fill the memory, and it gets them all in the end."""
    file = client.new_file(fh, 'file')
    for offset in range(0, 1 << 20, 1 << 18):
        equal(client.write(file, offset, bytes([offset >> 18]) * (1 << 18)).status, nfs.OK, 'WRITE')
    before = server.rss_kb()
    count = 400
    lazy = server.tcp()
    args = opaque(file) + u64(0) + u32(1 << 20)
    calls = b''.join(record(call_message(nfs.NFS, 3, nfs.READ, args)) for _ in range(count))
    sender = threading.Thread(target=lazy.send, args=(calls,))
    sender.start()
    time.sleep(0.5)
    slowest = 0
    for _ in range(200):
        started = time.monotonic()
        client.null()
        slowest = max(slowest, time.monotonic() - started)
    check(slowest < 1, f'another client waited {slowest:.2f} s')
    queued = kernel_queue_bytes(server.port, lazy.socket.getsockname()[1])
    check(0 < queued < 5 << 19, f'the kernel holds {queued} bytes for it')
    check(server.rss_kb() - before < 100000,
          f'{count} MiB that nobody reads took {server.rss_kb() - before} kB')
    for i in range(count):
        reply = Reply(lazy.receive())
        equal(reply.body.u32(), nfs.OK, f'READ {i}')
        equal(len(reply.message), 24 + 4 + 88 + 12 + (1 << 20), f'size of reply {i}')
    sender.join()
    lazy.close()


def replies_come_from_the_address_that_was_asked(server):
    """The sockets are connected: a reply from elsewhere would not be seen."""
    for host in ('127.0.0.1', '127.0.0.2', '127.9.8.7', '::1'):
        for transport in (server.udp(host=host), server.tcp(host=host)):
            Nfs(transport).null()
            transport.close()


def datagrams_in_fragments(server, client, fh):
    """Up to what IP carries, both ways."""
    file = client.new_file(fh, 'file')
    datagrams = server.nfs(udp=True)
    pattern = bytes(i * 7 & 255 for i in range(32768))
    written = datagrams.write(file, 0, pattern)
    equal((written.status, written.count), (nfs.OK, 32768), 'WRITE of 32 KiB')
    big = bytes(i * 13 & 255 for i in range(65000))
    written = datagrams.write(file, 40000, big)
    equal((written.status, written.count), (nfs.OK, 65000), 'WRITE of 65,000 bytes')
    read = datagrams.read(file, 0, 32768)
    check(read.data == pattern, 'READ of 32 KiB gives something else')
    read = datagrams.read(file, 40000, 1 << 20)
    check(0 < read.count <= 65379 and read.data == big[:read.count] and not
          (read.eof and read.count < 65000),
          f'READ of 1 MiB over UDP: {read.count} bytes, eof {read.eof}')


if __name__ == '__main__':
    nfs.run([
        a_call_in_any_number_of_fragments,
        a_call_one_byte_per_segment,
        calls_glued_and_cut_at_random,
        too_many_empty_fragments_end_the_connection,
        host_names_of_every_length,
        a_credential_that_contradicts_itself,
        flavors_that_are_not_served,
        null_needs_no_credentials,
        versions_and_programs,
        every_procedure_survives_empty_and_random_arguments,
        a_call_cut_short_anywhere,
        a_datagram_sent_again_gets_the_same_reply,
        a_call_sent_again_on_a_new_connection_gets_the_same_reply,
        a_call_sent_again_on_the_same_connection_gets_the_same_reply,
        another_call_under_the_same_xid_is_another_call,
        another_client_under_the_same_xid_is_another_call,
        copies_of_a_running_call_do_the_work_once,
        records_over_the_limit_cost_nothing,
        half_records_and_sudden_ends_leave_nothing,
        a_half_closed_connection_still_gets_its_replies,
        random_streams,
        a_client_that_does_not_read_stalls_nobody,
        replies_come_from_the_address_that_was_asked,
        datagrams_in_fragments,
    ], 'rw,sync,no_root_squash,insecure')
