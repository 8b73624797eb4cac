#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Calls for journal_faults.sh: journal_faults.py EXPORT CALL...

Each CALL is a string, done in turn:

    create NAME STATUS         write NAME BYTES STATUS (FILE_SYNC)     read NAME BYTES
    remove NAME STATUS         commit NAME BYTES STATUS (UNSTABLE and COMMIT)     gone NAME
    verifier NAME              prints the write verifier, by an UNSTABLE write of nothing new

STATUS is what NFSv3 must say, or several with | between. The bytes follow from the name. A WRITE
that stored less goes on behind it. What `read` reads is what a client was told is stored.
"""
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "wire"))
import nfs  # noqa: E402

PIECE = 262144  # more than the log ever takes


def payload(name, size):
    return random.Random(name).randbytes(size)


class Calls:
    def __init__(self, export):
        self.client = nfs.Nfs(nfs.Tcp(2049, timeout=60))
        self.root = self.client.mount(export).fh

    def handle(self, name):
        found = self.client.lookup(self.root, name)
        nfs.equal(found.status, nfs.OK, f"LOOKUP {name}")
        return found.fh

    def expect(self, what, status, words):
        nfs.check(status in [getattr(nfs, word) for word in words.split("|")],
                  f"{what}: {status}, right is {words}")

    def put(self, name, size, stable):
        """The status that ended it, and the verifiers seen."""
        fh, data, at, verfs = self.handle(name), payload(name, int(size)), 0, set()
        while at < len(data):
            done = self.client.write(fh, at, data[at:at + PIECE], stable)
            if done.status != nfs.OK:
                return done.status, verfs
            at += done.count
            verfs.add(done.verf)
        return nfs.OK, verfs

    def create(self, name, words):
        self.expect(f"CREATE {name}", self.client.create(self.root, name, nfs.GUARDED).status,
                    words)

    def remove(self, name, words):
        self.expect(f"REMOVE {name}", self.client.remove(self.root, name).status, words)

    def write(self, name, size, words):
        self.expect(f"WRITE {name}", self.put(name, size, nfs.FILE_SYNC)[0], words)

    def commit(self, name, size, words):
        status, verfs = self.put(name, size, nfs.UNSTABLE)
        if status == nfs.OK:
            done = self.client.commit(self.handle(name))
            # Another verifier says that the data may be gone (RFC 1813 §3.3.21).
            status = nfs.IO if done.status == nfs.OK and verfs != {done.verf} else done.status
        self.expect(f"COMMIT {name}", status, words)

    def read(self, name, size):
        fh, want, data = self.handle(name), payload(name, int(size)), b""
        while len(data) < len(want):
            done = self.client.read(fh, len(data), PIECE)
            nfs.equal(done.status, nfs.OK, f"READ {name}")
            nfs.check(done.count > 0, f"{name} ends at {len(data)}")
            data += done.data
        nfs.check(data[:len(want)] == want, f"READ {name}: other bytes")

    def gone(self, name):
        nfs.equal(self.client.lookup(self.root, name).status, nfs.NOENT, f"LOOKUP {name}")

    def verifier(self, name):
        done = self.client.write(self.handle(name), 0, payload(name, 1))
        nfs.equal(done.status, nfs.OK, f"UNSTABLE WRITE {name}")
        print(done.verf.hex())


def main():
    calls = Calls(sys.argv[1])
    for text in sys.argv[2:]:
        word, *arguments = text.split()
        getattr(calls, word)(*arguments)


if __name__ == "__main__":
    main()
