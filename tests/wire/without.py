#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a command to which one system call is missing, as on another kernel or in a container.

usage: without.py NUMBER ERRNO COMMAND [ARG]...
"""
import ctypes
import os
import struct
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD, JUMP_EQUAL, RETURN = 0x20, 0x15, 0x06  # BPF_LD|BPF_W|BPF_ABS and so on
RET_ERRNO, RET_ALLOW = 0x00050000, 0x7fff0000


def forbid(number, error):
    program = b''.join(struct.pack('=HBBI', *line) for line in (
        (LOAD, 0, 0, 0),  # seccomp_data.nr
        (JUMP_EQUAL, 0, 1, number),
        (RETURN, 0, 0, RET_ERRNO | error),
        (RETURN, 0, 0, RET_ALLOW)))
    buffer = ctypes.create_string_buffer(program)
    head = struct.pack('@HP', len(program) // 8, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in ((PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
                      (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, head)):
        if libc.prctl(*arguments) != 0:
            sys.exit(f'prctl{arguments[:2]}: {os.strerror(ctypes.get_errno())}')


if __name__ == '__main__':
    forbid(int(sys.argv[1]), int(sys.argv[2]))
    os.execv(sys.argv[3], sys.argv[3:])
