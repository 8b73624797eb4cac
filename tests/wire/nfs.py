# SPDX-License-Identifier: Apache-2.0
"""NFSv3 by hand, for tests: starts a real server on a scratch export and speaks raw bytes to it.

Nothing here shares code with the server. Layouts are written down from RFC 1813, RFC 5531 and RFC
1833; a test reads like the RFC page it checks.
"""
import itertools
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import traceback

NFS, MOUNT, PMAP = 100003, 100005, 100000

# RFC 1813 §2.6
OK, PERM, NOENT, IO, NXIO, ACCES, EXIST, XDEV, NODEV, NOTDIR, ISDIR, INVAL, FBIG, NOSPC, ROFS, \
    MLINK, NAMETOOLONG, NOTEMPTY, DQUOT, STALE, REMOTE = \
    0, 1, 2, 5, 6, 13, 17, 18, 19, 20, 21, 22, 27, 28, 30, 31, 63, 66, 69, 70, 71
BADHANDLE, NOT_SYNC, BAD_COOKIE, NOTSUPP, TOOSMALL, SERVERFAULT, BADTYPE, JUKEBOX = \
    range(10001, 10009)

NULL, GETATTR, SETATTR, LOOKUP, ACCESS, READLINK, READ, WRITE, CREATE, MKDIR, SYMLINK, MKNOD, \
    REMOVE, RMDIR, RENAME, LINK, READDIR, READDIRPLUS, FSSTAT, FSINFO, PATHCONF, COMMIT = range(22)
UNSTABLE, DATA_SYNC, FILE_SYNC = range(3)
UNCHECKED, GUARDED, EXCLUSIVE = range(3)

# RFC 5531 §9
SUCCESS, PROG_UNAVAIL, PROG_MISMATCH, PROC_UNAVAIL, GARBAGE_ARGS, SYSTEM_ERR = range(6)


DEFAULT_BINARY = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                              '../../build/src/cli/holdfast')


class Failure(Exception):
    """A check that did not hold; the text says what was seen and what is right."""


def check(condition, text):
    if not condition:
        raise Failure(text)


def equal(seen, right, what):
    if seen != right:
        raise Failure(f'{what}: seen {seen!r}, right is {right!r}')


# ---- XDR, RFC 4506 ---------------------------------------------------------------------------

def u32(*words):
    return struct.pack('>%dI' % len(words), *[w & 0xffffffff for w in words])


def u64(*words):
    return struct.pack('>%dQ' % len(words), *[w & (2 ** 64 - 1) for w in words])


def opaque(data):
    if isinstance(data, str):
        data = data.encode()
    return u32(len(data)) + data + bytes(-len(data) % 4)


class Reader:
    """A cursor over reply bytes. Everything a test reads is checked to be there."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, size):
        check(self.at + size <= len(self.data),
              f'the reply ends after {len(self.data)} bytes, {self.at + size} are needed')
        self.at += size
        return self.data[self.at - size:self.at]

    def u32(self):
        return struct.unpack('>I', self.take(4))[0]

    def u64(self):
        return struct.unpack('>Q', self.take(8))[0]

    def bool(self):
        word = self.u32()
        check(word in (0, 1), f'a boolean is {word}')
        return word == 1

    def opaque(self):
        size = self.u32()
        data = self.take(size)
        check(not any(self.take(-size % 4)), 'XDR padding is not zero')
        return data

    def left(self):
        return len(self.data) - self.at

    def end(self):
        check(self.left() == 0, f'{self.left()} bytes too many at the end of the reply')


# ---- RPC, RFC 5531 ---------------------------------------------------------------------------

_xids = itertools.count(int.from_bytes(os.urandom(3), 'big') << 8)


def next_xid():
    return next(_xids) & 0xffffffff


def auth_sys(uid=0, gid=0, gids=(), host=b'probe'):
    return u32(1) + opaque(u32(0) + opaque(host) + u32(uid, gid, len(gids), *gids))


AUTH_NONE = u32(0, 0)


def call_message(prog, vers, proc, args=b'', xid=None, cred=None, rpcvers=2, verf=AUTH_NONE):
    return (u32(next_xid() if xid is None else xid, 0, rpcvers, prog, vers, proc)
            + (auth_sys() if cred is None else cred) + verf + args)


def record(message, cuts=()):
    """Record marking (§11), in fragments that end at the given offsets."""
    ends = [*cuts, len(message)]
    out, start = b'', 0
    for i, end in enumerate(ends):
        last = 0x80000000 if i == len(ends) - 1 else 0
        out += u32((end - start) | last) + message[start:end]
        start = end
    return out


class Reply:
    """The head of a reply, taken apart. body is a Reader behind accept_stat SUCCESS."""

    def __init__(self, message):
        self.message = message
        reader = Reader(message)
        self.xid = reader.u32()
        equal(reader.u32(), 1, 'msg_type')
        self.denied = reader.u32() == 1
        self.accept_stat = self.reject_stat = self.auth_stat = self.low = self.high = None
        if self.denied:
            self.reject_stat = reader.u32()
            if self.reject_stat == 0:
                self.low, self.high = reader.u32(), reader.u32()
            else:
                self.auth_stat = reader.u32()
            reader.end()
            return
        reader.u32()
        reader.opaque()
        self.accept_stat = reader.u32()
        if self.accept_stat == PROG_MISMATCH:
            self.low, self.high = reader.u32(), reader.u32()
        if self.accept_stat != SUCCESS:
            reader.end()
        self.body = reader


class Stream:
    """One connection that carries records."""

    def __init__(self, socket_):
        self.socket = socket_
        self.got = b''

    def send(self, data):
        self.socket.sendall(data)

    def exactly(self, size):
        parts, have = [self.got], len(self.got)
        while have < size:
            data = self.socket.recv(1 << 20)
            if not data:
                raise EOFError(f'the server closed after {have} of {size} bytes')
            parts.append(data)
            have += len(data)
        data = b''.join(parts)
        data, self.got = data[:size], data[size:]
        return data

    def receive(self):
        message = b''
        while True:
            mark = struct.unpack('>I', self.exactly(4))[0]
            message += self.exactly(mark & 0x7fffffff)
            if mark >> 31:
                return message

    def exchange(self, message, cuts=()):
        self.send(record(message, cuts))
        return self.receive()

    def closed(self, timeout=10):
        """True: the server has closed, with nothing more to read."""
        self.socket.settimeout(timeout)
        try:
            return self.socket.recv(1) == b''
        except ConnectionError:
            return True
        except socket.timeout:
            return False

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Tcp(Stream):
    def __init__(self, port, host='127.0.0.1', source=None, timeout=20):
        family = socket.AF_INET6 if ':' in host else socket.AF_INET
        super().__init__(socket.socket(family, socket.SOCK_STREAM))
        self.socket.settimeout(timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if source:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.socket.bind(source)
        self.socket.connect((host, port))


class Local(Stream):
    """The portmapper's local socket."""

    def __init__(self, path='/run/rpcbind.sock', timeout=20):
        super().__init__(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        self.socket.settimeout(timeout)
        self.socket.connect(path)


class Udp:
    """One socket, connected, so that only replies from the address that was asked are seen."""

    def __init__(self, port, host='127.0.0.1', source=None, timeout=20):
        family = socket.AF_INET6 if ':' in host else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_DGRAM)
        self.socket.settimeout(timeout)
        if source:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.socket.bind(source)
        self.socket.connect((host, port))

    def send(self, message):
        self.socket.send(message)

    def receive(self):
        return self.socket.recv(65536)

    def exchange(self, message):
        self.send(message)
        return self.receive()

    def silent(self, seconds=0.5):
        """True: nothing comes."""
        self.socket.settimeout(seconds)
        try:
            self.socket.recv(65536)
            return False
        except socket.timeout:
            return True
        finally:
            self.socket.settimeout(20)

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


# ---- NFSv3 values, RFC 1813 §2.5 -------------------------------------------------------------

def sattr(mode=None, uid=None, gid=None, size=None, atime=None, mtime=None):
    """Times: None, 'now' (server's), or (seconds, nseconds)."""
    out = b''
    for value in (mode, uid, gid):
        out += u32(0) if value is None else u32(1, value)
    out += u32(0) if size is None else u32(1) + u64(size)
    for value in (atime, mtime):
        out += u32(0) if value is None else u32(1) if value == 'now' else u32(2, *value)
    return out


class Fattr:
    FIELDS = ('type', 'mode', 'nlink', 'uid', 'gid')

    def __init__(self, reader):
        for name in self.FIELDS:
            setattr(self, name, reader.u32())
        self.size, self.used = reader.u64(), reader.u64()
        self.rdev = (reader.u32(), reader.u32())
        self.fsid, self.fileid = reader.u64(), reader.u64()
        self.atime = (reader.u32(), reader.u32())
        self.mtime = (reader.u32(), reader.u32())
        self.ctime = (reader.u32(), reader.u32())
        for time_ in (self.atime, self.mtime, self.ctime):
            check(time_[1] < 10 ** 9, f'a time has {time_[1]} nanoseconds')


def post_op_attr(reader):
    return Fattr(reader) if reader.bool() else None


class Wcc:
    def __init__(self, reader):
        self.before = None
        if reader.bool():
            self.before = (reader.u64(), (reader.u32(), reader.u32()),
                           (reader.u32(), reader.u32()))
        self.after = post_op_attr(reader)


class Result:
    """The status, and what else a result holds, by name."""

    def __init__(self, status):
        self.status = status

    def __getattr__(self, name):
        raise Failure(f'no {name} in a result with status {vars(self).get("status")}')

    def __repr__(self):
        return repr(vars(self))


class Nfs:
    """Procedures over one transport. Each returns a Result, the whole of which was read."""

    def __init__(self, transport, cred=None):
        self.transport = transport
        self.cred = cred

    def rpc(self, proc, args, prog=NFS, vers=3, xid=None):
        message = call_message(prog, vers, proc, args, cred=self.cred, xid=xid)
        reply = Reply(self.transport.exchange(message))
        equal(reply.message[:4], message[:4], 'xid of the reply')
        check(not reply.denied, f'the call was denied: {reply.reject_stat}/{reply.auth_stat}')
        equal(reply.accept_stat, SUCCESS, 'accept_stat')
        return reply.body

    def mount(self, path, vers=3):
        reader = self.rpc(1, opaque(path), prog=MOUNT, vers=vers)
        result = Result(reader.u32())
        if result.status == 0 and vers == 3:
            result.fh = reader.opaque()
            result.flavors = [reader.u32() for _ in range(reader.u32())]
        elif result.status == 0:
            result.fh = reader.take(32)
        reader.end()
        return result

    def _begin(self, proc, args):
        reader = self.rpc(proc, args)
        return Result(reader.u32()), reader

    def null(self):
        self.rpc(NULL, b'').end()

    def getattr(self, fh):
        result, reader = self._begin(GETATTR, opaque(fh))
        result.attr = Fattr(reader) if result.status == OK else None
        reader.end()
        return result

    def setattr(self, fh, guard=None, raw=None, **attributes):
        args = opaque(fh) + (raw if raw is not None else sattr(**attributes))
        result, reader = self._begin(SETATTR, args + (u32(0) if guard is None else u32(1, *guard)))
        result.wcc = Wcc(reader)
        reader.end()
        return result

    def lookup(self, fh, name):
        result, reader = self._begin(LOOKUP, opaque(fh) + opaque(name))
        if result.status == OK:
            result.fh = reader.opaque()
            result.attr = post_op_attr(reader)
        result.dir = post_op_attr(reader)
        reader.end()
        return result

    def access(self, fh, bits):
        result, reader = self._begin(ACCESS, opaque(fh) + u32(bits))
        result.attr = post_op_attr(reader)
        result.access = reader.u32() if result.status == OK else None
        reader.end()
        return result

    def readlink(self, fh):
        result, reader = self._begin(READLINK, opaque(fh))
        result.attr = post_op_attr(reader)
        result.text = reader.opaque() if result.status == OK else None
        reader.end()
        return result

    def read(self, fh, offset, count):
        result, reader = self._begin(READ, opaque(fh) + u64(offset) + u32(count))
        result.attr = post_op_attr(reader)
        if result.status == OK:
            result.count, result.eof, result.data = reader.u32(), reader.bool(), reader.opaque()
            equal(len(result.data), result.count, 'READ: size of data against count')
        reader.end()
        return result

    def write(self, fh, offset, data, stable=UNSTABLE, count=None):
        args = opaque(fh) + u64(offset) + u32(len(data) if count is None else count, stable)
        result, reader = self._begin(WRITE, args + opaque(data))
        result.wcc = Wcc(reader)
        if result.status == OK:
            result.count, result.committed, result.verf = reader.u32(), reader.u32(), reader.take(8)
        reader.end()
        return result

    def _new(self, proc, args):
        result, reader = self._begin(proc, args)
        result.fh = result.attr = None
        if result.status == OK:
            result.fh = reader.opaque() if reader.bool() else None
            result.attr = post_op_attr(reader)
        result.wcc = Wcc(reader)
        reader.end()
        return result

    def create(self, fh, name, how=UNCHECKED, verf=bytes(8), **attributes):
        tail = verf if how == EXCLUSIVE else sattr(**attributes)
        return self._new(CREATE, opaque(fh) + opaque(name) + u32(how) + tail)

    def mkdir(self, fh, name, **attributes):
        return self._new(MKDIR, opaque(fh) + opaque(name) + sattr(**attributes))

    def symlink(self, fh, name, text, **attributes):
        return self._new(SYMLINK, opaque(fh) + opaque(name) + sattr(**attributes) + opaque(text))

    def mknod(self, fh, name, ftype, rdev=(0, 0), **attributes):
        args = opaque(fh) + opaque(name) + u32(ftype)
        if ftype in (3, 4):
            args += sattr(**attributes) + u32(*rdev)
        elif ftype in (6, 7):
            args += sattr(**attributes)
        return self._new(MKNOD, args)

    def _changed(self, proc, args):
        result, reader = self._begin(proc, args)
        result.wcc = Wcc(reader)
        reader.end()
        return result

    def remove(self, fh, name):
        return self._changed(REMOVE, opaque(fh) + opaque(name))

    def rmdir(self, fh, name):
        return self._changed(RMDIR, opaque(fh) + opaque(name))

    def rename(self, from_fh, from_name, to_fh, to_name):
        result, reader = self._begin(RENAME, opaque(from_fh) + opaque(from_name)
                                     + opaque(to_fh) + opaque(to_name))
        result.from_wcc, result.to_wcc = Wcc(reader), Wcc(reader)
        reader.end()
        return result

    def link(self, fh, dir_fh, name):
        result, reader = self._begin(LINK, opaque(fh) + opaque(dir_fh) + opaque(name))
        result.attr, result.wcc = post_op_attr(reader), Wcc(reader)
        reader.end()
        return result

    def readdir(self, fh, cookie=0, verf=bytes(8), count=4096):
        result, reader = self._begin(READDIR, opaque(fh) + u64(cookie) + verf + u32(count))
        result.dir, result.entries = post_op_attr(reader), []
        if result.status == OK:
            result.size = len(reader.data) - (reader.at - (88 if result.dir else 4))
            result.verf = reader.take(8)
            while reader.bool():
                entry = Result(None)
                entry.fileid, entry.name, entry.cookie = (reader.u64(), reader.opaque(),
                                                          reader.u64())
                result.entries.append(entry)
            result.eof = reader.bool()
        reader.end()
        return result

    def readdirplus(self, fh, cookie=0, verf=bytes(8), dircount=4096, maxcount=32768):
        result, reader = self._begin(READDIRPLUS, opaque(fh) + u64(cookie) + verf
                                     + u32(dircount, maxcount))
        result.dir, result.entries = post_op_attr(reader), []
        if result.status == OK:
            result.size = len(reader.data) - (reader.at - (88 if result.dir else 4))
            result.verf = reader.take(8)
            while reader.bool():
                entry = Result(None)
                entry.fileid, entry.name, entry.cookie = (reader.u64(), reader.opaque(),
                                                          reader.u64())
                entry.attr = post_op_attr(reader)
                entry.fh = reader.opaque() if reader.bool() else None
                result.entries.append(entry)
            result.eof = reader.bool()
        reader.end()
        return result

    def fsstat(self, fh):
        result, reader = self._begin(FSSTAT, opaque(fh))
        result.attr = post_op_attr(reader)
        if result.status == OK:
            result.tbytes, result.fbytes, result.abytes, result.tfiles, result.ffiles, \
                result.afiles = (reader.u64() for _ in range(6))
            result.invarsec = reader.u32()
        reader.end()
        return result

    def fsinfo(self, fh):
        result, reader = self._begin(FSINFO, opaque(fh))
        result.attr = post_op_attr(reader)
        if result.status == OK:
            result.rtmax, result.rtpref, result.rtmult, result.wtmax, result.wtpref, \
                result.wtmult, result.dtpref = (reader.u32() for _ in range(7))
            result.maxfilesize = reader.u64()
            result.time_delta = (reader.u32(), reader.u32())
            result.properties = reader.u32()
        reader.end()
        return result

    def pathconf(self, fh):
        result, reader = self._begin(PATHCONF, opaque(fh))
        result.attr = post_op_attr(reader)
        if result.status == OK:
            result.linkmax, result.name_max = reader.u32(), reader.u32()
            result.no_trunc, result.chown_restricted, result.case_insensitive, \
                result.case_preserving = (reader.bool() for _ in range(4))
        reader.end()
        return result

    def commit(self, fh, offset=0, count=0):
        result, reader = self._begin(COMMIT, opaque(fh) + u64(offset) + u32(count))
        result.wcc = Wcc(reader)
        result.verf = reader.take(8) if result.status == OK else None
        reader.end()
        return result

    # ---- conveniences; each checks that it worked

    def new_file(self, fh, name, data=b'', **attributes):
        created = self.create(fh, name, **attributes)
        equal(created.status, OK, f'CREATE {name}')
        if data:
            equal(self.write(created.fh, 0, data, FILE_SYNC).status, OK, f'WRITE {name}')
        return created.fh

    def new_dir(self, fh, name, **attributes):
        made = self.mkdir(fh, name, **attributes)
        equal(made.status, OK, f'MKDIR {name}')
        return made.fh

    def walk(self, fh, plus=False, **limits):
        """Every entry of a directory, page by page."""
        entries, cookie, verf = [], 0, bytes(8)
        while True:
            page = (self.readdirplus if plus else self.readdir)(fh, cookie, verf, **limits)
            equal(page.status, OK, f'page behind cookie {cookie:#x}')
            entries += page.entries
            if page.eof:
                return entries
            check(page.entries, 'a page without entries that is not the last')
            cookie, verf = page.entries[-1].cookie, page.verf


# ---- the server ------------------------------------------------------------------------------

class Server:
    """`holdfast serve` on a scratch export and free loopback ports. Use with `with`."""

    def __init__(self, options='rw,sync,no_root_squash,insecure', arguments=(), prefix=(),
                 directories=None, portmap='off'):
        self.binary = os.environ.get('HOLDFAST', DEFAULT_BINARY)
        self.work = tempfile.mkdtemp(prefix='holdfast-wire-')
        self.export = os.path.join(self.work, 'export')
        self.state = os.path.join(self.work, 'state')
        os.mkdir(self.export)
        os.mkdir(self.state)
        if directories is None:
            directories = [f'{self.export}({options})']
        self.directories = directories
        self.directories = [d.replace('@work', self.work) for d in self.directories]
        self.arguments = ['--portmap', portmap, '--state', self.state, *arguments]
        self.prefix = list(prefix)
        self.pass_fds = ()
        self.process = None
        self.port = 0
        self.log = open(os.path.join(self.work, 'log'), 'w+b')

    def log_inside(self):
        """The log where --journal auto keeps it, but named: on an ext4 that has no journal of its
        own `auto` does without."""
        self.arguments += ['--journal', self.export + '/.holdfast/journal']
        return self

    def start(self, port=0):
        command = [*self.prefix, self.binary, 'serve', '--port', str(port), *self.arguments,
                   *self.directories]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=self.log, pass_fds=self.pass_fds)
        line = self.process.stdout.readline().decode(errors='replace')
        found = re.search(r'port (\d+)', line)
        check(found, f'no ready line from {command}: {line!r}\n{self.messages()}')
        self.port = int(found.group(1))
        return self

    def messages(self):
        with open(self.log.name, 'rb') as log:
            return log.read().decode(errors='replace')

    def stop(self, how=signal.SIGTERM, within=10):
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(how)
        try:
            code = self.process.wait(within)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise Failure(f'the server did not end within {within} s of signal {how}') from None
        finally:
            self.process.stdout.close()
        check(how == signal.SIGKILL or code == 0,
              f'the server ended with {code}\n{self.messages()}')

    def restart(self, how=signal.SIGTERM):
        self.stop(how)
        return self.start(self.port)

    def tcp(self, **more):
        return Tcp(self.port, **more)

    def udp(self, **more):
        return Udp(self.port, **more)

    def nfs(self, udp=False, cred=None, **more):
        return Nfs(self.udp(**more) if udp else self.tcp(**more), cred)

    def root(self, nfs=None):
        mounted = (nfs or self.nfs()).mount(self.export)
        equal(mounted.status, 0, 'MNT of the export')
        return mounted.fh

    def alive(self):
        check(self.process.poll() is None,
              f'the server died with {self.process.returncode}\n{self.messages()}')
        with self.tcp() as connection:
            Nfs(connection).null()

    def fd_count(self):
        return len(os.listdir(f'/proc/{self.process.pid}/fd'))

    def rss_kb(self):
        with open(f'/proc/{self.process.pid}/status', encoding='ascii') as status:
            return int(re.search(r'VmRSS:\s+(\d+)', status.read()).group(1))

    def has_sanitizer(self):
        with open(f'/proc/{self.process.pid}/maps', encoding='ascii', errors='replace') as maps:
            return 'asan' in maps.read()

    def cpu_seconds(self):
        with open(f'/proc/{self.process.pid}/stat', encoding='ascii') as stat:
            fields = stat.read().rsplit(')', 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise

    def __exit__(self, kind, *_):
        try:
            self.stop()
        except Failure:
            if kind is None:  # otherwise what went wrong first is of more interest
                raise
        finally:
            self.log.close()
            shutil.rmtree(self.work, ignore_errors=True)


# ---- running cases ---------------------------------------------------------------------------

def end_cleanly():
    """A test that takes too long is ended with SIGTERM: its server must end with it."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))


def have_own_network():
    """The portmapper's port and socket belong to the machine: starts this program again in network
    and mount namespaces of its own, unless that is where it runs."""
    if 'WIRE_OWN_NETWORK' not in os.environ:
        os.environ['WIRE_OWN_NETWORK'] = '1'
        script = 'mount -t tmpfs tmpfs /run; ip link set lo up; exec "$@"'
        os.execvp('unshare', ['unshare', '--net', '--mount', 'sh', '-ec', script, 'sh',
                              sys.executable, *sys.argv])


def have_own_mounts():
    """What a test mounts is nobody else's: starts this program again in a mount namespace."""
    if 'WIRE_OWN_MOUNTS' not in os.environ:
        os.environ['WIRE_OWN_MOUNTS'] = '1'
        os.execvp('unshare', ['unshare', '--mount', sys.executable, *sys.argv])


def run(cases, options='rw,async,no_root_squash,insecure', portmap='off'):
    """Runs cases against one server: functions of it, or of (server, client, fh) with a fresh
    directory to work in; those that take no argument start their own. Prints a line each."""
    end_cleanly()
    wanted = sys.argv[1:]
    failed = 0
    with Server(options, portmap=portmap) as server:
        for case in cases:
            name = case.__name__
            if wanted and name not in wanted:
                continue
            started = time.monotonic()
            try:
                count = case.__code__.co_argcount
                if count == 0:
                    case()
                elif count == 1:
                    case(server)
                else:
                    nfs = server.nfs()
                    case(server, nfs, nfs.new_dir(server.root(nfs), name, mode=0o777))
                    nfs.transport.close()
                if count > 0:
                    server.alive()
                verdict = 'ok'
            except Exception as error:  # one case must not hide the others
                failed += 1
                verdict = f'FAILED: {error}'
                if not isinstance(error, Failure):
                    traceback.print_exc()
            print(f'{name}: {verdict} ({time.monotonic() - started:.2f} s)', flush=True)
        if failed:
            print(server.messages(), file=sys.stderr)
    sys.exit(1 if failed else 0)
