#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Somebody else's code in the server: what it can reach. Nothing in the server helps here: system
calls are put into its main thread with ptrace(2), which is root, as an exploit would be."""
import ctypes
import errno
import os
import platform
import re
import signal
import socket
import struct
import subprocess
import sys
import time

import nfs
from cases_user import UserServer
from nfs import Server, check, equal

LIBC = ctypes.CDLL(None, use_errno=True)
ATTACH, DETACH, SINGLESTEP, GETREGS, SETREGS = 16, 17, 9, 12, 13
GETSIGINFO, SETSIGINFO = 0x4202, 0x4203
WALL = 0x40000000

# x86-64
SYS = {'read': 0, 'write': 1, 'mmap': 9, 'socket': 41, 'clone': 56, 'fork': 57, 'execve': 59,
       'kill': 62, 'chdir': 80, 'fchdir': 81, 'chmod': 90, 'chown': 92, 'ptrace': 101,
       'pivot_root': 155, 'chroot': 161, 'mount': 165, 'umount2': 166, 'openat': 257,
       'mknodat': 259, 'unshare': 272, 'open_by_handle_at': 304, 'setns': 308,
       'process_vm_readv': 310, 'seccomp': 317, 'memfd_create': 319, 'bpf': 321, 'execveat': 322,
       'io_uring_setup': 425, 'open_tree': 428, 'move_mount': 429, 'pidfd_open': 434,
       'openat2': 437, 'landlock_create_ruleset': 444, 'of_the_future': 1000}
AT_FDCWD = -100
O_PATH = 0o10000000
REFUSED = 'refused'


class Registers(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in (
        'r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss '
        'fs_base gs_base ds es fs gs').split()]


def ptrace(request, pid, data=None):
    LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    LIBC.ptrace.restype = ctypes.c_long
    if LIBC.ptrace(request, pid, None, data) < 0:
        raise OSError(ctypes.get_errno(), f'ptrace request {request}')


class Intruder:
    """The server's main thread, held between two instructions of its own."""

    def __init__(self, server):
        self.pid = server.process.pid
        self.ended = self.refused = None
        self.refusal = ctypes.create_string_buffer(128)  # siginfo_t
        self.has_left = False
        ptrace(ATTACH, self.pid)
        os.waitpid(self.pid, WALL)
        self.saved = Registers()
        ptrace(GETREGS, self.pid, ctypes.byref(self.saved))
        self.memory = os.open(f'/proc/{self.pid}/mem', os.O_RDWR)
        self.scratch = (self.saved.rsp - 65536) & ~0xfff
        instruction = os.pread(self.memory, 2, self.saved.rip - 2)
        equal(instruction, b'\x0f\x05', 'the instruction that the thread waits in')

    def put(self, data, at=0):
        os.pwrite(self.memory, data, self.scratch + at)
        return self.scratch + at

    def get(self, size, at=0):
        return os.pread(self.memory, size, self.scratch + at)

    def step(self):
        """The signal that the thread stops with."""
        ptrace(SINGLESTEP, self.pid)
        _, status = os.waitpid(self.pid, WALL)
        if os.WIFSIGNALED(status):
            self.ended = os.WTERMSIG(status)
            return None
        if os.WSTOPSIG(status) == signal.SIGSYS:
            ptrace(GETSIGINFO, self.pid, self.refusal)
        return os.WSTOPSIG(status)

    def is_pending(self, *signals):
        with open(f'/proc/{self.pid}/status', encoding='ascii') as status:
            mask = int(re.search(r'SigPnd:\s+(\w+)', status.read()).group(1), 16)
        return any(mask >> (number - 1) & 1 for number in signals)

    def call(self, name, *arguments):
        """The result, negative for an errno; REFUSED, and the signal that says so is not
        delivered; None: it was the end of the server."""
        values, at = [], 0
        for argument in arguments:
            if isinstance(argument, (bytes, str)):
                data = argument.encode() + b'\0' if isinstance(argument, str) else argument
                values.append(self.put(data, at))
                at += (len(data) + 63) & ~63
            else:
                values.append(argument)
        values += [0] * (6 - len(values))
        registers = Registers.from_buffer_copy(self.saved)
        registers.rip = self.saved.rip - 2
        registers.rax = SYS[name]
        registers.orig_rax = 2 ** 64 - 1
        for register, value in zip(('rdi', 'rsi', 'rdx', 'r10', 'r8', 'r9'), values):
            setattr(registers, register, value & (2 ** 64 - 1))
        ptrace(SETREGS, self.pid, ctypes.byref(registers))
        # The step and the refusal have a signal each, in either order.
        signals = [self.step()]
        while self.ended is None and self.is_pending(signal.SIGTRAP, signal.SIGSYS):
            signals.append(self.step())
        if self.ended is not None:
            return None
        if signal.SIGSYS in signals:
            self.refused = SYS[name]
            return REFUSED
        ptrace(GETREGS, self.pid, ctypes.byref(registers))
        return ctypes.c_longlong(registers.rax).value

    def leave(self, delivering=0):
        """As if nothing had been; delivering SIGSYS, as if the call that was refused last had been
        made in place of the wait."""
        os.close(self.memory)
        registers = Registers.from_buffer_copy(self.saved)
        registers.orig_rax = 2 ** 64 - 1
        # Or else the wait begins again.
        registers.rax = self.refused if delivering else 2 ** 64 - errno.EINTR
        ptrace(SETREGS, self.pid, ctypes.byref(registers))
        if delivering:
            ptrace(SETSIGINFO, self.pid, self.refusal)
        ptrace(DETACH, self.pid, delivering)
        self.has_left = True

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if self.ended is not None:
            os.close(self.memory)
        elif not self.has_left:
            self.leave()


def directories_of(server):
    """Descriptors of the server that are open directories."""
    found = []
    for name in os.listdir(f'/proc/{server.process.pid}/fd'):
        if os.path.isdir(f'/proc/{server.process.pid}/fd/{name}'):
            found.append(int(name))
    return found


def handle_of(path):
    """What open_by_handle_at(2) wants."""
    buffer = ctypes.create_string_buffer(8 + 128)
    struct.pack_into('=I', buffer, 0, 128)
    mount_id = ctypes.c_int()
    if LIBC.name_to_handle_at(AT_FDCWD, path.encode(), buffer, ctypes.byref(mount_id), 0) != 0:
        raise OSError(ctypes.get_errno(), path)
    return buffer.raw


def no_file_outside_is_opened(server):
    """By name, from wherever, and a device made for the purpose."""
    secret = server.work + '/secret'
    with open(secret, 'w', encoding='ascii') as out:
        out.write('not exported')
    disk = os.stat(server.export).st_dev
    with Intruder(server) as intruder:
        inside = intruder.call('openat', AT_FDCWD, server.state + '/handle-key', os.O_RDONLY)
        check(inside >= 0, f'the attempts prove nothing: the state is not there ({inside})')
        for path in ('/etc/shadow', secret, server.export, f'/proc/{os.getpid()}/root' + secret,
                     '/proc/1/root/etc/shadow', '/proc/self/root' + secret,
                     '/proc/self/fd/../../../etc/shadow', '/dev/mem', '/sys/kernel/uevent_helper'):
            for flags in (os.O_RDONLY, os.O_RDWR, O_PATH):
                got = intruder.call('openat', AT_FDCWD, path, flags)
                check(got < 0, f'{path} was opened with flags {flags:#o}')
        way_up = '/..' * 20
        fds = directories_of(server)
        check(len(fds) > 1, f'directories of the server: {fds}')
        for fd in fds:
            for path in (way_up[1:] + '/etc/shadow', way_up[1:] + secret):
                got = intruder.call('openat', fd, path, os.O_RDONLY)
                check(got < 0, f'{path} was opened from descriptor {fd}')
        for fd in fds:
            intruder.call('mknodat', fd, 'disk', 0o60600, os.makedev(os.major(disk),
                                                                     os.minor(disk)))
            got = intruder.call('openat', fd, 'disk', os.O_RDONLY)
            check(got < 0, f'the disk was opened from descriptor {fd}')
    check(os.path.exists(server.export + '/disk'), 'the device was not even made')
    server.alive()


def no_other_file_system_is_reached_by_handle(server):
    """A handle needs a descriptor of its file system, and there is none but of what is exported."""
    secret = f'/dev/shm/holdfast-{os.getpid()}'
    with open(secret, 'w', encoding='ascii') as out:
        out.write('not exported')
    try:
        inside = server.export + '/inside'
        with open(inside, 'w', encoding='ascii') as out:
            out.write('exported')
        check(os.stat(secret).st_dev != os.stat(inside).st_dev, 'one file system')
        good, bad = handle_of(inside), handle_of(secret)
        with Intruder(server) as intruder:
            fds = [*directories_of(server), AT_FDCWD]
            opened = [fd for fd in fds if intruder.call('open_by_handle_at', fd, good, 0) >= 0]
            check(opened, 'the attempts prove nothing: an exported file has no handle')
            for fd in fds:
                got = intruder.call('open_by_handle_at', fd, bad, 0)
                check(got < 0, f'{secret} was opened by handle from descriptor {fd}')
    finally:
        os.unlink(secret)
    server.alive()


def a_plain_users_server_keeps_to_its_exports():
    """Which is not in a jail: what its user may read is there to be opened, but for Landlock."""
    with UserServer() as server:
        secret = server.work + '/secret'
        with open(secret, 'w', encoding='ascii') as out:
            out.write('not exported')
        os.chmod(secret, 0o644)
        with open(server.export + '/inside', 'w', encoding='ascii') as out:
            out.write('exported')
        with Intruder(server) as intruder:
            for path in server.state + '/handle-key', server.export + '/inside':
                got = intruder.call('openat', AT_FDCWD, path, os.O_RDONLY)
                check(got >= 0, f'the attempts prove nothing: no {path} ({got})')
            fds = [*directories_of(server), AT_FDCWD]
            check(len(fds) > 2, f'directories of the server: {fds}')
            for path in ('/etc/passwd', secret, f'/proc/{server.process.pid}/maps',
                         '/proc/self/root' + secret, server.export + '/../secret'):
                for flags in (os.O_RDONLY, os.O_RDWR):
                    got = intruder.call('openat', AT_FDCWD, path, flags)
                    check(got < 0, f'{path} was opened with flags {flags:#o}')
            for fd in fds:
                got = intruder.call('openat', fd, '../' * 20 + secret[1:], os.O_RDONLY)
                check(got < 0, f'{secret} was opened from descriptor {fd}')
            new = server.work + '/export/../new'
            check(intruder.call('openat', AT_FDCWD, new, os.O_WRONLY | os.O_CREAT) < 0, new)
        server.alive()
        client = server.nfs()
        client.new_file(server.root(client), 'file', b'data')


def what_is_no_servers_business_fails(server):
    """And the server goes on."""
    with Intruder(server) as intruder:
        equal(intruder.call('socket', int(socket.AF_UNIX), 1, 0), -errno.EAFNOSUPPORT, 'AF_UNIX')
        for name, *arguments in (('socket', int(socket.AF_PACKET), 3, 0),
                                 ('chdir', '/'), ('kill', os.getpid(), 0), ('fork',),
                                 ('memfd_create', 'x', 0),
                                 ('mmap', 0, 4096, 7, 0x22, -1, 0)):
            equal(intruder.call(name, *arguments), REFUSED, name)
    server.alive()


def what_is_refused_fails_and_is_said_once(server):
    """Also a call that the kernel got after the server was written."""
    for name, times, said in (('memfd_create', 2, 1), ('of_the_future', 1, 1)):
        line = f'system call {SYS[name]} was refused'
        for _ in range(times):
            with Intruder(server) as intruder:
                equal(intruder.call(name, 0, 0), REFUSED, name)
                intruder.leave(delivering=signal.SIGSYS)
            server.alive()
        end = time.monotonic() + 10
        while line not in server.messages():
            check(time.monotonic() < end, f'no line of {name}: {server.messages()}')
            time.sleep(0.02)
        equal(server.messages().count(line), said, f'lines of {name}')


def what_only_an_intruder_does_ends_the_server():
    for name, *arguments in (('execve', '/bin/sh', 0, 0), ('execveat', AT_FDCWD, '/bin/sh', 0, 0),
                             ('ptrace', 16, 1), ('mount', 'x', '/', 'tmpfs', 0, 0),
                             ('setns', 0, 0), ('unshare', 0x20000), ('chroot', '/'),
                             ('open_tree', AT_FDCWD, '/', 1), ('bpf', 0, 0, 0),
                             ('io_uring_setup', 1, 0), ('pidfd_open', 1, 0)):
        server = Server().start()
        try:
            with Intruder(server) as intruder:
                equal((name, intruder.call(name, *arguments)), (name, None), 'system call')
                equal((name, intruder.ended), (name, signal.SIGSYS), 'how the server ended')
            server.process.returncode = -signal.SIGSYS
        finally:
            server.process.stdout.close()
            server.__exit__(None)


def helpers_of(server):
    """The processes beside the server, by name."""
    with open(f'/proc/{server.process.pid}/task/{server.process.pid}/children',
              encoding='ascii') as children:
        pids = children.read().split()
    found = {}
    for pid in pids:
        with open(f'/proc/{pid}/comm', encoding='ascii') as comm:
            found[comm.read().strip()] = int(pid)
    return found


def packet_sockets(server):
    """Descriptors of SOCK_SEQPACKET sockets, in order; the opener's is the first."""
    with open('/proc/net/unix', encoding='ascii', errors='replace') as table:
        inodes = {line.split()[6] for line in table.read().splitlines()[1:]
                  if line.split()[4] == '0005'}
    found = []
    for name in os.listdir(f'/proc/{server.process.pid}/fd'):
        target = os.readlink(f'/proc/{server.process.pid}/fd/{name}')
        match = re.fullmatch(r'socket:\[(\d+)\]', target)
        if match and match.group(1) in inodes:
            found.append(int(name))
    return sorted(found)


def the_opener_opens_only_exports(server):
    """Asked as the server asks: struct request of daemon/opener.c."""
    equal(sorted(helpers_of(server)), ['holdfast-finder', 'holdfast-opener'], 'helpers')
    fd = packet_sockets(server)[0]
    link = server.export + '/link_out'
    os.symlink('/etc', link)
    with Intruder(server) as intruder:
        def ask(path):
            request = struct.pack('=II', 0, 0) + path.encode().ljust(4096, b'\0')
            equal(intruder.call('write', fd, request, len(request)), len(request), 'request')
            got = intruder.call('read', fd, intruder.scratch, 8192)
            check(got > 4, f'no answer: {got}')
            return struct.unpack('=i', intruder.get(4))[0]

        equal(ask(server.export), 0, 'asking for the export')
        for path in ('/etc', '/', server.work, server.export + '/..', server.export + '/../..',
                     server.export + '/.', server.export + '//', link, server.state, '',
                     'etc', '/proc', '/dev/shm'):
            equal((path, ask(path)), (path, errno.EACCES), 'asking for')
    server.alive()


def helpers_have_little_and_end_with_the_server():
    def capabilities(pid):
        with open(f'/proc/{pid}/status', encoding='ascii') as status:
            return int(re.search(r'CapPrm:\s+(\w+)', status.read()).group(1), 16)

    server = Server().start()
    helpers = helpers_of(server)
    equal(capabilities(helpers['holdfast-finder']), 1 << 2, 'CAP_DAC_READ_SEARCH and no more')
    equal(capabilities(server.process.pid) & (1 << 21 | 1 << 18 | 1 << 19), 0,
          'CAP_SYS_ADMIN, CAP_SYS_CHROOT, CAP_SYS_PTRACE of the server')
    server.stop(signal.SIGKILL)
    end = time.monotonic() + 10
    for name, pid in helpers.items():
        while os.path.exists(f'/proc/{pid}') and state_of(pid) != 'Z':
            check(time.monotonic() < end, f'{name} runs on without its server')
            time.sleep(0.02)
    server.__exit__(None)


def what_is_missing_is_said_or_refused():
    """auto: a line, and it serves; on: no server."""
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'without.py')
    for name, error, words in (('unshare', errno.EPERM, 'sandbox: no mount namespace of its own'),
                               ('landlock_create_ruleset', errno.ENOSYS, 'sandbox: no Landlock'),
                               ('seccomp', errno.ENOSYS,
                                'sandbox: system calls are not filtered')):
        without = ['/usr/bin/python3', script, str(SYS[name]), str(error)]
        with Server(prefix=without) as server:
            check(words in server.messages(), f'without {name}: {server.messages()!r}')
            equal(server.messages().count('sandbox: '), 1, f'lines without {name}')
            server.root()
            command = [*without, server.binary, 'serve', '--port', '0', '--sandbox', 'on',
                       '--portmap', 'off', '--state', server.work + '/other', server.export]
            os.mkdir(server.work + '/other')
            done = subprocess.run(command, capture_output=True, timeout=60, text=True, check=False)
            equal((name, done.returncode), (name, 3), f'on: {done.stdout}{done.stderr}')
            check(f'--sandbox on: {words}' in done.stderr, done.stderr)
            equal(done.stdout, '', 'said to be ready')


def a_helper_that_died_is_said(server):
    """Who has mounted already is served on; what would have to be looked up fails, and not without
    a word."""
    fh = server.root()
    for name, ask in (('finder', lambda: server.nfs().mount(server.export).status),
                      ('opener', lambda: server.process.send_signal(signal.SIGHUP))):
        os.kill(helpers_of(server)[f'holdfast-{name}'], signal.SIGKILL)
        check(ask() != 0, f'without the {name} a mount went well')
        end = time.monotonic() + 10
        while f'holdfast-{name}' not in server.messages():
            check(time.monotonic() < end, f'no line about the {name}: {server.messages()}')
            time.sleep(0.02)
        equal(server.nfs().getattr(fh).status, 0, f'GETATTR without the {name}')


def state_of(pid):
    try:
        with open(f'/proc/{pid}/stat', encoding='ascii') as stat:
            return stat.read().rsplit(')', 1)[1].split()[0]
    except OSError:
        return 'Z'


def why_not():
    """Why this cannot be tried here, or None."""
    if os.geteuid() != 0 or platform.machine() != 'x86_64':
        return 'needs root, to put system calls into a process, and x86-64'
    with Server() as server:
        if server.has_sanitizer():
            return 'a build with sanitizers has no sandbox'
        if 'sandbox: ' in server.messages():
            return f'no sandbox here: {server.messages()}'
    return None


if __name__ == '__main__':
    REASON = why_not()
    if REASON:
        print('skipped:', REASON)
        sys.exit(77)
    nfs.run([
        no_file_outside_is_opened,
        no_other_file_system_is_reached_by_handle,
        a_plain_users_server_keeps_to_its_exports,
        what_is_no_servers_business_fails,
        what_is_refused_fails_and_is_said_once,
        the_opener_opens_only_exports,
        what_only_an_intruder_does_ends_the_server,
        what_is_missing_is_said_or_refused,
        helpers_have_little_and_end_with_the_server,
        a_helper_that_died_is_said,
    ])
