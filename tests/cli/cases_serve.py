#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Starting, refusing to start, and stopping."""
import os
import re
import signal
import socket
import subprocess
import time

from cli import (BINARY, CANNOT, DONE, Ended, Serving, check, equal, holdfast, quiet, run,
                 write)
from nfs import Nfs, Tcp, Udp


def ready_line_names_path_port_and_mount(work):
    with Serving(*quiet(work), f'{work}/export') as serving:
        found = re.fullmatch(
            r'holdfast: ready: (\S+) on port (\d+) \(tcp, udp\); mount -t nfs '
            r'-o nolock,vers=3,proto=tcp,port=(\d+),mountport=(\d+) 127\.0\.0\.1:(\S+) /mnt\n',
            serving.ready)
        check(found, serving.ready)
        equal({found.group(1), found.group(5)}, {f'{work}/export'}, 'paths')
        equal(len({found.group(2), found.group(3), found.group(4)}), 1, 'different ports')
        for transport in (Tcp, Udp):
            Nfs(transport(serving.port)).null()


def ready_line_quotes_what_a_shell_would_take_apart(work):
    os.mkdir(f'{work}/a b')
    with Serving(*quiet(work), f'"{work}/a b"') as serving:
        check(f" '127.0.0.1:{work}/a b' /mnt" in serving.ready, serving.ready)


def ready_line_puts_ipv6_in_brackets(work):
    with Serving('--port', '0', '--portmap', 'off', '--state', f'{work}/state', '--bind', '::1',
                 f'{work}/export') as serving:
        check(f' [::1]:{work}/export /mnt' in serving.ready, serving.ready)


def ready_line_names_a_host_that_may_mount(work):
    options = ['--port', '0', '--portmap', 'off', '--state', f'{work}/state']
    for argument, host in ((f'{work}/export', 'localhost'),
                           (f'{work}/export 127.0.0.1(ro)', 'localhost'),
                           (f'{work}/export 127.0.0.1 10.0.0.0/8', socket.gethostname())):
        with Serving(*options, argument) as serving:
            check(f' {host}:{work}/export /mnt' in serving.ready, serving.ready)


def signals_stop_it_cleanly(work):
    for number in (signal.SIGTERM, signal.SIGINT):
        with Serving(*quiet(work), f'{work}/export') as serving:
            ended = serving.stop(number).ends(DONE)
            equal(ended.out, '', 'more than the ready line')


def a_signal_while_it_starts_ends_it(work):
    fifo = f'{work}/exports'
    os.mkfifo(fifo)  # reading it waits, as looking up a name may
    with subprocess.Popen([BINARY, 'serve', *quiet(work), '--exports', fifo]) as process:
        time.sleep(0.3)
        process.terminate()
        equal(process.wait(10), -signal.SIGTERM, 'how it ended')


def hangup_does_not_stop_it(work):
    with Serving(*quiet(work), f'{work}/export') as serving:
        serving.process.send_signal(signal.SIGHUP)
        time.sleep(0.2)
        Nfs(Tcp(serving.port)).null()
        serving.stop().ends(DONE)


def a_full_pipe_or_file_does_not_stop_it(work):
    with Serving(*quiet(work), f'{work}/export') as serving:
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            serving.process.send_signal(number)
        time.sleep(0.2)
        Nfs(Tcp(serving.port)).null()


def bad_directories_are_named(work):
    write(f'{work}/file', '')
    for argument, words in ((f'{work}/missing', [f'{work}/missing', 'No such file']),
                            ('missing', ['missing', 'No such file']),
                            (f'{work}/file', [f'{work}/file', 'directory']),
                            ('/proc', ['/proc']),
                            (f'{work}/export(frob)', ["'frob'"]),
                            (f'{work}/export 10.0.0.300(rw)', ['10.0.0.300'])):
        holdfast('serve', *quiet(work), argument).ends(CANNOT).says('holdfast: ', *words)


def a_bad_exports_file_is_a_reason_not_to_start(work):
    file = write(f'{work}/exports', f'{work}/export 127.0.0.1(rw,insecure)\n'
                                    '/x 1.2.3(rw)\n/y *(frob)\n')
    holdfast('serve', *quiet(work), '--exports', file).ends(CANNOT).says(
        f'{file}:2: error: ', f'{file}:3: error: ', '--skip-bad-lines')
    with Serving(*quiet(work), '--exports', file, '--skip-bad-lines') as serving:
        equal(Nfs(Tcp(serving.port)).mount(f'{work}/export').status, 0, 'MNT of the good line')
        serving.stop().ends(DONE).says(f'{file}:2: error: ')


def warnings_are_said_and_no_reason(work):
    file = write(f'{work}/exports', f'{work}/export 127.0.0.1 (rw,insecure)\n')
    with Serving(*quiet(work), '--exports', file) as serving:
        serving.stop().ends(DONE).says(f'{file}:1: warning: ', 'everyone')


def exports_files_that_say_nothing_are_named(work):
    file = write(f'{work}/exports', '# nothing yet\n')
    holdfast('serve', *quiet(work), '--exports', file).ends(CANNOT).says(file, 'no export')
    holdfast('serve', *quiet(work), '--exports', f'{work}/missing').ends(CANNOT).says(
        f'{work}/missing', 'No such file')


def a_port_in_use_is_said_with_what_to_do(work):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        with socket.socket(socket.AF_INET, kind) as other:
            other.bind(('127.0.0.1', 0))
            if kind == socket.SOCK_STREAM:
                other.listen()
            port = other.getsockname()[1]
            holdfast('serve', *quiet(work), '--port', port, f'{work}/export').ends(CANNOT).says(
                f'127.0.0.1:{port}', '--port', 'ss -lnp')


def an_address_that_is_not_ours_is_said(work):
    for address, words in (('192.0.2.1', ['192.0.2.1', '--bind']),
                           ('no-such-host.invalid', ['no-such-host.invalid', '--bind'])):
        holdfast('serve', '--port', '0', '--portmap', 'off', '--state', f'{work}/state', '--bind',
                 address, f'{work}/export').ends(CANNOT).says(*words)


def every_address_of_bind_is_served(work):
    with Serving(*quiet(work), '--bind', '127.0.0.2', '--bind', '::1', f'{work}/export') as serving:
        for host in ('127.0.0.1', '127.0.0.2', '::1'):
            Nfs(Tcp(serving.port, host=host)).null()
        try:
            Tcp(serving.port, host='127.0.0.3')
            check(False, '127.0.0.3 is served, and was not named')
        except ConnectionRefusedError:
            pass


def a_state_directory_that_cannot_be_is_named(work):
    write(f'{work}/file', '')
    options = ['--port', '0', '--portmap', 'off', '--bind', '127.0.0.1', f'{work}/export',
               '--state']
    for state, words in ((f'{work}/file', ['directory']), (f'{work}/file/state', []),
                         ('/proc/state', []), (work + '/' + 'n' * 256, ['too long'])):
        holdfast('serve', *options, state).ends(CANNOT).says(state, '--state', *words)


def a_state_directory_others_can_write_is_refused(work):
    os.chmod(f'{work}/state', 0o777)
    holdfast('serve', *quiet(work), f'{work}/export').ends(CANNOT).says(
        f'{work}/state', 'chmod 700')


def a_state_directory_is_made_with_its_parents(work):
    state = f'{work}/var/lib/holdfast'
    with Serving('--port', '0', '--portmap', 'off', '--bind', '127.0.0.1', '--state', state,
                 f'{work}/export'):
        equal(os.stat(state).st_mode & 0o7777, 0o700, 'mode of the state directory')
        equal(os.stat(f'{work}/var').st_mode & 0o7777, 0o755, 'mode of its parent')


def a_state_directory_serves_one(work):
    with Serving(*quiet(work), f'{work}/export') as serving:
        holdfast('serve', *quiet(work), f'{work}/export').ends(CANNOT).says(
            f'{work}/state', str(serving.process.pid), '--state')
        serving.process.kill()
        serving.process.wait()
        with Serving(*quiet(work), f'{work}/export'):
            pass


def what_is_refused_leaves_no_trace(work):
    holdfast('serve', *quiet(work), '--state', f'{work}/new', f'{work}/export(frob)').ends(CANNOT)
    check(not os.path.exists(f'{work}/new'), 'a state directory was made for nothing')


def the_service_manager_is_told(work):
    for address in (f'{work}/notify', '\0holdfast-' + os.path.basename(work)):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(address)
            manager.settimeout(10)
            environment = dict(os.environ, NOTIFY_SOCKET=address.replace('\0', '@'))
            with Serving(*quiet(work), f'{work}/export', env=environment) as serving:
                told = manager.recv(4096).decode()
                check('READY=1\n' in told and f'port {serving.port}' in told, told)
                serving.stop().ends(DONE)
                equal(manager.recv(4096), b'STOPPING=1\n', 'at the stop')


def every_thread_gives_its_privileges_up(work):
    with Serving(*quiet(work), f'{work}/export') as serving:
        Nfs(Tcp(serving.port)).mount(f'{work}/export')
        tasks = f'/proc/{serving.process.pid}/task'
        for task in os.listdir(tasks):
            with open(f'{tasks}/{task}/status', encoding='ascii') as status:
                fields = dict(line.split(':\t', 1) for line in status.read().splitlines()
                              if ':\t' in line)
            equal(fields['NoNewPrivs'], '1', f'no_new_privs of thread {task}')
            # CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER, FSETID, SETGID, SETUID, MKNOD
            more = int(fields['CapPrm'], 16) & ~0x80000df
            equal(more, 0, f'capabilities of thread {task} that serving does not need')


def a_root_that_may_not_is_told(work):
    """Who is no root at all serves what is theirs: tests/wire/cases_user.py."""
    less = '-dac_read_search'
    ended = Ended(subprocess.run(
        ['setpriv', f'--bounding-set={less}', f'--inh-caps={less}', BINARY, 'serve', *quiet(work),
         f'{work}/export'], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20,
        check=False))
    ended.ends(CANNOT).says('CAP_DAC_READ_SEARCH')


def names_of_directories_are_taken_as_they_are(work):
    path = f'{work}/my files (rw) #1'
    os.mkdir(path)
    with Serving(*quiet(work), path) as serving:
        equal(Nfs(Tcp(serving.port)).mount(path).status, 0, 'MNT')
    done = subprocess.Popen([BINARY, 'serve', *quiet(work), 'export'], cwd=work, text=True,
                            stdout=subprocess.PIPE)
    try:
        check(f'{work}/export' in done.stdout.readline(), 'a relative directory')
    finally:
        done.terminate()
        done.communicate()


if __name__ == '__main__':
    run([ready_line_names_path_port_and_mount, ready_line_puts_ipv6_in_brackets,
         ready_line_names_a_host_that_may_mount,
         signals_stop_it_cleanly,
         a_signal_while_it_starts_ends_it, hangup_does_not_stop_it,
         a_full_pipe_or_file_does_not_stop_it, bad_directories_are_named,
         a_bad_exports_file_is_a_reason_not_to_start, warnings_are_said_and_no_reason,
         exports_files_that_say_nothing_are_named, a_port_in_use_is_said_with_what_to_do,
         an_address_that_is_not_ours_is_said, every_address_of_bind_is_served,
         a_state_directory_that_cannot_be_is_named, a_state_directory_others_can_write_is_refused,
         a_state_directory_is_made_with_its_parents, a_state_directory_serves_one,
         what_is_refused_leaves_no_trace, the_service_manager_is_told,
         every_thread_gives_its_privileges_up, a_root_that_may_not_is_told,
         names_of_directories_are_taken_as_they_are])
