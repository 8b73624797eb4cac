# SPDX-License-Identifier: Apache-2.0
"""An NFSv3 server in memory, to test the client: right by default, wrong where a test says so.

Written from RFC 1813 and RFC 5531 without a look at the client. TCP, one port for MOUNT and NFS.
"""
import os
import socket
import struct
import threading
import time

import nfs
from nfs import Reader, opaque, record, u32, u64

REG, DIRECTORY, LINK = 1, 2, 5
UNSTABLE, FILE_SYNC = 0, 2


class Inode:
    def __init__(self, fileid, type_, mode):
        self.fileid, self.type, self.mode = fileid, type_, mode
        self.data, self.target, self.entries = bytearray(), b'', {}
        self.mtime = self.atime = self.ctime = (int(time.time()), 0)

    def fattr(self):
        size = len(self.data)
        return (u32(self.type, self.mode, 1, os.getuid(), os.getgid()) + u64(size, size)
                + u32(0, 0) + u64(7, self.fileid) + u32(*self.atime, *self.mtime, *self.ctime))


class Fake:
    """Used with `with`. What tests change:

    read_max, write_max   bytes of one READ or WRITE, the rest is left to the client
    verf                  a function: the write verifier for a procedure number
    jukebox               a function of the procedure number: True, not now
    committed             what WRITE says of UNSTABLE data
    plus                  False: READDIRPLUS is not supported, READDIR is
    page                  entries of one page of a directory
    bare                  True: no handles and no attributes where the RFC allows that
    extra                 names that every directory seems to have as well
    answer                a function (procedure, results) -> results
    frames                a function (message) -> the pieces that go on the stream, for RFC 5531
                          §11; the connection ends if it raises EOFError
    """

    def __init__(self):
        self.read_max = self.write_max = 1 << 20
        self.verf = lambda _: b'verifier'
        self.jukebox = lambda _: False
        self.committed = UNSTABLE
        self.plus, self.page, self.bare, self.extra = True, 50, False, []
        self.answer = lambda _, results: results
        self.frames = lambda message: [record(message)]
        self.calls = []
        self.inodes, self.next_fileid = {}, 1
        self.root = self.make(DIRECTORY, 0o755)
        self.lock = threading.Lock()
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.port = self.listener.getsockname()[1]
        self.procedures = {
            0: lambda _: b'', 1: self.getattr, 2: self.setattr, 3: self.lookup, 5: self.readlink,
            6: self.read, 7: self.write, 8: self.create, 9: self.mkdir, 10: self.symlink,
            12: self.remove, 13: self.remove, 16: self.readdir, 17: self.readdirplus,
            19: self.fsinfo, 21: self.commit}

    def url(self, path, words=''):
        return f'nfs://127.0.0.1:{self.port}/e{path}' + (f'?{words}' if words else '')

    def make(self, type_, mode):
        inode = Inode(self.next_fileid, type_, mode)
        self.inodes[self.next_fileid] = inode
        self.next_fileid += 1
        return inode

    def add(self, name, data=None, target=None, parent=None):
        inode = self.make(DIRECTORY if data is None and target is None
                          else LINK if data is None else REG, 0o755)
        inode.data, inode.target = bytearray(data or b''), target or b''
        (parent or self.root).entries[name.encode() if isinstance(name, str) else name] = inode
        return inode

    def count(self, procedure):
        return self.calls.count(procedure)

    # ---- RPC ----

    def __enter__(self):
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listener.close()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        stream = nfs.Stream(connection)
        try:
            while True:
                for piece in self.frames(self.reply(Reader(stream.receive()))):
                    stream.send(piece)
        except (EOFError, OSError):
            connection.close()

    def reply(self, call):
        xid, _, _, prog, vers, proc = (call.u32() for _ in range(6))
        for _ in range(2):
            call.u32()
            call.opaque()
        head = u32(xid, 1, 0, 0, 0)
        with self.lock:
            if (prog, vers) == (100005, 3):
                return head + u32(0) + self.mount(proc, call)
            if (prog, vers) != (100003, 3) or proc not in self.procedures:
                return head + u32(3 if prog == 100003 else 1)
            self.calls.append(proc)
            if proc and self.jukebox(proc):
                return head + u32(0) + u32(10008) + self.failure(proc)
            return head + u32(0) + self.answer(proc, self.procedures[proc](call))

    def mount(self, proc, call):
        if proc == 1:
            if call.opaque() != b'/e':
                return u32(2)
            return u32(0) + self.handle(self.root) + u32(1, 1)
        return u32(1) + opaque('/e') + u32(0, 0) if proc == 5 else b''

    # ---- values ----

    @staticmethod
    def failure(proc):
        """What follows a status that is not OK: post_op_attr, wcc_data, or nothing."""
        wcc = proc in (2, 7, 8, 9, 10, 12, 13, 21)
        return b'' if proc == 1 else u32(0, 0) if wcc else u32(0)

    @staticmethod
    def handle(inode):
        return opaque(b'fake' + u64(inode.fileid))

    def post_op_attr(self, inode):
        return u32(0) if self.bare else u32(1) + inode.fattr()

    def post_op_fh(self, inode):
        return u32(0) if self.bare else u32(1) + self.handle(inode)

    def object(self, call):
        return self.inodes.get(struct.unpack('>Q', call.opaque()[4:])[0])

    @staticmethod
    def sattr(call, inode):
        for name in ('mode', 'uid', 'gid'):
            if call.bool():
                value = call.u32()
                if name == 'mode':
                    inode.mode = value
        if call.bool():
            size = call.u64()
            inode.data = inode.data[:size] + bytes(max(0, size - len(inode.data)))
        for name in ('atime', 'mtime'):
            if call.u32() == 2:
                setattr(inode, name, (call.u32(), call.u32()))

    # ---- procedures ----

    def getattr(self, call):
        return u32(0) + self.object(call).fattr()

    def setattr(self, call):
        inode = self.object(call)
        self.sattr(call, inode)
        return u32(0, 0) + self.post_op_attr(inode)

    def lookup(self, call):
        directory, name = self.object(call), call.opaque()
        inode = directory.entries.get(name)
        if inode is None:
            return u32(2, 0)
        return u32(0) + self.handle(inode) + self.post_op_attr(inode) + u32(0)

    def readlink(self, call):
        return u32(0, 0) + opaque(self.object(call).target)

    def read(self, call):
        inode, offset, count = self.object(call), call.u64(), call.u32()
        data = bytes(inode.data[offset:offset + min(count, self.read_max)])
        eof = offset + len(data) >= len(inode.data)
        return u32(0, 0, len(data), eof) + opaque(data)

    def write(self, call):
        inode, offset, _, stable = self.object(call), call.u64(), call.u32(), call.u32()
        data = call.opaque()[:self.write_max]
        inode.data.extend(bytes(max(0, offset - len(inode.data))))
        inode.data[offset:offset + len(data)] = data
        committed = stable if stable == FILE_SYNC else self.committed
        return u32(0, 0, 0, len(data), committed) + self.verf(7)

    def commit(self, call):
        self.object(call)
        return u32(0, 0, 0) + self.verf(21)

    def made(self, directory, name, type_, mode):
        inode = directory.entries.setdefault(name, None) or self.make(type_, mode)
        directory.entries[name] = inode
        return inode

    def create(self, call):
        directory, name, _ = self.object(call), call.opaque(), call.u32()
        inode = self.made(directory, name, REG, 0o644)
        self.sattr(call, inode)
        return u32(0) + self.post_op_fh(inode) + self.post_op_attr(inode) + u32(0, 0)

    def mkdir(self, call):
        directory, name = self.object(call), call.opaque()
        if name in directory.entries:
            return u32(17, 0, 0)
        inode = self.made(directory, name, DIRECTORY, 0o755)
        self.sattr(call, inode)
        return u32(0) + self.post_op_fh(inode) + self.post_op_attr(inode) + u32(0, 0)

    def symlink(self, call):
        directory, name = self.object(call), call.opaque()
        if name in directory.entries:
            return u32(17, 0, 0)
        inode = self.made(directory, name, LINK, 0o777)
        self.sattr(call, inode)
        inode.target = call.opaque()
        return u32(0) + self.post_op_fh(inode) + self.post_op_attr(inode) + u32(0, 0)

    def remove(self, call):
        directory, name = self.object(call), call.opaque()
        inode = directory.entries.get(name)
        if inode is None or (inode.type == DIRECTORY and inode.entries):
            return u32(2 if inode is None else 66, 0, 0)
        del directory.entries[name]
        return u32(0, 0, 0)

    def listing(self, call):
        directory, cookie = self.object(call), call.u64()
        call.take(8)
        names = [(b'.', directory), (b'..', directory), *directory.entries.items()]
        names += [(name, directory) for name in self.extra]
        part = list(enumerate(names, 1))[cookie:cookie + self.page]
        return part, cookie + len(part) >= len(names)

    def readdir(self, call):
        part, eof = self.listing(call)
        out = u32(0, 0) + bytes(8)
        for cookie, (name, inode) in part:
            out += u32(1) + u64(inode.fileid) + opaque(name) + u64(cookie)
        return out + u32(0, eof)

    def readdirplus(self, call):
        if not self.plus:
            return u32(10004, 0)
        part, eof = self.listing(call)
        out = u32(0, 0) + bytes(8)
        for cookie, (name, inode) in part:
            out += (u32(1) + u64(inode.fileid) + opaque(name) + u64(cookie)
                    + self.post_op_attr(inode) + self.post_op_fh(inode))
        return out + u32(0, eof)

    def fsinfo(self, _):
        size = 65536
        return (u32(0, 0, size, size, 1, size, size, 1, 4096) + u64(1 << 40) + u32(0, 1, 0x1b))
