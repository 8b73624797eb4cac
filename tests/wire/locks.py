# SPDX-License-Identifier: Apache-2.0
"""NLM and NSM by hand: machines that lock files, each at a loopback address of its own, with the
portmapper, lock manager and status monitor that a server calls back.

Layouts are those of XNFS chapters 10 and 11 and of RFC 1813 §6; nothing is shared with the server.
"""
import queue
import socket
import struct
import subprocess
import sys
import threading

from nfs import (Nfs, PMAP, Reader, Result, Server, Stream, Tcp, Udp, call_message, check, opaque,
                 record, u32, u64)

NLM, NSM = 100021, 100024
TEST, LOCK, CANCEL, UNLOCK, GRANTED, TEST_MSG, LOCK_MSG, CANCEL_MSG, UNLOCK_MSG, GRANTED_MSG, \
    TEST_RES, LOCK_RES, CANCEL_RES, UNLOCK_RES, GRANTED_RES = range(1, 16)
SHARE, UNSHARE, NM_LOCK, FREE_ALL = range(20, 24)
GRANTED_OK, DENIED, NOLOCKS, BLOCKED, GRACE, DEADLCK, ROFS, STALE_FH, FBIG, FAILED = range(10)
SM_STAT, SM_MON, SM_UNMON, SM_UNMON_ALL, SM_SIMU_CRASH, SM_NOTIFY = range(1, 7)
EVERYONE = '@work/export 127.0.0.0/8(rw,async,no_root_squash,insecure)'
PATIENCE = 60  # seconds for what must come


class LockServer(Server):
    """A server with its portmapper at 127.0.0.1, and nothing at other addresses. The machines that
    speak to it end with it."""

    def __init__(self, *arguments, directories=(EVERYONE,)):
        super().__init__(arguments=('--bind', '127.0.0.1', '--log-level', 'info', *arguments),
                         directories=list(directories), portmap='on')
        self.machines = []

    def __exit__(self, *error):
        for machine in self.machines:
            machine.close()
        super().__exit__(*error)


lock_server = LockServer


class Machine:
    """Calls from 127.0.0.`number`."""

    def __init__(self, server, number, name=None, vers=4, udp=False, state=0):
        self.address = f'127.0.0.{number}'
        self.name = name or f'machine{number}'
        self.vers, self.state, self.server, self.udp = vers, state, server, udp
        self.connect()
        server.machines.append(self)

    def connect(self):
        self.transport = (Udp if self.udp else Tcp)(self.server.port, source=(self.address, 0))
        self.nfs = Nfs(self.transport)

    def rpc(self, proc, args, prog=NLM, vers=None, xid=None):
        return self.nfs.rpc(proc, args, prog=prog, vers=vers or self.vers, xid=xid)

    def alock(self, fh, start, length, svid, oh):
        oh = f'{svid}@{self.name}' if oh is None else oh
        numbers = u64(start, length) if self.vers == 4 else u32(start, length)
        return opaque(self.name) + opaque(fh) + opaque(oh) + u32(svid) + numbers

    def lockargs(self, fh, start=0, length=0, exclusive=True, block=False, reclaim=False, svid=1,
                 oh=None, cookie=b'cook', state=None):
        return (opaque(cookie) + u32(block, exclusive) + self.alock(fh, start, length, svid, oh)
                + u32(reclaim, self.state if state is None else state))

    def cancargs(self, fh, start=0, length=0, exclusive=True, block=True, svid=1, oh=None,
                 cookie=b'cook'):
        return opaque(cookie) + u32(block, exclusive) + self.alock(fh, start, length, svid, oh)

    def unlockargs(self, fh, start=0, length=0, svid=1, oh=None, cookie=b'cook'):
        return opaque(cookie) + self.alock(fh, start, length, svid, oh)

    def testargs(self, fh, start=0, length=0, exclusive=True, svid=1, oh=None, cookie=b'cook'):
        return opaque(cookie) + u32(exclusive) + self.alock(fh, start, length, svid, oh)

    def _stat(self, proc, args, xid=None):
        reader = self.rpc(proc, args, xid=xid)
        check(reader.opaque() == b'cook', 'the cookie of the result')
        stat = reader.u32()
        reader.end()
        return stat

    def lock(self, fh, start=0, length=0, proc=LOCK, xid=None, **more):
        return self._stat(proc, self.lockargs(fh, start, length, **more), xid)

    def cancel(self, fh, start=0, length=0, xid=None, **more):
        return self._stat(CANCEL, self.cancargs(fh, start, length, **more), xid)

    def unlock(self, fh, start=0, length=0, xid=None, **more):
        return self._stat(UNLOCK, self.unlockargs(fh, start, length, **more), xid)

    def testres(self, reader):
        result = Result(None)
        check(reader.opaque() == b'cook', 'the cookie of the result')
        result.status = reader.u32()
        if result.status == DENIED:
            result.exclusive, result.svid, result.oh = reader.bool(), reader.u32(), reader.opaque()
            wide = self.vers == 4
            result.start = reader.u64() if wide else reader.u32()
            result.length = reader.u64() if wide else reader.u32()
        reader.end()
        return result

    def test(self, fh, start=0, length=0, **more):
        return self.testres(self.rpc(TEST, self.testargs(fh, start, length, **more)))

    def share(self, fh, mode, access, proc=SHARE, reclaim=False, oh=b'dos'):
        args = (opaque(b'cook') + opaque(self.name) + opaque(fh) + opaque(oh) + u32(mode, access)
                + u32(reclaim))
        reader = self.rpc(proc, args)
        check(reader.opaque() == b'cook', 'the cookie of the result')
        stat = reader.u32()
        reader.u32()
        reader.end()
        return stat

    def free_all(self, name=None):
        self.rpc(FREE_ALL, opaque(self.name if name is None else name) + u32(0)).end()

    def notify(self, name=None, state=5):
        """Its status monitor tells of its restart."""
        with Udp(self.server.port, source=(self.address, 0)) as udp:
            args = opaque(self.name if name is None else name) + u32(state)
            Nfs(udp).rpc(SM_NOTIFY, args, prog=NSM, vers=1).end()

    def close(self):
        self.transport.close()


class Call:
    """A call that the server has made to a machine."""

    def __init__(self, message, tcp):
        reader = Reader(message)
        self.xid = reader.u32()
        check(reader.u32() == 0 and reader.u32() == 2, 'a call of RPC version 2')
        self.prog, self.vers, self.proc = reader.u32(), reader.u32(), reader.u32()
        for _ in range(2):
            reader.u32()
            reader.opaque()
        self.args, self.tcp = reader, tcp

    def lock_args(self):
        """Of GRANTED and GRANTED_MSG."""
        reader, result = self.args, Result(None)
        result.cookie, result.exclusive = reader.opaque(), reader.bool()
        result.caller, result.fh, result.oh = reader.opaque(), reader.opaque(), reader.opaque()
        result.svid = reader.u32()
        wide = self.vers == 4
        result.start = reader.u64() if wide else reader.u32()
        result.length = reader.u64() if wide else reader.u32()
        reader.end()
        return result

    def res(self):
        """Of LOCK_RES and its like: cookie, stat."""
        result = self.args.opaque(), self.args.u32()
        self.args.end()
        return result


class Host(Machine):
    """A machine that can be called: portmapper, lock manager, status monitor.

    answers: what it says to GRANTED, one after the other, the last one for ever; None: nothing.
    """

    def __init__(self, server, number, answers=(GRANTED_OK,), programs=(NLM, NSM), tcp=True,
                 **more):
        super().__init__(server, number, **more)
        self.answers, self.programs, self.has_tcp = list(answers), programs, tcp
        self.calls = queue.Queue()
        self.sockets = []
        self.open = True
        self.port = self._listen(0)
        self._listen(111)

    def _listen(self, port):
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.bind((self.address, port))
        port = udp.getsockname()[1]
        tcp = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        tcp.bind((self.address, port))
        tcp.listen()
        self.sockets += [udp, tcp]
        threading.Thread(target=self._datagrams, args=(udp,), daemon=True).start()
        threading.Thread(target=self._connections, args=(tcp,), daemon=True).start()
        return port

    def _datagrams(self, udp):
        while self.open:
            try:
                message, source = udp.recvfrom(65536)
                reply = self._reply(message, False) if message else None  # closed
                if reply is not None:
                    udp.sendto(reply, source)
            except OSError:
                return

    def _connections(self, tcp):
        while self.open:
            try:
                connection, _ = tcp.accept()
            except OSError:
                return
            threading.Thread(target=self._stream, args=(Stream(connection),), daemon=True).start()

    def _stream(self, stream):
        try:
            while self.open:
                reply = self._reply(stream.receive(), True)
                if reply is not None:
                    stream.send(record(reply))
        except (EOFError, OSError):
            stream.close()

    def _reply(self, message, tcp):
        call = Call(message, tcp)
        head = u32(call.xid, 1, 0, 0, 0, 0)
        if call.prog == PMAP:
            prog, _, prot, _ = struct.unpack('>4I', call.args.take(16))
            known = prog in self.programs and (prot == 17 or self.has_tcp)
            return head + u32(self.port if known else 0)
        self.calls.put(call)
        if call.prog == NLM and call.proc == GRANTED:
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            cookie = Reader(call.args.data[call.args.at:]).opaque()
            return None if answer is None else head + opaque(cookie) + u32(answer)
        return head

    def called(self, proc, prog=NLM, timeout=PATIENCE):
        """The next call, which must be of this procedure."""
        try:
            call = self.calls.get(timeout=timeout)
        except queue.Empty:
            check(False, f'{self.name} was not called: {prog} {proc}\n{self.server.messages()}')
        check((call.prog, call.proc) == (prog, proc), f'called {call.prog} {call.proc}, '
                                                      f'not {prog} {proc}')
        return call

    def not_called(self, seconds=0.5):
        try:
            call = self.calls.get(timeout=seconds)
        except queue.Empty:
            return
        check(False, f'{self.name} was called: {call.prog} {call.proc}')

    def close(self):
        self.open = False
        super().close()
        for each in self.sockets:
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            each.close()


LOCAL = """import fcntl, sys
file = open(sys.argv[1], "r+b")
how = fcntl.LOCK_EX if sys.argv[2] == "True" else fcntl.LOCK_SH
try:
    fcntl.lockf(file, how | fcntl.LOCK_NB, int(sys.argv[4]), int(sys.argv[3]))
    print("locked", flush=True)
except OSError:
    print("blocked", flush=True)
sys.stdin.read()
"""


class LocalLock:
    """A lock of a program on the server, as fcntl(2) takes it; `taken` says whether it has it."""

    def __init__(self, path, exclusive=True, start=0, length=0):
        self.process = subprocess.Popen(
            [sys.executable, '-c', LOCAL, path, str(exclusive), str(start), str(length)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.pid = self.process.pid
        self.taken = self.process.stdout.readline() == b'locked\n'

    def close(self):
        self.process.communicate()


def local_would_block(path, exclusive=True, start=0, length=0):
    lock = LocalLock(path, exclusive, start, length)
    lock.close()
    return not lock.taken


def send_only(machine, proc, args, vers=None):
    """A call whose reply is void: the _MSG procedures."""
    machine.rpc(proc, args, vers=vers).end()


__all__ = [name for name in dir() if not name.startswith('_')] + ['call_message']
