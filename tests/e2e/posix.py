#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""posix.py DIR: tries file system calls in DIR (made, and empty) and prints what each one did.

It knows nothing of what is right: posix.sh runs it on the exported file system itself and through
NFS and compares the two. So a line says no inode number, device or time, only how they relate. Run
as root; calls are made as root and as users 1000 and 1001.

Every line: the section, what was called, and the result: "ok", a value, or the error's name. Where
something changed, what the place looks like afterwards.
"""
import contextlib
import errno
import mmap
import os
import random
import stat
import sys
import time

LONG = "n" * 255
ROOT, OWNER, OTHER = 0, 1000, 1001
GROUPS = {ROOT: [], OWNER: [1000, 2000], OTHER: [1001]}
KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "dir", stat.S_IFLNK: "link", stat.S_IFIFO: "fifo",
         stat.S_IFSOCK: "socket", stat.S_IFCHR: "char", stat.S_IFBLK: "block"}


@contextlib.contextmanager
def acting_as(uid):
    os.setgroups(GROUPS[uid])
    os.setegid(uid)
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups([])


def outcome(function, *args, **kwargs):
    try:
        value = function(*args, **kwargs)
    except OSError as error:
        return errno.errorcode[error.errno]
    return "ok" if value is None else str(value)


def say(section, what, result):
    print(f"{section}: {what}: {result}".encode("unicode_escape").decode())


def look(top="."):
    """The tree below, as one line."""
    found = []
    for dir_path, dirs, files in os.walk(top):
        for name in dirs + files:
            path = os.path.join(dir_path, name)
            s = os.lstat(path)
            text = f"{os.path.relpath(path, top)[:40]}={KINDS[stat.S_IFMT(s.st_mode)]}" \
                   f",{stat.S_IMODE(s.st_mode):o},{s.st_uid},{s.st_gid}"
            if not stat.S_ISDIR(s.st_mode):
                text += f",{s.st_nlink},{s.st_size}"
            else:
                # ext4 counts directories, others too; the number is the same on both sides.
                text += f",{s.st_nlink}"
            if stat.S_ISLNK(s.st_mode):
                text += f",{os.readlink(path)[:20]}"
            found.append(text)
    return " ".join(sorted(found))


def clear(top="."):
    for dir_path, dirs, files in os.walk(top, topdown=False):
        for name in files:
            os.unlink(os.path.join(dir_path, name))
        for name in dirs:
            path = os.path.join(dir_path, name)
            os.unlink(path) if os.path.islink(path) else os.rmdir(path)


def write_file(path, data=b"content", mode=0o644, uid=0, gid=0):
    with open(path, "wb") as file:
        file.write(data)
    os.chown(path, uid, gid)
    os.chmod(path, mode)


def make_dir(path, mode=0o755, uid=0, gid=0):
    os.mkdir(path)
    os.chown(path, uid, gid)
    os.chmod(path, mode)


def open_close(path, flags, mode=0o640):
    os.close(os.open(path, flags, mode))


# ---- which error for which object ----

def furnish():
    """One of each kind of object."""
    write_file("file")
    make_dir("empty")
    make_dir("full")
    write_file("full/inside")
    for name, target in (("to-file", "file"), ("to-dir", "full"), ("dangling", "nowhere"),
                         ("loop", "loop"), ("to-slash", "file/"), ("up", "full/../file")):
        os.symlink(target, name)
    os.mkfifo("fifo", 0o644)
    os.chmod(".", 0o777)


PLACES = ("file", "empty", "full", "to-file", "to-dir", "dangling", "loop", "to-slash", "up",
          "fifo", "absent", "absent/x", "file/x", "file/", "empty/", "absent/", "to-dir/",
          "to-file/", "dangling/", "loop/x", "to-dir/inside", ".", "..", "full/.", "full/..", "",
          LONG, LONG + "n", "full/" + "a/" * 2050 + "x", "file/.", "file/..", "/")

CALLS = {
    "open read": lambda p: open_close(p, os.O_RDONLY | os.O_NONBLOCK),
    "open write": lambda p: open_close(p, os.O_WRONLY | os.O_NONBLOCK),
    "open create": lambda p: open_close(p, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK),
    "open exclusive": lambda p: open_close(p, os.O_RDWR | os.O_CREAT | os.O_EXCL),
    "open truncate": lambda p: open_close(p, os.O_WRONLY | os.O_TRUNC | os.O_NONBLOCK),
    "open directory": lambda p: open_close(p, os.O_RDONLY | os.O_DIRECTORY),
    "open nofollow": lambda p: open_close(p, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK),
    "open path": lambda p: open_close(p, os.O_PATH),
    "list": lambda p: sorted(os.listdir(p)) if p not in ("/", "..") else None,
    "stat": lambda p: oct(os.stat(p).st_mode),
    "lstat": lambda p: oct(os.lstat(p).st_mode),
    "readlink": lambda p: os.readlink(p),
    "access": lambda p: os.access(p, os.W_OK, effective_ids=True),
    "unlink": os.unlink,
    "rmdir": os.rmdir,
    "mkdir": lambda p: os.mkdir(p, 0o750),
    "symlink": lambda p: os.symlink("target", p),
    "mkfifo": lambda p: os.mkfifo(p, 0o600),
    "link from": lambda p: os.link(p, "new"),
    "link following": lambda p: os.link(p, "new", follow_symlinks=True),
    "link to": lambda p: os.link("full/inside", p),
    "rename from": lambda p: os.rename(p, "new"),
    "rename to": lambda p: os.rename("full/inside", p),
    "rename dir to": lambda p: os.rename("empty", p),
    "chmod": lambda p: os.chmod(p, 0o711),
    "chown": lambda p: os.chown(p, 1001, 1001),
    "lchown": lambda p: os.lchown(p, 1001, 1001),
    "truncate": lambda p: os.truncate(p, 3),
    "utime": lambda p: os.utime(p, (5, 6)),
    "statvfs": lambda p: os.statvfs(p).f_namemax,
}
HARMLESS = {"open read", "open directory", "open nofollow", "open path", "list", "stat", "lstat",
            "readlink", "access", "statvfs"}
OUTSIDE = ("", ".", "..", "full/..", "/")


def errors():
    """Every call on every kind of object, as root and as a user who owns none of them."""
    for uid in (ROOT, OWNER):
        clear()
        furnish()
        for call, function in CALLS.items():
            for place in PLACES:
                if place in OUTSIDE and call in ("chmod", "chown", "lchown", "utime"):
                    continue  # would change the directory that holds it all
                with acting_as(uid):
                    result = outcome(function, place)
                shown = place if len(place) < 20 else f"{place[:6]}..{len(place)}"
                say("errors", f"{uid} {call} '{shown}'", result)
                if result == "ok" and call not in HARMLESS:
                    say("errors", "  after", look())
                    clear()
                    furnish()
    os.chmod(".", 0o755)


def renames():
    """Each kind over each kind, in one directory and across two."""
    kinds = ("file", "empty", "full", "to-file", "fifo", "absent")
    for across in (False, True):
        for source in kinds:
            for target in kinds:
                clear()
                for side in ("a", "b"):
                    os.mkdir(side)
                    os.chdir(side)
                    furnish()
                    os.chdir("..")
                to = f"{'b' if across else 'a'}/{target}"
                result = outcome(os.rename, f"a/{source}", to)
                say("renames", f"a/{source} {to}", result)
                if result == "ok":
                    say("renames", "  after", look())
    clear()
    write_file("one")
    os.link("one", "two")
    say("renames", "over another name of the same file", outcome(os.rename, "one", "two") + look())
    os.makedirs("d/e/f")
    for source, target in (("d", "d/e/f/g"), ("d", "d/d"), ("d/e", "d/e"), ("d/e/f", "d"),
                           ("d", "d/e/f"), ("d/e", "d/e2"), ("d/.", "x"), ("d/..", "x"),
                           ("d/e2/f", "f")):
        say("renames", f"{source} {target}", outcome(os.rename, source, target) + " " + look())
    say("renames", "out of the file system", outcome(os.rename, "one", "/dev/shm/one"))
    say("renames", "a link out of it", outcome(os.link, "one", "/dev/shm/one"))


# ---- who may ----

def may_files():
    """Each mode of a file, for its owner, its group, others and root."""
    for mode in range(8):
        for who, uid in (("owner", OWNER), ("group", OTHER), ("other", OTHER), ("root", ROOT)):
            clear()
            bits = {"owner": mode << 6, "group": mode << 3, "other": mode, "root": mode << 6}[who]
            write_file("f", b"x" * 10, bits, OWNER if who in ("owner", "root") else 4000,
                       OTHER if who == "group" else 4000)
            with acting_as(uid):
                results = [
                    outcome(open_close, "f", os.O_RDONLY), outcome(open_close, "f", os.O_WRONLY),
                    outcome(open_close, "f", os.O_RDWR), outcome(os.truncate, "f", 5),
                    outcome(os.utime, "f", None), outcome(os.utime, "f", (1, 2)),
                    "".join(str(int(os.access("f", a, effective_ids=True)))
                            for a in (os.R_OK, os.W_OK, os.X_OK)),
                    outcome(os.chmod, "f", bits | 0o1000), outcome(os.chown, "f", -1, 2000)]
            say("may_files", f"{who} {bits:04o}", " ".join(results) + " " + look())


def may_directories():
    """Each mode of a directory, likewise."""
    for mode in range(8):
        for who, uid in (("owner", OWNER), ("group", OTHER), ("other", OTHER), ("root", ROOT)):
            clear()
            make_dir("d", 0o700, OWNER if who in ("owner", "root") else 4000,
                     OTHER if who == "group" else 4000)
            for name in ("a", "b", "c"):
                write_file(f"d/{name}", b"", 0o666)
            make_dir("d/sub", 0o777)
            write_file("outside", b"", 0o666, uid, uid)
            os.chmod(".", 0o777)
            bits = {"owner": mode << 6, "group": mode << 3, "other": mode, "root": mode << 6}[who]
            os.chmod("d", bits)
            with acting_as(uid):
                results = [
                    outcome(lambda: sorted(os.listdir("d"))), outcome(os.stat, "d/a").split("(")[0],
                    outcome(os.stat, "d/absent"), outcome(open_close, "d/a", os.O_RDWR),
                    outcome(open_close, "d/new", os.O_CREAT | os.O_RDWR), outcome(os.unlink, "d/a"),
                    outcome(os.mkdir, "d/newdir"), outcome(os.rmdir, "d/sub"),
                    outcome(os.rename, "d/b", "d/b2"), outcome(os.rename, "d/c", "c"),
                    outcome(os.link, "outside", "d/link"), outcome(os.rename, "outside", "d/in"),
                    outcome(os.symlink, "x", "d/symbolic"), outcome(os.mkfifo, "d/fifo"),
                    outcome(os.chdir, "d")]
            if results[-1] == "ok":
                os.chdir("..")
            os.chmod("d", 0o700)
            say("may_directories", f"{who} {bits:04o}", " ".join(results) + " " + look())
    os.chmod(".", 0o755)


def sticky():
    """In a sticky directory only the owners of the directory and of the file may take it away."""
    for dir_owner in (ROOT, OWNER, OTHER):
        for file_owner in (ROOT, OWNER, OTHER):
            for kind in ("file", "dir"):
                clear()
                make_dir("s", 0o1777, dir_owner)
                make_dir("free", 0o777)
                make = write_file if kind == "file" else make_dir
                for name in ("one", "two", "three"):
                    make(f"s/{name}", mode=0o777, uid=file_owner)
                make("free/mine", mode=0o777, uid=OWNER)
                with acting_as(OWNER):
                    results = [
                        outcome(os.unlink if kind == "file" else os.rmdir, "s/one"),
                        outcome(os.rename, "s/two", "free/two"),
                        outcome(os.rename, "free/mine", "s/three")]
                say("sticky", f"{kind} of {file_owner} in {dir_owner}'s", " ".join(results))


def mode_bits():
    """Setuid, setgid and umask: who may set them, what clears them, what is inherited."""
    for uid, gid in ((OWNER, OWNER), (OWNER, 2000), (OWNER, 5000)):
        clear()
        os.chmod(".", 0o777)
        write_file("f", b"x", 0o755, uid, gid)
        make_dir("d", 0o755, uid, gid)
        with acting_as(OWNER):
            for bits in (0o6755, 0o2755, 0o2745, 0o1644, 0o7777):
                say("mode_bits", f"chmod {bits:o} by the owner, group {gid}",
                    outcome(os.chmod, "f", bits) + outcome(os.chmod, "d", bits) + " " + look())
    for bits in (0o6755, 0o6745, 0o2755, 0o4777, 0o6777, 0o2644):
        for uid in (ROOT, OWNER):
            for name, change in (
                    ("write", lambda: write_at("f", os.O_WRONLY)),
                    ("truncate", lambda: os.truncate("f", 0)),
                    ("open truncate", lambda: open_close("f", os.O_WRONLY | os.O_TRUNC)),
                    ("chown", lambda: os.chown("f", -1, 2000)),
                    ("chown to itself", lambda: os.chown("f", OWNER, -1)),
                    ("chmod", lambda: os.chmod("f", bits & 0o6775))):
                clear()
                write_file("f", b"x", bits, OWNER, OWNER)
                with acting_as(uid):
                    result = outcome(change)
                say("mode_bits", f"{bits:o} {name} by {uid}", f"{result} {look()}")
    clear()
    for dir_mode in (0o777, 0o2777, 0o3777):
        for umask in (0, 0o022, 0o077):
            clear()
            make_dir("d", dir_mode, 0, 3000)
            os.umask(umask)
            with acting_as(OWNER):
                open_close("d/file", os.O_CREAT | os.O_WRONLY, 0o666)
                open_close("d/exclusive", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o2775)
                os.mkdir("d/dir", 0o777)
                os.mkdir("d/dir/below", 0o3755)
                os.symlink("x", "d/symbolic")
                os.mkfifo("d/fifo", 0o666)
            os.umask(0)
            say("mode_bits", f"made in {dir_mode:o} with umask {umask:o}", look())


def write_at(path, flags, data=b"data", offset=0):
    fd = os.open(path, flags)
    try:
        return os.pwrite(fd, data, offset)
    finally:
        os.close(fd)


# ---- times ----

def stamps(path):
    s = os.lstat(path)
    return s.st_mtime_ns, s.st_ctime_ns


def times():
    """Which times a call moves, of the object and of its directory."""
    changes = {
        "write": lambda: write_at("d/f", os.O_WRONLY),
        "write nothing": lambda: write_at("d/f", os.O_WRONLY, b""),
        "truncate": lambda: os.truncate("d/f", 3),
        "open truncate": lambda: open_close("d/f", os.O_WRONLY | os.O_TRUNC),
        "open truncate an empty file": lambda: open_close("d/empty", os.O_WRONLY | os.O_TRUNC),
        "open create an old file": lambda: open_close("d/f", os.O_CREAT | os.O_WRONLY),
        "chmod": lambda: os.chmod("d/f", 0o600),
        "chown": lambda: os.chown("d/f", 1, 1),
        "link": lambda: os.link("d/f", "d/f2"),
        "unlink one of two": lambda: os.unlink("d/f2"),
        "rename": lambda: os.rename("d/f", "d/g"),
        "rename back": lambda: os.rename("d/g", "d/f"),
        "rename to elsewhere": lambda: os.rename("d/f", "f"),
        "rename to here": lambda: os.rename("f", "d/f"),
        "create": lambda: open_close("d/new", os.O_CREAT | os.O_WRONLY),
        "mkdir": lambda: os.mkdir("d/sub"),
        "rmdir": lambda: os.rmdir("d/sub"),
        "symlink": lambda: os.symlink("x", "d/s"),
        "unlink": lambda: os.unlink("d/s"),
        "read": lambda: open_close("d/f", os.O_RDONLY),
        "failed unlink": lambda: outcome(os.unlink, "d/absent"),
    }
    make_dir("d")
    write_file("d/f")
    write_file("d/empty", b"")
    for name, change in changes.items():
        before = {p: stamps(p) for p in ("d", "d/f", "d/empty", "f") if os.path.lexists(p)}
        time.sleep(0.03)
        change()
        moved = []
        for path, old in before.items():
            if os.path.lexists(path):
                new = stamps(path)
                moved.append(f"{path}:{'m' * (new[0] != old[0])}{'c' * (new[1] != old[1])}")
                if new[0] < old[0] or new[1] < old[1]:
                    moved.append("BACKWARDS")
        say("times", name, " ".join(moved))
    # The client has no nanoseconds at the ends of its range, 0 and 2^32 - 1.
    for seconds in (1, 86400, 2**31 - 1, 2**31, 2**32 - 2):
        for nanoseconds in (0, 1, 999_999_999):
            ns = seconds * 10**9 + nanoseconds
            result = outcome(os.utime, "d/f", ns=(ns, ns + 1 - (nanoseconds > 1)))
            s = os.stat("d/f")
            say("times", f"utime {ns}", f"{result} {s.st_atime_ns} {s.st_mtime_ns}")
    for uid, mode in ((OWNER, 0o666), (OWNER, 0o644), (ROOT, 0)):
        os.chmod("d/f", mode)
        with acting_as(uid):
            say("times", f"utime by {uid}, mode {mode:o}",
                outcome(os.utime, "d/f", None) + " " + outcome(os.utime, "d/f", (7, 8)))


# ---- data ----

def data():
    fd = os.open("f", os.O_RDWR | os.O_CREAT, 0o644)
    for what, function in (
            ("write at 10000", lambda: os.pwrite(fd, b"end", 10000)),
            ("size", lambda: os.fstat(fd).st_size),
            ("the hole", lambda: os.pread(fd, 20000, 0).rstrip(b"end") == bytes(10000)),
            ("read past the end", lambda: os.pread(fd, 10, 10003)),
            ("read far past it", lambda: os.pread(fd, 10, 2**40)),
            ("shrink", lambda: os.ftruncate(fd, 5000)),
            ("grow", lambda: os.ftruncate(fd, 12000)),
            ("all zeros", lambda: os.pread(fd, 20000, 0) == bytes(12000)),
            ("write nothing far away", lambda: os.pwrite(fd, b"", 10**6)),
            ("size still", lambda: os.fstat(fd).st_size),
            ("truncate below zero", lambda: os.ftruncate(fd, -1)),
            ("seek to the end", lambda: os.lseek(fd, 0, os.SEEK_END)),
            ("odd offsets",
             lambda: [os.pwrite(fd, b"%d" % i * (i % 7), i * 4093) for i in range(9)]),
            ("sync", lambda: os.fsync(fd)),
            ("content", lambda: hash_of("f")),
            ("written by another opening", lambda: write_at("f", os.O_WRONLY, b"other", 4090)),
            ("seen here", lambda: os.pread(fd, 12, 4088))):
        say("data", what, outcome(function))
    os.close(fd)
    with open("log", "ab") as one, open("log", "ab") as two:
        for i in range(20):
            for file in (one, two):
                file.write(b"line %d\n" % i)
                file.flush()
    say("data", "two append in turn", hash_of("log"))
    write_file("mapped", bytes(3 * 4096))
    with open("mapped", "r+b") as file, mmap.mmap(file.fileno(), 0) as area:
        area[4090:4100] = b"0123456789"
        area.flush()
        say("data", "written through a mapping", os.pread(file.fileno(), 12, 4089))
    # An opening is a right that stays: over mode changes, renames and removal.
    fd = os.open("strict", os.O_CREAT | os.O_EXCL | os.O_RDWR, 0)
    say("data", "write to a file made with mode 0", outcome(os.write, fd, b"word"))
    os.close(fd)
    make_dir("theirs", 0o777)
    with acting_as(OWNER):
        fd = os.open("theirs/f", os.O_CREAT | os.O_RDWR, 0o400)
        results = [outcome(os.write, fd, b"one"), outcome(os.fchmod, fd, 0),
                   outcome(os.write, fd, b"two"), outcome(os.fsync, fd),
                   outcome(os.pread, fd, 10, 0)]
        os.rename("theirs/f", "theirs/g")
        results += [outcome(os.write, fd, b"three"), outcome(os.ftruncate, fd, 8)]
        os.unlink("theirs/g")
        results += [outcome(os.write, fd, b"four"), outcome(os.pread, fd, 30, 0)]
        os.close(fd)
    say("data", "an opening stays", " ".join(results) + " " + look("theirs"))
    write_file("new", b"new")
    write_file("old", b"old")
    fd = os.open("old", os.O_RDONLY)
    os.rename("new", "old")
    say("data", "a file replaced while open", [os.read(fd, 10), open("old", "rb").read()])
    os.close(fd)


def hash_of(path):
    value = 0
    with open(path, "rb") as file:
        for byte in file.read():
            value = (value * 131 + byte) % (1 << 61)
    return value


# ---- names and links ----

def names():
    for name in (LONG, b"\xff\xfe", b"\x01\n", "ä" * 127, " ", "...", "-", "~", "\\", "*"):
        say("names", repr(name)[:20], outcome(open_close, name, os.O_CREAT | os.O_WRONLY))
    say("names", "listed", sorted(os.listdir(b".")))
    say("names", "one byte too many", outcome(open_close, "ä" * 128, os.O_CREAT | os.O_WRONLY))
    clear()
    for length in (1, 59, 60, 61, 1023, 1024, 4095):
        say("names", f"a link of {length}", outcome(os.symlink, "l" * length, f"s{length}"))
        say("names", "  reads", outcome(lambda: len(os.readlink(f"s{length}"))))
    say("names", "a link of 4096", outcome(os.symlink, "l" * 4096, "s4096"))
    say("names", "an empty link", outcome(os.symlink, "", "s0"))
    clear()
    write_file("end", b"the end")
    for i in range(42):
        os.symlink("end" if i == 0 else f"hop{i - 1}", f"hop{i}")
    for i in (0, 10, 39, 40, 41):
        say("names", f"{i + 1} links", outcome(open_close, f"hop{i}", os.O_RDONLY))
    clear()
    write_file("f")
    for i in range(300):
        os.link("f", f"link{i}")
    say("names", "300 links", os.stat("f").st_nlink)
    os.mkdir("d")
    for i in range(20):
        os.mkdir(f"d/{i}")
    say("names", "a directory of 20", os.stat("d").st_nlink)
    say("names", "link to a directory", outcome(os.link, "d", "e"))
    # Taking entries away must not hide others.
    seen = 0
    with os.scandir(".") as entries:
        for entry in entries:
            if entry.name.startswith("link"):
                os.unlink(entry.name)
                seen += 1
    say("names", "removed while listing", [seen, sorted(os.listdir("."))])


# ---- anything ----

def anything(seed, count):
    """Random calls by random users on few names, so that they meet."""
    r = random.Random(seed)
    make_dir("a", 0o777)
    make_dir("b", 0o1777, OWNER)
    make_dir("c", 0o2775, OTHER, OWNER)

    def path():
        parts = [r.choice("abc")]
        while r.random() < 0.35:
            parts.append(r.choice("xyz"))
        return "/".join(parts + [r.choice("xyz")])

    def mode():
        return r.choice((0o644, 0o600, 0o755, 0o777, 0o444, 0o000, 0o2755, 0o1777, 0o4711,
                         r.randrange(4096)))

    calls = [
        lambda: ("create", open_close, path(), os.O_CREAT | os.O_RDWR | os.O_NONBLOCK, mode()),
        lambda: ("exclusive", open_close, path(), os.O_CREAT | os.O_EXCL | os.O_RDWR, mode()),
        lambda: ("write", write_at, path(), os.O_WRONLY | os.O_NONBLOCK,
                 r.randbytes(r.randrange(1, 9000)), r.randrange(20000)),
        lambda: ("append", write_at, path(), os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK, b"more"),
        lambda: ("read", open_close, path(), os.O_RDONLY | os.O_NONBLOCK),
        lambda: ("truncate", os.truncate, path(), r.randrange(20000)),
        lambda: ("mkdir", os.mkdir, path(), mode()),
        lambda: ("mkdir", os.mkdir, path(), 0o777),
        lambda: ("rmdir", os.rmdir, path()),
        lambda: ("unlink", os.unlink, path()),
        lambda: ("rename", os.rename, path(), path()),
        lambda: ("rename", os.rename, path(), path()),
        lambda: ("link", os.link, path(), path()),
        lambda: ("symlink", os.symlink, r.choice(("x", "../a/y", "../b", "z/x")), path()),
        lambda: ("mkfifo", os.mkfifo, path(), mode()),
        lambda: ("chmod", os.chmod, path(), mode()),
        lambda: ("chown", os.chown, path(), r.choice((-1, ROOT, OWNER, OTHER)),
                 r.choice((-1, ROOT, OWNER, OTHER, 2000))),
        lambda: ("utime", os.utime, path(), (r.randrange(10**9), r.randrange(10**9))),
        lambda: ("list", lambda p: sorted(os.listdir(p)), path()),
        lambda: ("access", lambda p, a: os.access(p, a, effective_ids=True), path(),
                 r.randrange(8)),
    ]
    for i in range(count):
        name, function, *args = r.choice(calls)()
        uid = r.choice((ROOT, OWNER, OTHER))
        with acting_as(uid):
            result = outcome(function, *args)
        shown = [len(a) if isinstance(a, bytes) else a for a in args]
        say("anything", f"{i} {uid} {name} {shown}", result)
        if i % 50 == 49:
            say("anything", "now", look())
    for dir_path, _, files in os.walk("."):
        for name in sorted(files):
            p = os.path.join(dir_path, name)
            if stat.S_ISREG(os.lstat(p).st_mode):
                say("anything", p, hash_of(p))


def main():
    os.chdir(sys.argv[1])
    os.umask(0)
    sections = [errors, renames, may_files, may_directories, sticky, mode_bits, times, data, names]
    sections += [lambda seed=seed: anything(seed, 1000) for seed in range(1, 4)]
    for section in sections:
        clear()
        section()
        clear()


if __name__ == "__main__":
    main()
