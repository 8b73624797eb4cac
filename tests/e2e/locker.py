#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Locks a file as programs do: locker.py [--flock] [--shared] [--range START LENGTH] HOW FILE

HOW: look  prints "free" or "taken", and takes nothing (fcntl only);
     try   prints "locked" or "blocked", and ends;
     hold  the same, and if it has the lock keeps it for a while, unlocks, and says "unlocked";
     wait  the same, but it says "waiting", and waits, where hold says "blocked".

What it says is also the content of the file --say; --until is the file that ends the holding.
"""
import argparse
import fcntl
import os
import struct
import sys
import time

FLOCK = 'hh4xqqi4x'  # struct flock where off_t has 64 bits


def lock(args, file, flags):
    flags |= fcntl.LOCK_SH if args.shared else fcntl.LOCK_EX
    if args.flock:
        fcntl.flock(file, flags)
    else:
        fcntl.lockf(file, flags, args.range[1], args.range[0])


def look(args, file):
    flock = struct.pack(FLOCK, fcntl.F_RDLCK if args.shared else fcntl.F_WRLCK, os.SEEK_SET,
                        *args.range, 0)
    found = struct.unpack(FLOCK, fcntl.fcntl(file, fcntl.F_GETLK, flock))
    return 'free' if found[0] == fcntl.F_UNLCK else 'taken'


def say(args, word):
    if args.say:
        with open(args.say + '.new', 'w', encoding='ascii') as file:
            file.write(word + '\n')
        os.rename(args.say + '.new', args.say)
    print(word, flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--flock', action='store_true')
    parser.add_argument('--shared', action='store_true')
    parser.add_argument('--range', nargs=2, type=int, default=(0, 0))
    parser.add_argument('--say')
    parser.add_argument('--until')
    parser.add_argument('how', choices=('look', 'try', 'hold', 'wait'))
    parser.add_argument('file')
    args = parser.parse_args()
    with open(args.file, 'r+b') as file:
        if args.how == 'look':
            say(args, look(args, file))
            return
        try:
            lock(args, file, fcntl.LOCK_NB)
        except BlockingIOError:
            if args.how != 'wait':
                say(args, 'blocked')
                sys.exit(0)
            say(args, 'waiting')
            lock(args, file, 0)
        say(args, 'locked')
        if args.how != 'try':
            while not os.path.exists(args.until):
                time.sleep(0.1)
            lock_file = fcntl.flock if args.flock else fcntl.lockf
            lock_file(file, fcntl.LOCK_UN)
            say(args, 'unlocked')


if __name__ == '__main__':
    main()
