# SPDX-License-Identifier: Apache-2.0
"""NFSv2 by hand, for tests: the procedures of RFC 1094 §2.2 over a transport of nfs.py, written
down from its pages; nothing is shared with the server."""
import nfs
from nfs import OK, Result, check, equal, opaque, u32

NULL, GETATTR, SETATTR, ROOT, LOOKUP, READLINK, READ, WRITECACHE, WRITE, CREATE, REMOVE, RENAME, \
    LINK, SYMLINK, MKDIR, RMDIR, READDIR, STATFS = range(18)
# §2.3.1
STATUSES = (0, 1, 2, 5, 6, 13, 17, 19, 20, 21, 27, 28, 30, 63, 66, 69, 70, 99)
NFNON, NFREG, NFDIR, NFBLK, NFCHR, NFLNK, NFSOCK = range(7)
KEEP = 0xffffffff
NOW = (0, 1000000)  # Sun's convention
FHSIZE, MAXDATA = 32, 8192


def sattr(mode=KEEP, uid=KEEP, gid=KEEP, size=KEEP, atime=(KEEP, KEEP), mtime=(KEEP, KEEP)):
    return u32(mode, uid, gid, size, *atime, *mtime)


def fhandle(fh):
    check(len(fh) <= FHSIZE, f'a handle of {len(fh)} bytes')
    return fh.ljust(FHSIZE, b'\0')


class Fattr:
    FIELDS = ('type', 'mode', 'nlink', 'uid', 'gid', 'size', 'blocksize', 'rdev', 'blocks', 'fsid',
              'fileid')

    def __init__(self, reader):
        for name in self.FIELDS:
            setattr(self, name, reader.u32())
        self.atime = (reader.u32(), reader.u32())
        self.mtime = (reader.u32(), reader.u32())
        self.ctime = (reader.u32(), reader.u32())
        for time_ in (self.atime, self.mtime, self.ctime):
            check(time_[1] < 10 ** 6, f'a time has {time_[1]} microseconds')


class Nfs2(nfs.Nfs):
    """Each procedure returns a Result, the whole of which was read."""

    def rpc(self, proc, args, prog=nfs.NFS, vers=2, xid=None):
        return super().rpc(proc, args, prog, vers, xid)

    def mount(self, path, vers=1):
        return super().mount(path, vers)

    def _begin(self, proc, args):
        result, reader = super()._begin(proc, args)
        check(result.status in STATUSES, f'status {result.status} is not one of version 2')
        return result, reader

    def _attrstat(self, proc, args):
        result, reader = self._begin(proc, args)
        if result.status == OK:
            result.attr = Fattr(reader)
        reader.end()
        return result

    def _diropres(self, proc, args):
        result, reader = self._begin(proc, args)
        if result.status == OK:
            result.fh, result.attr = reader.take(FHSIZE), Fattr(reader)
        reader.end()
        return result

    def _stat(self, proc, args):
        result, reader = self._begin(proc, args)
        reader.end()
        return result

    def getattr(self, fh):
        return self._attrstat(GETATTR, fhandle(fh))

    def setattr(self, fh, **attributes):
        return self._attrstat(SETATTR, fhandle(fh) + sattr(**attributes))

    def lookup(self, fh, name):
        return self._diropres(LOOKUP, fhandle(fh) + opaque(name))

    def readlink(self, fh):
        result, reader = self._begin(READLINK, fhandle(fh))
        if result.status == OK:
            result.text = reader.opaque()
        reader.end()
        return result

    def read(self, fh, offset, count, totalcount=0):
        result, reader = self._begin(READ, fhandle(fh) + u32(offset, count, totalcount))
        if result.status == OK:
            result.attr, result.data = Fattr(reader), reader.opaque()
            check(len(result.data) <= min(count, MAXDATA), f'READ of {len(result.data)} bytes')
        reader.end()
        return result

    def write(self, fh, offset, data, beginoffset=0, totalcount=0):
        return self._attrstat(WRITE, fhandle(fh) + u32(beginoffset, offset, totalcount)
                              + opaque(data))

    def create(self, fh, name, **attributes):
        return self._diropres(CREATE, fhandle(fh) + opaque(name) + sattr(**attributes))

    def mkdir(self, fh, name, **attributes):
        return self._diropres(MKDIR, fhandle(fh) + opaque(name) + sattr(**attributes))

    def remove(self, fh, name):
        return self._stat(REMOVE, fhandle(fh) + opaque(name))

    def rmdir(self, fh, name):
        return self._stat(RMDIR, fhandle(fh) + opaque(name))

    def rename(self, from_fh, from_name, to_fh, to_name):
        return self._stat(RENAME, fhandle(from_fh) + opaque(from_name)
                          + fhandle(to_fh) + opaque(to_name))

    def link(self, fh, dir_fh, name):
        return self._stat(LINK, fhandle(fh) + fhandle(dir_fh) + opaque(name))

    def symlink(self, fh, name, text, **attributes):
        return self._stat(SYMLINK, fhandle(fh) + opaque(name) + opaque(text)
                          + sattr(**attributes))

    def readdir(self, fh, cookie=bytes(4), count=4096):
        result, reader = self._begin(READDIR, fhandle(fh) + cookie + u32(count))
        if result.status == OK:
            size, result.entries = reader.left(), []
            check(size <= min(count, MAXDATA), f'READDIR: {size} bytes, {count} were asked for')
            while reader.bool():
                entry = Result(None)
                entry.fileid, entry.name, entry.cookie = (reader.u32(), reader.opaque(),
                                                          reader.take(4))
                result.entries.append(entry)
            result.eof = reader.bool()
            check(result.entries or result.eof, 'a page without entries that is not the last')
        reader.end()
        return result

    def statfs(self, fh):
        result, reader = self._begin(STATFS, fhandle(fh))
        if result.status == OK:
            result.tsize, result.bsize, result.blocks, result.bfree, result.bavail = \
                (reader.u32() for _ in range(5))
        reader.end()
        return result

    # ---- conveniences; each checks that it worked

    def new_file(self, fh, name, data=b'', **attributes):
        created = self.create(fh, name, **{'mode': 0o644, 'size': 0, **attributes})
        equal(created.status, OK, f'CREATE {name}')
        for at in range(0, len(data), MAXDATA):
            equal(self.write(created.fh, at, data[at:at + MAXDATA]).status, OK, f'WRITE {name}')
        return created.fh

    def new_dir(self, fh, name, **attributes):
        made = self.mkdir(fh, name, **attributes)
        equal(made.status, OK, f'MKDIR {name}')
        return made.fh

    def read_all(self, fh, step=MAXDATA):
        data = b''
        while True:
            read = self.read(fh, len(data), step)
            equal(read.status, OK, f'READ at {len(data)}')
            data += read.data
            if len(read.data) < step:
                return data

    def walk(self, fh, count=4096):
        """Every entry of a directory, page by page."""
        entries, cookie = [], bytes(4)
        while True:
            page = self.readdir(fh, cookie, count)
            equal(page.status, OK, f'page behind cookie {cookie.hex()}')
            entries += page.entries
            if page.eof:
                return entries
            cookie = page.entries[-1].cookie
