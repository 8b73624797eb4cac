#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""tree.py COUNT TAR: a tarball of COUNT files that looks like a source tree, the same everywhere.

Directories up to five deep, most files of a few KiB and some of a few hundred, symbolic links
(dangling ones too), hard links, empty files, several modes and owners, times to the second.
"""
import io
import random
import sys
import tarfile

YEAR_2001 = 1_000_000_000


def member(r, name, mode):
    info = tarfile.TarInfo(name)
    info.mode = mode
    info.mtime = YEAR_2001 + r.randrange(500_000_000)
    info.uid = info.gid = r.choice((0, 0, 0, 1000, 1001))
    return info


def directories(r, count):
    names = ["src"]
    while len(names) < count:
        parent = r.choice(names)
        if parent.count("/") < 4:
            names.append(f"{parent}/dir{len(names)}")
    return names


def content(r):
    size = r.choice((0, 300, 1500, 4096, 5000, 5000, 9000, 9000, 20000))
    if r.random() < 0.005:
        size = 300_000
    words = b"".join(r.choice((b"int ", b"return ", b"\n    ", b"0x%x, " % r.randrange(1 << 32)))
                     for _ in range(200))
    return (words * (size // len(words) + 1))[:size]


def main():
    count, path = int(sys.argv[1]), sys.argv[2]
    r = random.Random(1813)
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as tar:
        dirs = directories(r, count // 15)
        for name in dirs:
            info = member(r, name, r.choice((0o755, 0o755, 0o775, 0o2755)))
            info.type = tarfile.DIRTYPE
            tar.addfile(info)
        files = []
        for i in range(count):
            name = f"{r.choice(dirs)}/file{i}{r.choice(('.c', '.h', '.txt', ' with space', ''))}"
            info = member(r, name, r.choice((0o644, 0o644, 0o600, 0o444, 0o755)))
            kind = r.random()
            if kind < 0.02:
                info.type = tarfile.SYMTYPE
                info.mode = 0o777
                info.linkname = r.choice(("../nothing", "/etc/passwd", "file" + "x" * 200))
                tar.addfile(info)
            elif kind < 0.03 and files:
                info = tar.getmember(r.choice(files))
                link = tarfile.TarInfo(name)
                link.type = tarfile.LNKTYPE
                link.linkname = info.name
                link.mode, link.mtime = info.mode, info.mtime
                link.uid, link.gid = info.uid, info.gid
                tar.addfile(link)
            else:
                data = content(r)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
                files.append(name)


if __name__ == "__main__":
    main()
