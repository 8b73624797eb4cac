#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The steps of powercut.sh:

    powercut.py work EXPORT HISTORY DEVICE...  clients work, each answer is marked in the logs
    powercut.py cut HISTORY LOG CUT IMAGE      what is on the disk when the power fails at cut CUT
    powercut.py again LOG CUT IMAGE            and if it then fails once more, in what LOG recorded
    powercut.py check HISTORY CUT EXPORT       is everything there that was acknowledged by then?

CUT is the seed of the moment and of what survives. The log's format: Linux,
drivers/md/dm-log-writes.c.
"""
import fcntl
import json
import os
import random
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import acked  # noqa: E402

WORKERS, OPERATIONS, SEED = 3, 130, 1
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
    markers = [Marker(device) for device in devices]

    def mark(text):
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
    r = random.Random(f"cut {seed}")
    done = [op["id"] for ops in history.values() for op in ops]
    return f"op{r.choice(done)}", r


def put(disk, log, r, is_cut):
    """Writes what was recorded until is_cut says so; from there on nothing was flushed, and each
    piece may have reached the disk, up to the next flush. Returns whether there was a cut."""
    keep = r.choice((0, 0, 0.3, 0.7))
    passed = False
    for flags, offset, data in entries(log):
        passed = passed or is_cut(flags, data)
        if flags & MARK:
            continue
        if not passed:
            disk.seek(offset)
            disk.write(data)
            continue
        if flags & (FLUSH | FUA):
            break
        for at in range(0, len(data), PIECE):
            if r.random() < keep:
                disk.seek(offset + at)
                disk.write(data[at:at + PIECE])
    disk.flush()
    os.fsync(disk.fileno())
    return passed


def cut(history, log, seed, image):
    mark, r = mark_at(history, seed)
    with open(image, "r+b") as disk:
        blank(disk)
        passed = put(disk, log, r,
                     lambda flags, data: flags & MARK and data.rstrip(b"\0").decode() == mark)
    assert passed, f"mark {mark} is not in the log"


def again(log, seed, image):
    """The image is what the log began with."""
    r = random.Random(f"again {seed}")
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


def check(history, seed, export, log="/dev/ubdb"):
    mark, _ = mark_at(history, seed)
    answered = set()
    for flags, _, data in entries(log):
        if flags & MARK:
            answered.add(data.rstrip(b"\0").decode())
            if mark in answered:
                break
    lines, count = [], 0
    for name, ops in history.items():
        done = [op for op in ops if f"op{op['id']}" in answered]
        count += len(done)
        rest = ops[len(done):]
        top = os.path.join(export, name)
        lines += acked.lost(done, rest[0] if rest else None, top)
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
