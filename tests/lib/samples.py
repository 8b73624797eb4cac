#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Random but well-formed XDR bytes of every struct and union of spec/*.x.

    samples.py SEED COUNT SPEC.x ...            one line each: SPEC TYPE HEX
    samples.py SEED COUNT --corpus DIR SPEC.x   files of many, as tests/fuzz/codec.c reads them

The bytes are made here, with struct.pack and straight from the description, not by the generated
encoder. Variable lengths hold no NUL: the libraries we compare with keep strings, and here and
there an opaque, as C strings.
"""

import os
import random
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../tools'))
import xdrc  # noqa: E402

EDGES = (0, 1, 2, 0x7fffffff, 0x80000000, 0xffffffff)
SCALARS = {'int': 4, 'unsigned': 4, 'hyper': 8, 'unsigned hyper': 8}


class Sampler:
    def __init__(self, reader, rng):
        self.reader, self.rng = reader, rng

    def scalar(self, size):
        rng = self.rng
        value = rng.choice(EDGES) if rng.random() < 0.5 else rng.getrandbits(8 * size)
        if size == 8 and rng.random() < 0.2:
            value = (value << 32) | 0xffffffff
        return (value & ((1 << 8 * size) - 1)).to_bytes(size, 'big')

    def length(self, cap):
        rng = self.rng
        if rng.random() < 0.1 and cap <= 2048:
            return cap
        return rng.randint(0, min(cap, 20))

    def opaque(self, size, lowest):
        data = bytes(self.rng.randint(lowest, 255) for _ in range(size))
        return data + bytes(-size % 4)

    def member(self, decl):
        size = self.reader.number(decl.size) if decl.size else 0
        if decl.how == 'void':
            return b''
        if decl.how == 'pointer':
            return self.linked(decl.type)
        if decl.type in ('opaque', 'string'):
            if decl.how == 'fixed':
                return self.opaque(size, 0)
            count = self.length(size)
            return struct.pack('>I', count) + self.opaque(count, 1)
        if decl.how == 'fixed':
            return b''.join(self.of(decl.type) for _ in range(size))
        if decl.how == 'var':
            count = self.length(size)
            return struct.pack('>I', count) + b''.join(self.of(decl.type) for _ in range(count))
        return self.of(decl.type)

    def linked(self, element):
        count = self.rng.randint(0, 3)
        body = b''.join(struct.pack('>I', 1) + self.of(element) for _ in range(count))
        return body + struct.pack('>I', 0)

    def of(self, name):
        if name in SCALARS:
            return self.scalar(SCALARS[name])
        if name == 'bool':
            return struct.pack('>I', self.rng.randint(0, 1))
        if name in self.reader.typedefs:
            return self.member(self.reader.typedefs[name])
        kind = self.reader.types[name]
        if isinstance(kind, xdrc.Enum):
            return struct.pack('>i', self.rng.choice(kind.items)[1])
        if isinstance(kind, xdrc.Struct):
            return b''.join(self.member(decl) for decl in kind.members)
        return self.union(kind)

    def union(self, union):
        arms = [(value, arm) for values, arm in union.arms for value in values]
        if union.default and self.rng.randint(0, len(arms)) == 0:
            return self.default(union, {self.switch_value(union, value) for value, _ in arms})
        value, arm = self.rng.choice(arms)
        return self.switch_value(union, value) + self.member(arm)

    def switch_value(self, union, text):
        enum = self.reader.types.get(union.switch.type)
        if isinstance(enum, xdrc.Enum):
            return struct.pack('>i', dict(enum.items)[text])
        if union.switch.type == 'bool':
            return struct.pack('>I', text == 'TRUE')
        return struct.pack('>I', self.reader.number(text))

    def default(self, union, taken):
        for _ in range(100):
            value = self.of(union.switch.type)
            if value not in taken:
                return value + self.member(union.default)
        return next(iter(taken))


def write_corpus(folder, samples):
    """Files of about a page: the number of a type, its bytes, the next."""
    page, count = b'', 0
    for number, data in samples:
        if page and len(page) + len(data) > 4000:
            with open(os.path.join(folder, f'samples-{count}'), 'wb') as out:
                out.write(page)
            page, count = b'', count + 1
        page += bytes([number]) + data
    with open(os.path.join(folder, f'samples-{count}'), 'wb') as out:
        out.write(page)


def main():
    seed, count, paths = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    corpus = None
    if paths[0] == '--corpus':
        corpus, paths = paths[1], paths[2:]
    rng = random.Random(seed)
    for path in paths:
        spec = os.path.splitext(os.path.basename(path))[0]
        with open(path, encoding='utf-8') as file:
            reader = xdrc.Reader(file.read()).read()
        sampler = Sampler(reader, rng)
        names = reader.aggregates()
        samples = [(number, sampler.of(name))
                   for number, name in enumerate(names) for _ in range(count)]
        if corpus:
            write_corpus(corpus, samples)
            continue
        for number, data in samples:
            print(spec, names[number], data.hex())


if __name__ == '__main__':
    main()
