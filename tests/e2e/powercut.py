#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The steps of powercut.sh:

    powercut.py work EXPORT HISTORY DEVICE...  clients work, each answer is marked in the logs
    powercut.py cut HISTORY LOG CUT IMAGE PIECE
                                               what is on the disk when the power fails at cut CUT;
                                               PIECE bytes are written whole, or not at all
    powercut.py again LOG CUT IMAGE            and if it then fails once more, in what LOG recorded
    powercut.py check HISTORY CUT EXPORT       is everything there that was acknowledged by then?

CUT is the seed of the moment and of what survives. The log's format: Linux,
drivers/md/dm-log-writes.c.

Three things about moments. The marks of one acknowledgement in the logs of two disks are not one
moment: the log of the intent log's disk is marked first, and no client goes on until both are. So
what the file system's image has of the time between is what a call that nobody has an answer for
may have done; the other way round, the intent log could say that something was synced which the
file system's image has not. Writes stand in a log where the flush is that made them durable, not
where they were made: those that stand behind the mark, up to the next flush, may have been made
before it, or after it by calls that came later, perhaps several of each client. Such calls change
no names, since the file systems flush before they write their metadata, but data; so of the files
that they wrote, the data is not looked at. A call that is marked was answered before.
"""
import fcntl
import json
import os
import random
import struct
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import acked  # noqa: E402

WORKERS, OPERATIONS = 3, 130
SEED = os.environ.get("HOLDFAST_SEED", "1")
FLUSH, FUA, DISCARD, MARK = 1, 2, 4, 8
MAGIC = 0x6A736677736872
PIECE = 4096


class Marker:
    """Writes a mark into the log: the ioctl DM_TARGET_MSG of <linux/dm-ioctl.h>."""

    HEAD = struct.Struct("<3I I I I i I I I Q 128s 129s 7s")

    def __init__(self, device):
        self.control = os.open("/dev/mapper/control", os.O_RDWR)
        self.device = device.encode()

    def __call__(self, text):
        message = struct.pack("<Q", 0) + b"mark " + text.encode() + b"\0"
        size = self.HEAD.size + len(message)
        head = self.HEAD.pack(4, 0, 0, size, self.HEAD.size, 0, 0, 0, 0, 0, 0, self.device, b"",
                              b"")
        request = 0xC0000000 | self.HEAD.size << 16 | 0xFD << 8 | 14
        fcntl.ioctl(self.control, request, bytearray(head + message))


def work(export, history, *devices):
    markers = [Marker(device) for device in devices]  # in the order in which they are marked
    moment = threading.Lock()

    def mark(text):
        with moment:
            for marker in markers:
                marker(text)

    workers = [acked.Worker(i, export, SEED, OPERATIONS, lambda op: mark(f"op{op['id']}"))
               for i in range(WORKERS)]
    mark("begin")
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        if worker.error or worker.pending:
            sys.exit(f"an operation failed: {worker.error or worker.pending}")
    with open(history, "w", encoding="ascii") as file:
        json.dump({w.dir_name(): w.done for w in workers}, file)
    print(f"{sum(len(w.done) for w in workers)} acknowledged")


def entries(path):
    """(flags, byte offset, data) of each entry of the log."""
    with open(path, "rb") as log:
        magic, version, count, sector_bytes = struct.unpack("<QQQI", log.read(28))
        assert (magic, version) == (MAGIC, 1)
        log.seek(sector_bytes)
        for _ in range(count):
            sector, sectors, flags, size = struct.unpack("<QQQQ", log.read(32))
            log.seek(sector_bytes - 32, os.SEEK_CUR)
            if flags & MARK:
                yield flags, 0, os.pread(log.fileno(), size, log.tell() - sector_bytes + 32)
            else:
                data = b"" if flags & DISCARD else log.read(sectors * sector_bytes)
                yield flags, sector * sector_bytes, data


def mark_at(history, seed):
    """The mark at which the power fails: some operation of some worker."""
    r = random.Random(f"cut {SEED}/{seed}")
    done = [op["id"] for ops in history.values() for op in ops]
    return f"op{r.choice(done)}", r


def put(disk, log, r, is_cut, piece=PIECE):
    """Writes what was recorded until is_cut says so; from there on nothing was flushed, and each
    piece may have reached the disk, up to the next flush. Of a write that is a flush of its own
    (FUA) some may have reached it, too. Returns whether there was a cut."""
    keep = r.choice((0, 0, 0.3, 0.7, 1))
    passed = False
    for flags, offset, data in entries(log):
        passed = passed or is_cut(flags, data)
        if flags & MARK:
            continue
        if not passed:
            disk.seek(offset)
            disk.write(data)
            continue
        if flags & FLUSH:
            break
        for at in range(0, len(data), piece):
            if r.random() < keep:
                disk.seek(offset + at)
                disk.write(data[at:at + piece])
        if flags & FUA:
            break
    disk.flush()
    os.fsync(disk.fileno())
    return passed


def cut(history, log, seed, image, piece):
    mark, r = mark_at(history, seed)
    with open(image, "r+b") as disk:
        blank(disk)
        passed = put(disk, log, r,
                     lambda flags, data: flags & MARK and data.rstrip(b"\0").decode() == mark,
                     int(piece))
    assert passed, f"mark {mark} is not in the log"


def again(log, seed, image):
    """The image is what the log began with."""
    r = random.Random(f"again {SEED}/{seed}")
    last, seen = r.randrange(sum(1 for _ in entries(log)) + 1), 0

    def is_cut(_flags, _data):
        nonlocal seen
        seen += 1
        return seen > last

    with open(image, "r+b") as disk:
        put(disk, log, r, is_cut)
    print(f"the power failed again, at write {last}")


def blank(disk):
    size = disk.seek(0, os.SEEK_END)
    disk.seek(0)
    for _ in range(size >> 20):
        disk.write(bytes(1 << 20))


def answered_by(log, mark):
    """What was answered by then, and by the next flush (see above)."""
    answered, later = set(), set()
    for flags, _, data in entries(log):
        if flags & MARK:
            (later if mark in answered else answered).add(data.rstrip(b"\0").decode())
        elif flags & (FLUSH | FUA) and mark in answered:
            break
    return answered, later


def check(history, seed, export, log="/dev/ubdb"):
    mark, _ = mark_at(history, seed)
    answered, later = answered_by(log, mark)
    lines, count = [], 0
    for name, ops in history.items():
        done = [op for op in ops if f"op{op['id']}" in answered]
        begun = len([op for op in ops if f"op{op['id']}" in later]) + 1
        count += len(done)
        lines += acked.lost(done, ops[len(done):len(done) + begun], os.path.join(export, name))
    print(f"cut {seed} at {mark}: {count} acknowledged, {len(lines)} lost")
    for line in lines[:5]:
        print(" ", line)
    return 1 if lines else 0


def main():
    step, *args = sys.argv[1:]
    if step == "work":
        return work(*args)
    if step == "again":
        return again(*args)
    with open(args[0], encoding="ascii") as file:
        history = json.load(file)
    if step == "cut":
        return cut(history, *args[1:])
    return check(history, *args[1:])


if __name__ == "__main__":
    sys.exit(main())
