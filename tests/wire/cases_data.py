#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""READ, WRITE and COMMIT (RFC 1813 §3.3.6, §3.3.7, §3.3.21): what is stored is what was carried,
what is returned is what is there, and verifiers say what they must."""
import os
import random
import threading
import time

import nfs
from nfs import DATA_SYNC, FILE_SYNC, UNSTABLE, Nfs, check, equal, opaque, u32, u64


def path_of(server, case, name='file'):
    return os.path.join(server.export, case.__name__, name)


def a_count_that_is_not_the_size_stores_nothing(server, client, fh):
    """P04: never bytes that the request did not carry."""
    file = client.new_file(fh, 'file', b'original')
    for count, data in ((4096, b'abc'), (4, b'abc'), (2, b'abc'), (1, b'abcdef'), (0, b'abc'),
                        (5, b''), (0xffffffff, b''), (0xffffffff, b'abcd'), (0x80000000, b'x')):
        for stable in (UNSTABLE, DATA_SYNC, FILE_SYNC):
            done = client.write(file, 0, data, stable, count=count)
            check(done.status == nfs.INVAL or done.status == nfs.OK and done.count <= len(data),
                  f'count {count} with {len(data)} bytes: status {done.status}')
    with open(path_of(server, a_count_that_is_not_the_size_stores_nothing), 'rb') as stored:
        equal(stored.read(), b'original', 'contents')


def nothing_is_a_success(server, client, fh):
    """P04: zero bytes, read or written, anywhere; and it spins nobody's thread."""
    file = client.new_file(fh, 'file', b'12345')
    for offset, eof in ((0, False), (4, False), (5, True), (6, True), (1 << 62, True),
                        (1 << 63, True), ((1 << 64) - 1, True)):
        read = client.read(file, offset, 0)
        equal((read.status, read.count, read.eof), (nfs.OK, 0, eof), f'READ of 0 at {offset:#x}')
    for stable in (UNSTABLE, FILE_SYNC):
        done = client.write(file, 3, b'', stable)
        equal((done.status, done.count), (nfs.OK, 0), 'WRITE of nothing')
        equal(client.write(file, 1000, b'', stable).status, nfs.OK, 'WRITE of nothing past the end')
    equal(client.getattr(file).attr.size, 5, 'size')
    before = server.cpu_seconds()
    time.sleep(0.5)
    check(server.cpu_seconds() - before < 0.2, 'the idle server uses the processor')


def count_and_eof(server, client, fh):
    """P22: the size of data is count, and eof is true when the end was reached."""
    file = client.new_file(fh, 'file', bytes(range(139)))
    empty = client.new_file(fh, 'empty')
    for node, offset, asked, count, eof in (
            (file, 0, 512, 139, True), (file, 0, 139, 139, True), (file, 0, 138, 138, False),
            (file, 1, 138, 138, True), (file, 138, 1, 1, True), (file, 139, 1, 0, True),
            (file, 140, 1, 0, True), (file, 1 << 40, 1, 0, True), (file, (1 << 63) - 1, 1, 0, True),
            (file, (1 << 64) - 1, 0xffffffff, 0, True), (empty, 0, 1, 0, True),
            (empty, 0, 0, 0, True), (empty, 1, 1, 0, True)):
        for transport in (client.transport, server.udp()):
            read = Nfs(transport).read(node, offset, asked)
            equal((read.status, read.count, read.eof), (nfs.OK, count, eof),
                  f'READ({offset:#x}, {asked})')
            check(read.data == bytes(range(139))[offset:offset + count] or count == 0, 'data')
    check(client.read(fh, 0, 1).status in (nfs.ISDIR, nfs.INVAL), 'READ of a directory')


def reads_of_every_size(server, client, fh):
    """Across the boundaries between copied, sent from the file, and cut: odd sizes, odd offsets."""
    rng = random.Random(4)
    data = rng.randbytes(3 * (1 << 20) + 12345)
    file = client.new_file(fh, 'file')
    with open(path_of(server, reads_of_every_size), 'wb') as out:
        out.write(data)
    sizes = {1, 2, 3, 4, 5, 7, 8}
    for edge in (1 << 9, 1 << 12, 1 << 13, 1 << 14, 1 << 15, 1 << 16, 1 << 17, 1 << 20):
        sizes |= {edge - 4, edge - 1, edge, edge + 1, edge + 4}
    for size in sorted(sizes):
        for offset in (0, 1, 4095, 4096, 1 << 20, len(data) - size, len(data) - size + 1,
                       len(data) - 1, rng.randrange(len(data))):
            read = client.read(file, offset, size)
            right = data[offset:offset + min(size, 1 << 20)]
            check(read.data == right, f'READ({offset}, {size}) gives something else: '
                  f'{read.count} of {len(right)} bytes')
            equal(read.eof, offset + len(right) == len(data), f'eof of READ({offset}, {size})')
    whole = b''
    while not whole or not read.eof:
        read = client.read(file, len(whole), 0xffffffff)
        whole += read.data
    check(whole == data, 'the file read with the largest count')


def reads_of_every_size_in_flight_together(server, client, fh):
    rng = random.Random(6)
    data = rng.randbytes(2 << 20)
    file = client.new_file(fh, 'file')
    with open(path_of(server, reads_of_every_size_in_flight_together), 'wb') as out:
        out.write(data)
    asked, stream = {}, b''
    for _ in range(300):
        offset = rng.randrange(len(data))
        size = rng.choice((1, 100, 4096, 16383, 16384, 20000, 65536, 300000))
        call = nfs.call_message(nfs.NFS, 3, nfs.READ, opaque(file) + u64(offset) + u32(size))
        asked[call[:4]] = (offset, size)
        stream += nfs.record(call)
    with server.tcp() as connection:
        connection.send(stream)
        for _ in range(300):
            message = connection.receive()
            offset, size = asked.pop(message[:4])
            reader = nfs.Reply(message).body
            equal(reader.u32(), nfs.OK, 'status')
            nfs.post_op_attr(reader)
            count, _, seen = reader.u32(), reader.bool(), reader.opaque()
            reader.end()
            check(count == len(seen) and seen == data[offset:offset + size],
                  f'READ({offset}, {size}) gives something else')


def writes_of_every_size(server, client, fh):
    rng = random.Random(7)
    model = bytearray()
    file = client.new_file(fh, 'file')
    for i in range(120):
        size = rng.choice((1, 3, 4096, 4097, 65535, 65536, 500001, 1 << 20))
        offset = rng.choice((0, len(model), rng.randrange(len(model) + 5000)))
        data = rng.randbytes(size)
        done = client.write(file, offset, data, i % 3)
        equal((done.status, done.count), (nfs.OK, size), f'WRITE({offset}, {size})')
        check(done.committed >= i % 3, f'committed {done.committed}, asked for {i % 3}')
        if len(model) < offset + size:
            model += bytes(offset + size - len(model))
        model[offset:offset + size] = data
        equal(done.wcc.after.size, len(model), 'size in wcc_data')
    with open(path_of(server, writes_of_every_size), 'rb') as stored:
        check(stored.read() == bytes(model), 'the contents are not what was written')


def far_offsets(server, client, fh):
    file = client.new_file(fh, 'file')
    for offset in ((1 << 32) - 9, (1 << 32) + 1, (1 << 40) + 7):
        equal(client.write(file, offset, b'far').status, nfs.OK, f'WRITE at {offset:#x}')
        equal(client.read(file, offset - 2, 10).data, b'\0\0far', f'READ at {offset:#x}')
        equal(client.getattr(file).attr.size, offset + 3, 'size')
    for offset in ((1 << 63) - 1, 1 << 63, (1 << 64) - 1, (1 << 63) - 2):
        status = client.write(file, offset, b'xyz').status
        check(status in (nfs.FBIG, nfs.INVAL), f'WRITE at {offset:#x}: {status}')
    equal(client.getattr(file).attr.size, (1 << 40) + 10, 'size after what was refused')


def a_write_larger_than_wtmax_is_refused(server, client, fh):
    file = client.new_file(fh, 'file')
    limit = client.fsinfo(fh).wtmax
    equal(client.write(file, 0, b'a' * limit).status, nfs.OK, 'WRITE of wtmax')
    call = nfs.call_message(nfs.NFS, 3, nfs.WRITE, opaque(file) + u64(0)
                            + u32(limit + 4, UNSTABLE) + opaque(b'b' * (limit + 4)))
    with server.tcp() as connection:
        reply = nfs.Reply(connection.exchange(call))
        check(reply.accept_stat == nfs.GARBAGE_ARGS or reply.body.u32() != nfs.OK, 'it was taken')
    equal(client.read(file, 0, 4).data, b'aaaa', 'contents')


def one_verifier_for_everything(server, client, fh):
    """P18: all files, connections and transports; another one after a restart."""
    verfs = set()
    clients = [server.nfs() for _ in range(4)] + [server.nfs(udp=True)]
    files = [client.new_file(fh, f'file{i}') for i in range(3)]
    for i in range(20):
        for file in files:
            done = clients[i % 5].write(file, i * 10, b'0123456789')
            verfs.add(done.verf)
    for i, file in enumerate(files):
        verfs.add(clients[i].commit(file).verf)
        verfs.add(clients[i + 1].commit(file, 5, 7).verf)
        verfs.add(clients[i].commit(file, 1 << 62, 0xffffffff).verf)
    equal(len(verfs), 1, 'different verifiers')
    for _ in range(3):
        server.restart()
        verfs.add(server.nfs().commit(files[0]).verf)
    equal(len(verfs), 4, 'different verifiers after three restarts')


def a_read_only_file_can_be_written_by_its_owner(server, client, fh):
    """§4.4: a client that opened it before the chmod goes on; rights were checked at open."""
    client.setattr(fh, mode=0o777)
    user = Nfs(client.transport, nfs.auth_sys(1000, 1000))
    other = Nfs(client.transport, nfs.auth_sys(1001, 1001))
    file = user.new_file(fh, 'file', b'data', mode=0o400)
    equal(user.write(file, 0, b'x').status, nfs.OK, 'WRITE by the owner of a file with mode 0400')
    equal(user.read(file, 0, 4).data, b'xata', 'READ')
    equal(user.setattr(file, mode=0).status, nfs.OK, 'chmod 0')
    equal(user.read(file, 0, 4).data, b'xata', 'READ by the owner of a file with mode 0')
    equal(other.read(file, 0, 4).status, nfs.ACCES, 'READ by another')
    equal(other.write(file, 0, b'y').status, nfs.ACCES, 'WRITE by another')
    equal(user.setattr(file, mode=0o111).status, nfs.OK, 'chmod 0111')
    equal(other.read(file, 0, 4).data, b'xata', 'READ of a program that may be run (§4.4)')


def truncated_while_it_is_read(server, client, fh):
    """The length of a reply is fixed before its data is sent: the stream stays in step."""
    file = client.new_file(fh, 'file')
    path = path_of(server, truncated_while_it_is_read)
    stop = threading.Event()

    def truncate():
        while not stop.is_set():
            with open(path, 'r+b') as out:
                out.truncate(0)
                out.truncate(1 << 20)

    thread = threading.Thread(target=truncate)
    thread.start()
    try:
        reader = server.nfs()
        for _ in range(200):
            try:
                read = reader.read(file, 0, 1 << 20)
                check(read.status == nfs.OK and not any(read.data), 'something but zeros was read')
            except (EOFError, ConnectionError):
                reader = server.nfs()  # closing is the other honest way
    finally:
        stop.set()
        thread.join()


def many_writers_of_one_file(server, client, fh):
    file = client.new_file(fh, 'file')
    failures = []

    def write(number):
        try:
            writer = server.nfs()
            for i in range(50):
                at = (i * 8 + number) * 1000
                done = writer.write(file, at, bytes([65 + number]) * 1000, i % 3)
                equal(done.count, 1000, 'count')
            equal(writer.commit(file).status, nfs.OK, 'COMMIT')
        except Exception as error:  # reported by the main thread
            failures.append(error)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check(not failures, f'{failures[:1]}')
    with open(path_of(server, many_writers_of_one_file), 'rb') as stored:
        right = b''.join(bytes([65 + n]) * 1000 for n in range(8)) * 50
        check(stored.read() == right, 'the writes are mixed up')


if __name__ == '__main__':
    nfs.run([
        a_count_that_is_not_the_size_stores_nothing,
        nothing_is_a_success,
        count_and_eof,
        reads_of_every_size,
        reads_of_every_size_in_flight_together,
        writes_of_every_size,
        far_offsets,
        a_write_larger_than_wtmax_is_refused,
        one_verifier_for_everything,
        a_read_only_file_can_be_written_by_its_owner,
        truncated_while_it_is_read,
        many_writers_of_one_file,
    ])
