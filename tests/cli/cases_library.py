#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The client library as others use it: installed somewhere, found by pkg-config, linked both ways,
and a file read with it."""
import glob
import os
import re
import shlex
import subprocess

from cli import Serving, check, equal, quiet, run, write

BUILD = os.environ['HOLDFAST_BUILD']
EXAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../docs/examples/nfscat.c')
CFLAGS = ['-Wall', '-Wextra', '-Werror', *shlex.split(os.environ['HOLDFAST_CFLAGS'])]


class Installed:
    """`meson install` of what developers need, into a directory."""

    def __init__(self, work):
        self.root = f'{work}/root'
        subprocess.run(['meson', 'install', '-C', BUILD, '--no-rebuild', '--quiet', '--destdir',
                        self.root, '--tags', 'devel,runtime'], check=True, capture_output=True)
        pc, = glob.glob(f'{self.root}/**/holdfast-client.pc', recursive=True)
        self.libdir = os.path.dirname(os.path.dirname(pc))
        self.headers, = glob.glob(f'{self.root}/**/include/holdfast', recursive=True)
        self.env = dict(os.environ, PKG_CONFIG_LIBDIR=os.path.dirname(pc),
                        PKG_CONFIG_SYSROOT_DIR=self.root, LD_LIBRARY_PATH=self.libdir)

    def flags(self, *what):
        return subprocess.run(['pkg-config', *what, 'holdfast-client'], capture_output=True,
                              env=self.env, text=True, check=True).stdout.split()

    def compile(self, source, *arguments):
        done = subprocess.run(['cc', *CFLAGS, source, *arguments], capture_output=True, text=True,
                              check=False)
        check(done.returncode == 0, f'{source}: {done.stderr}')


def a_program_reads_a_file_with_it(work):
    installed = Installed(work)
    shared, fixed = f'{work}/shared', f'{work}/static'
    libs = installed.flags('--cflags', '--libs')
    installed.compile(EXAMPLE, '-o', shared, *libs)
    installed.compile(EXAMPLE, '-o', fixed, *installed.flags('--cflags'),
                      f'{installed.libdir}/libholdfast-client.a', '-pthread')
    needs = {program: subprocess.run(['readelf', '-d', program], capture_output=True, text=True,
                                     check=True).stdout for program in (shared, fixed)}
    check(re.search(r'NEEDED.*libholdfast-client\.so\.\d+\.\d+\]', needs[shared]), needs[shared])
    check('libholdfast' not in needs[fixed], needs[fixed])

    data = os.urandom(5 << 20) + b'end'
    with open(f'{work}/export/file', 'wb') as file:
        file.write(data)
    write(f'{work}/export/empty', '')
    with Serving(*quiet(work), f'{work}/export(insecure)') as server:
        for program in (shared, fixed):
            for name, right, words in (('file', data, ''), ('empty', b'', ''),
                                       ('file', data, '&rsize=5000'), ('file', data, '&vers=2'),
                                       ('file', data, '&proto=udp')):
                url = (f'nfs://127.0.0.1:{server.port}{work}/export/{name}'
                       f'?mountport={server.port}{words}')
                done = subprocess.run([program, url], capture_output=True, env=installed.env,
                                      timeout=60, check=False)
                equal((done.returncode, done.stderr), (0, b''), f'{program} {words}')
                check(done.stdout == right, f'{program} {name} {words}: other bytes')
        done = subprocess.run([shared, url.replace('/file?', '/none?')], capture_output=True,
                              env=installed.env, text=True, timeout=60, check=False)
        check(done.returncode == 1 and 'NFS3ERR_NOENT' in done.stderr, done.stderr)


def every_header_stands_alone(work):
    """None needs another one before it, or one that is not installed."""
    installed = Installed(work)
    flags = installed.flags('--cflags')
    headers = glob.glob(f'{installed.headers}/**/*.h', recursive=True)
    check(len(headers) > 15, f'only {headers}')
    for header in headers:
        name = os.path.relpath(header, os.path.dirname(installed.headers))
        check('internal' not in name, name)
        source = write(f'{work}/one.c', f'#include <{name}>\nint one(void);\n'
                                        'int one(void) { return 1; }\n')
        installed.compile(source, '-c', '-o', '/dev/null', *flags)


def no_more_is_shown_than_declared(work):
    """Each symbol of the shared library is in an installed header."""
    installed = Installed(work)
    declared = ''
    for header in glob.glob(f'{installed.headers}/**/*.h', recursive=True):
        with open(header, encoding='utf-8') as file:
            declared += file.read()
    words = set(re.findall(r'\w+', declared))
    shown = subprocess.run(['nm', '-D', '--defined-only', '--format=posix',
                            f'{installed.libdir}/libholdfast-client.so'], capture_output=True,
                           text=True, check=True).stdout.splitlines()
    names = {line.split()[0].split('@')[0] for line in shown}
    check({'client_rpc_call', 'client_mount_open', 'READ3res_get'} <= names, 'what is wanted')
    equal(sorted(names - words), [], 'symbols that no header declares')


if __name__ == '__main__':
    run([a_program_reads_a_file_with_it, every_header_stands_alone, no_more_is_shown_than_declared])
