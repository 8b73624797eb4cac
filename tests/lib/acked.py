# SPDX-License-Identifier: Apache-2.0
"""Clients that remember what the server acknowledged, and what must be true after a crash.

Each worker has a connection and a directory of its own, so that its history is a sequence: at any
moment all its operations but the last have been answered. After a crash the directory must look
as the answered ones left it; the one without an answer may have happened, or not, or in part, so
what it touches is not looked at.

The oracle is Model, a file system of a few lines.
"""
import copy
import os
import random
import stat
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "wire"))
import nfs  # noqa: E402


def payload(op):
    return random.Random(op["id"]).randbytes(op["size"])


class Node:
    def __init__(self, kind, mode=None, target=None):
        self.kind, self.mode, self.target = kind, mode, target
        self.data, self.mtime = bytearray(), None


class Model:
    """names: path -> Node, without the names that are gone."""

    def __init__(self):
        self.names = {}

    def apply(self, op):
        getattr(self, op["do"])(op)

    def create(self, op):
        self.names[op["path"]] = Node("file", op["mode"])

    def mkdir(self, op):
        self.names[op["path"]] = Node("dir", op["mode"])

    def symlink(self, op):
        self.names[op["path"]] = Node("link", target=op["target"])

    def write(self, op):
        node = self.names[op["path"]]
        end = op["offset"] + op["size"]
        node.data.extend(bytes(max(0, end - len(node.data))))
        node.data[op["offset"]:end] = payload(op)
        node.mtime = None

    commit = write

    def truncate(self, op):
        node = self.names[op["path"]]
        del node.data[op["length"]:]
        node.data.extend(bytes(op["length"] - len(node.data)))
        node.mtime = None

    def chmod(self, op):
        self.names[op["path"]].mode = op["mode"]

    def utime(self, op):
        self.names[op["path"]].mtime = tuple(op["mtime"])

    def link(self, op):
        self.names[op["to"]] = self.names[op["path"]]

    def remove(self, op):
        del self.names[op["path"]]

    rmdir = remove

    def rename(self, op):
        self.names[op["to"]] = self.names.pop(op["path"])
        inside = op["path"] + "/"
        for path in [p for p in self.names if p.startswith(inside)]:
            self.names[op["to"] + "/" + path[len(inside):]] = self.names.pop(path)

    def aliases(self, path):
        node = self.names.get(path)
        return {p for p, n in self.names.items() if n is node} if node else set()

    def facts(self):
        """path -> what can be seen of it."""
        links = {}
        for node in self.names.values():
            links[node] = links.get(node, 0) + 1
        return {path: (n.kind, n.mode, n.data, links[n] if n.kind != "dir" else None,
                       n.mtime, n.target) for path, n in self.names.items()}


def facts_of(top):
    """The same of a directory here."""
    found = {}
    for dir_path, dirs, files in os.walk(top):
        for name in dirs + files:
            path = os.path.join(dir_path, name)
            key = os.path.relpath(path, top)
            s = os.lstat(path)
            mode = stat.S_IMODE(s.st_mode)
            mtime = divmod(s.st_mtime_ns, 10**9)
            if stat.S_ISLNK(s.st_mode):
                found[key] = ("link", None, b"", s.st_nlink, mtime, os.readlink(path))
            elif stat.S_ISDIR(s.st_mode):
                found[key] = ("dir", mode, b"", s.st_nlink, mtime, None)
            else:
                with open(path, "rb") as file:
                    found[key] = ("file", mode, file.read(), s.st_nlink, mtime, None)
    return found


MIX = {"create": 20, "mkdir": 6, "symlink": 4, "write": 14, "commit": 14, "truncate": 5, "chmod": 5,
       "utime": 5, "link": 5, "remove": 7, "rename": 10, "replace": 5, "rmdir": 3}


def choose(r, model, number):
    """The next operation, one that must succeed."""
    files = [p for p, n in model.names.items() if n.kind == "file"]
    dirs = [p for p, n in model.names.items() if n.kind == "dir"]
    parent = r.choice(dirs) + "/" if dirs and r.random() < 0.5 else ""
    new = f"{parent}name{number}"
    op = {"id": number, "path": new, "mode": r.choice((0o644, 0o600, 0o755))}
    do = op["do"] = r.choices(list(MIX), MIX.values())[0]
    if do in ("create", "mkdir", "symlink"):
        op["target"] = f"to/{number}"
        return op
    if do == "rmdir":
        empty = [d for d in dirs if not any(p.startswith(d + "/") for p in model.names)]
        return {**op, "path": r.choice(empty)} if empty else None
    if not files or (do == "remove" and len(files) < 3):
        return None
    op["path"] = r.choice(files)
    size = len(model.names[op["path"]].data)
    if do in ("write", "commit"):
        op["offset"] = r.randrange(min(size, 50000) + 1)
        op["size"] = r.choice((1, 100, 4096, 10000, 40000))
    elif do == "truncate":
        op["length"] = r.randrange(2 * size + 100)
    elif do == "utime":
        op["mtime"] = (r.randrange(1, 2 * 10**9), r.randrange(10**9))
    elif do in ("link", "rename"):
        op["to"] = new
        if do == "rename" and dirs and r.random() < 0.3:
            op["path"] = r.choice(dirs)
            if (op["to"] + "/").startswith(op["path"] + "/"):
                return None
    elif do == "replace":
        op["do"], op["to"] = "rename", r.choice(files)
        if op["to"] in model.aliases(op["path"]):
            return None
    return op


def ok(result):
    nfs.equal(result.status, nfs.OK, "status")
    return result


class Worker(threading.Thread):
    """Runs `count` operations, or until the connection breaks. `answered`, if given, is called with
    each after its reply has come."""

    def __init__(self, index, path, seed, count, answered=None):
        super().__init__(daemon=True)
        self.index, self.count, self.answered = index, count, answered
        self.random = random.Random(f"{seed}/{index}")
        self.model = Model()
        self.done = []       # answered, in order
        self.pending = None  # sent, or about to be
        self.error = None    # an answer that must not be: the server is wrong
        self.client = nfs.Nfs(nfs.Tcp(2049))
        root = self.client.mount(path).fh
        self.handles = {"": ok(self.client.mkdir(root, self.dir_name(), mode=0o755)).fh}

    def dir_name(self):
        return f"worker{self.index}"

    def at(self, path):
        """(handle of the directory, name)"""
        parent, _, name = path.rpartition("/")
        return self.handle(parent), name

    def handle(self, path):
        if path not in self.handles:
            self.handles[path] = ok(self.client.lookup(*self.at(path))).fh
        return self.handles[path]

    def perform(self, op):
        c, do, path = self.client, op["do"], op["path"]
        if do == "create":
            ok(c.create(*self.at(path), nfs.GUARDED, mode=op["mode"]))
        elif do == "mkdir":
            ok(c.mkdir(*self.at(path), mode=op["mode"]))
        elif do == "symlink":
            ok(c.symlink(*self.at(path), op["target"], mode=0o777))
        elif do == "write":
            ok(c.write(self.handle(path), op["offset"], payload(op), nfs.FILE_SYNC))
        elif do == "commit":
            self.write_and_commit(op)
        elif do == "truncate":
            ok(c.setattr(self.handle(path), size=op["length"]))
        elif do == "chmod":
            ok(c.setattr(self.handle(path), mode=op["mode"]))
        elif do == "utime":
            ok(c.setattr(self.handle(path), mtime=op["mtime"]))
        elif do == "link":
            ok(c.link(self.handle(path), *self.at(op["to"])))
        elif do == "remove":
            ok(c.remove(*self.at(path)))
        elif do == "rmdir":
            ok(c.rmdir(*self.at(path)))
        elif do == "rename":
            ok(c.rename(*self.at(path), *self.at(op["to"])))
        if do in ("remove", "rmdir", "rename"):
            self.handles = {"": self.handles[""]}

    def write_and_commit(self, op):
        """In two halves, and again while the write verifier changes (RFC 1813 §3.3.21)."""
        data, half = payload(op), op["size"] // 2
        fh = self.handle(op["path"])
        while True:
            verfs = {ok(self.client.write(fh, op["offset"] + start, part)).verf
                     for start, part in ((0, data[:half]), (half, data[half:])) if part}
            verfs.add(ok(self.client.commit(fh)).verf)
            if len(verfs) == 1:
                return

    def run(self):
        number = 0
        try:
            while number < self.count:
                number += 1
                op = choose(self.random, self.model, self.index * 1_000_000 + number)
                if op is None:
                    continue
                self.pending = op
                self.perform(op)
                self.model.apply(op)
                if self.answered:
                    self.answered(op)
                self.done.append(op)
                self.pending = None
        except (OSError, EOFError):
            pass  # the server went away: what a crash looks like from here
        except Exception as error:  # a thread must not take its failure with it
            self.error = f"{self.pending}: {error!r}"


# One change to the names: it has happened, or it has not.
WHOLE = ("link", "remove", "rmdir", "rename")


def touched_by(op, model):
    """The names whose facts the operation may change; also what is below them."""
    if op is None:
        return set()
    names = {op["path"], op["to"]} if "to" in op else {op["path"]}
    return names.union(*(model.aliases(name) for name in names))


def data_difference(expected, found):
    """Where two contents begin to differ, and what is there."""
    at = next((i for i, (e, f) in enumerate(zip(expected, found)) if e != f),
              min(len(expected), len(found)))
    zeros = len(found) - at - len(found[at:].lstrip(b"\0"))
    return f"data (of {len(expected)} bytes {len(found)} are there; byte {at} differs" + \
        (f", {zeros} zeros from there on)" if zeros else ")")


def difference(expected, found):
    """What is wrong with a name, or "". The model has a time only where a client has set it, and
    no data where it may be what a call without an answer has written."""
    if expected is None or found is None:
        return "" if expected is found else "is gone" if expected else "came back"
    names = ("kind", "mode", "data", "links", "mtime", "target")
    return " ".join(data_difference(e, f) if name == "data" else name
                    for name, e, f in zip(names, expected, found)
                    if e != f and (e is not None or name not in ("mtime", "links", "data")))


def forget_data(ops, model):
    """The data of the files that the operations write is not known any more."""
    future, written = copy.deepcopy(model), set()
    nodes = {future.names[path]: node for path, node in model.names.items()}
    for op in ops:
        if op["do"] in ("write", "commit", "truncate"):
            written.add(future.names[op["path"]])
        future.apply(op)
    for node in written & nodes.keys():
        nodes[node].data = None


def lost(done, begun, top):
    """What the operations in `done` promise and the directory `top` does not keep, as lines. Those
    in `begun` have no answer: the first may have happened, the others may have written data."""
    model = Model()
    for op in done:
        model.apply(op)
    forget_data(begun, model)
    before, found = model.facts(), facts_of(top)
    pending = begun[0] if begun else None
    touched = touched_by(pending, model)
    lines, done_wrong, not_done_wrong, after = [], False, False, before
    if pending and pending["do"] in WHOLE:
        model.apply(pending)
        after = model.facts()
    for path in sorted({*before, *after, *found}):
        wrong = difference(before.get(path), found.get(path))
        if not any(path == t or path.startswith(t + "/") for t in touched):
            lines += [f"{path}: {wrong}"] if wrong else []
        elif after is not before:
            not_done_wrong = not_done_wrong or wrong != ""
            done_wrong = done_wrong or difference(after.get(path), found.get(path)) != ""
    if done_wrong and not_done_wrong:
        lines.append(f"{pending['do']} of {pending['path']}: neither done nor not done")
    return lines
