#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""udp_loss.py EXPORT: large and non-idempotent NFSv3 calls over UDP on a bad network.

Run by nfs3_udp_loss.sh in a guest, where EXPORT is also the directory on the server.
"""
import os
import random
import select
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "wire"))
import nfs  # noqa: E402
from nfs import opaque, sattr, u32  # noqa: E402

BLOCK = 32768
BLOCK_COUNT = 100
CHANGE_COUNT = 150


class Retransmitting(nfs.Udp):
    """Sends the same bytes again after a time that doubles, as an NFS client does over UDP."""

    FIRST_TIMEOUT_S, DOUBLINGS_MAX, TRANSMISSIONS_MAX = 0.1, 4, 40

    def __init__(self):
        super().__init__(2049)
        self.calls = self.retransmissions = self.late = 0

    def exchange(self, message):
        self.calls += 1
        for attempt in range(self.TRANSMISSIONS_MAX):
            self.retransmissions += attempt > 0
            self.send(message)
            end = time.monotonic() + self.FIRST_TIMEOUT_S * 2 ** min(attempt, self.DOUBLINGS_MAX)
            while (left := end - time.monotonic()) > 0:
                if select.select([self.socket], [], [], left)[0]:
                    reply = self.receive()
                    if reply[:4] == message[:4]:
                        return reply
                    self.late += 1
        raise nfs.Failure(f"no reply to {self.TRANSMISSIONS_MAX} transmissions")


def ok(result):
    nfs.equal(result.status, nfs.OK, "status")
    return result


def data_is_right(client, root, here):
    """Writes and reads of 32 KiB, in random order: what arrives is what was sent."""
    r = random.Random(768)
    blocks = [r.randbytes(BLOCK) for _ in range(BLOCK_COUNT)]
    fh = ok(client.create(root, "data")).fh
    order = list(range(BLOCK_COUNT))
    r.shuffle(order)
    for i in order:
        stable = r.choice((nfs.UNSTABLE, nfs.FILE_SYNC))
        written = ok(client.write(fh, i * BLOCK, blocks[i], stable))
        nfs.equal(written.count, BLOCK, "count of WRITE")
        nfs.check(written.committed >= stable, f"asked for {stable}, got {written.committed}")
    ok(client.commit(fh))
    with open(os.path.join(here, "data"), "rb") as file:
        nfs.check(file.read() == b"".join(blocks), "the server's file is not what was written")
    r.shuffle(order)
    for i in order + order:
        read = ok(client.read(fh, i * BLOCK, BLOCK))
        nfs.check(read.data == blocks[i], f"block {i} is wrong")
        nfs.equal(read.eof, i == BLOCK_COUNT - 1, f"eof of block {i}")


def changes_happen_once(client, root, here):
    """Each change is right for its first transmission only: done twice, it would fail. RFC 1813
    §4.5: the server keeps recent replies for that."""
    for i in range(CHANGE_COUNT):
        name, other = f"name{i}", f"other{i}"
        fh = ok(client.create(root, name, nfs.GUARDED)).fh
        ok(client.rename(root, name, root, other))
        ok(client.link(fh, root, name))
        ok(client.remove(root, other))
        ok(client.mkdir(root, other))
        ok(client.rmdir(root, other))
        ok(client.remove(root, name))
    left = [name for name in os.listdir(here) if name.startswith(("name", "other"))]
    nfs.check(not left, f"not removed: {left}")


def same_bytes_same_reply(udp, root):
    """A retransmission gets the first answer, byte for byte; the call again under a new xid does
    not; other contents under an old xid are a new call."""

    def status(message):
        return nfs.Reply(udp.exchange(message)).body.u32()

    at = opaque(root) + opaque("again")
    for proc, args, first, anew in (
            (nfs.CREATE, at + u32(nfs.GUARDED) + sattr(mode=0o600), nfs.OK, nfs.EXIST),
            (nfs.RENAME, at + opaque(root) + opaque("new"), nfs.OK, nfs.NOENT),
            (nfs.MKDIR, at + sattr(mode=0o700), nfs.OK, nfs.EXIST),
            (nfs.RMDIR, at, nfs.OK, nfs.NOENT)):
        message = nfs.call_message(nfs.NFS, 3, proc, args)
        nfs.equal(status(message), first, f"procedure {proc}")
        reply = udp.exchange(message)
        for _ in range(3):
            nfs.equal(udp.exchange(message), reply, f"procedure {proc} sent again")
        nfs.equal(status(nfs.call_message(nfs.NFS, 3, proc, args)), anew, f"procedure {proc} anew")
    remove = nfs.call_message(nfs.NFS, 3, nfs.REMOVE, opaque(root) + opaque("new"), xid=7)
    nfs.equal(status(remove), nfs.OK, "REMOVE")
    make = nfs.call_message(nfs.NFS, 3, nfs.MKDIR, at + sattr(mode=0o700), xid=7)
    nfs.equal(status(make), nfs.OK, "MKDIR under the xid of the REMOVE")


def main():
    udp = Retransmitting()
    client = nfs.Nfs(udp)
    root = ok(client.mount(sys.argv[1])).fh
    for part in (lambda: data_is_right(client, root, sys.argv[1]),
                 lambda: changes_happen_once(client, root, sys.argv[1]),
                 lambda: same_bytes_same_reply(udp, root)):
        part()
        print(f"{udp.calls} calls, {udp.retransmissions} sent again, {udp.late} late replies")
    nfs.check(udp.retransmissions > 20, "the network lost nothing: this test tested nothing")


if __name__ == "__main__":
    main()
