#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Plays .wire files against a real server: bytes out, bytes expected back.

    run_wire.py FILE.wire...        HOLDFAST=path of the program

A file is a list of steps, one a line; the bytes of a step follow on indented lines. `#` begins a
comment. Steps:

    serve OPTIONS        of the export, for the whole file (the default gives every right)
    portmap              the server also runs its portmapper; all in a network namespace of its own
    setup COMMAND        a shell command in the exported directory
    handle NAME PATH     $NAME is the handle of PATH, found by LOOKUPs; $root is always there
    handle2 NAME PATH    the same as NFSv2 has it: 32 bytes, no length; and $root2
    tcp [PORT], udp [PORT], local    a new connection for the next steps (starts with tcp)
    call                 a message to send (over TCP the runner adds the record mark)
    send                 bytes for the stream as they are, marks and all
    reply                the whole next message must match
    again                the last message of `call`, sent again
    same                 the next message must be the same bytes as the last one
    silence              nothing may come for half a second
    closed               the server must close the connection

Bytes:

    0a 0b 00*12          hex, and repetition
    "text"               its bytes; XDR length and padding are written out like everything else
    $name                bytes found earlier
    @call P V N          the head of a call with AUTH_SYS of root and a new xid: RFC 5531 §9
    @accepted            the head of its reply, SUCCESS
    @replied             the same without the accept_stat
    .. ..*84             any bytes (replies only)
    <name:8>             any bytes, kept as $name (replies only)
    <name:opaque>        an XDR opaque<>, kept with its length and padding (replies only)
    @attr @wcc           a post_op_attr that is there; a wcc_data with both (RFC 1813 §2.6)
    @attr? @fh? @wcc?    a post_op_attr, post_op_fh3, wcc_data; there or not
    @rest                whatever follows (replies only)
"""
import re
import socket
import subprocess
import sys

import nfs

TOKEN = re.compile(r'''
    (?P<hex>[0-9a-fA-F]{2}|\.\.)(?:\*(?P<times>\d+))?
  | "(?P<text>[^"]*)"
  | \$(?P<name>\w+)
  | @(?P<macro>\w+\??)
  | <(?P<keep>\w+):(?P<size>\d+|opaque)>
  ''', re.VERBOSE)


def strip_comment(line):
    quoted = False
    for i, char in enumerate(line):
        if char == '"':
            quoted = not quoted
        elif char == '#' and not quoted:
            return line[:i].rstrip()
    return line.rstrip()


class Step:
    def __init__(self, words, number):
        self.words, self.number, self.body = words, number, []


def read_steps(path):
    steps = []
    with open(path, encoding='utf-8') as lines:
        for number, line in enumerate(lines, 1):
            text = strip_comment(line)
            if not text:
                continue
            if text[0].isspace():
                steps[-1].body.append((number, text.strip()))
            else:
                word, _, rest = text.partition(' ')
                steps.append(Step((word, rest.strip()), number))
    return steps


class Player:
    def __init__(self, path):
        self.path, self.line = path, 0
        self.names, self.xid = {}, 0
        self.last_call = self.last_reply = b''
        self.transport = self.server = None
        self.steps = read_steps(path)
        self.options = 'rw,sync,no_root_squash,insecure'
        self.portmap = False
        for step in self.steps:
            if step.words[0] == 'serve':
                self.options = step.words[1]
            if step.words[0] == 'portmap':
                self.portmap = True

    # A pattern is a list of: an int (that byte), None (any byte), ('keep', name, size), ('maybe',
    # size): a boolean and, if it is true, so many bytes, ('rest',).
    def pattern(self, step):
        out = []
        for number, text in step.body:
            self.line, at = number, 0
            while at < len(text):
                if text[at].isspace():
                    at += 1
                    continue
                found = TOKEN.match(text, at)
                nfs.check(found, f'not understood: {text[at:]!r}')
                at = found.end()
                if found['macro'] == 'call':
                    numbers = re.match(r'\s+(\d+)\s+(\d+)\s+(\d+)', text[at:])
                    at += numbers.end()
                    self.xid = nfs.next_xid()
                    out += nfs.call_message(*map(int, numbers.groups()), xid=self.xid)
                else:
                    out += self.token(found)
        return out

    def token(self, found):
        if found['hex']:
            byte = None if found['hex'] == '..' else int(found['hex'], 16)
            return [byte] * int(found['times'] or 1)
        if found['text'] is not None:
            return list(found['text'].encode())
        if found['name']:
            nfs.check(found['name'] in self.names, f'${found["name"]} is not known yet')
            return list(self.names[found['name']])
        if found['keep']:
            return [('keep', found['keep'], found['size'])]
        attr = [0, 0, 0, 1] + [None] * 84
        return {'accepted': list(nfs.u32(self.xid, 1, 0, 0, 0, 0)),
                'replied': list(nfs.u32(self.xid, 1, 0, 0, 0)),
                'attr': attr, 'attr?': [('maybe', 84)],
                'fh?': [('maybe', 'opaque')],
                'wcc': [0, 0, 0, 1] + [None] * 24 + attr,
                'wcc?': [('maybe', 24), ('maybe', 84)],
                'rest': [('rest',)]}[found['macro']]

    def bytes_of(self, step):
        return bytes(self.pattern(step))

    @staticmethod
    def size_at(message, at, size):
        """Of an opaque with its length and padding, or as it is given."""
        if size != 'opaque':
            return int(size)
        length = int.from_bytes(message[at:at + 4], 'big')
        return 4 + length + -length % 4

    def match(self, pattern, message):
        at = 0
        shown = f'\n  {message.hex(" ", 4)}'
        for item in pattern:
            if isinstance(item, tuple) and item[0] == 'rest':
                return
            if isinstance(item, tuple) and item[0] == 'maybe':
                flag = message[at:at + 4]
                nfs.check(flag in (bytes(4), bytes([0, 0, 0, 1])), f'byte {at}: no boolean{shown}')
                at += 4 + (self.size_at(message, at + 4, item[1]) if flag[3] else 0)
            elif isinstance(item, tuple):
                size = self.size_at(message, at, item[2])
                self.names[item[1]] = message[at:at + size]
                at += size
            else:
                nfs.check(at < len(message), f'the reply ends at byte {at}, more is due{shown}')
                nfs.check(item is None or item == message[at], f'byte {at}: seen '
                          f'{message[at]:02x}, right is {item or 0:02x}{shown}')
                at += 1
        nfs.check(at <= len(message), f'the reply ends at byte {len(message)}, more is due{shown}')
        nfs.check(at == len(message), f'too many bytes, from {at} on{shown}')

    def connect(self, kind, port):
        if self.transport:
            self.transport.close()
        if kind == 'local':
            self.transport = nfs.Local()
        else:
            self.transport = (nfs.Udp if kind == 'udp' else nfs.Tcp)(int(port or self.server.port))

    def find(self, path):
        with nfs.Tcp(self.server.port) as connection:
            client = nfs.Nfs(connection)
            fh = client.mount(self.server.export).fh
            for part in path.split('/'):
                found = client.lookup(fh, part)
                nfs.equal(found.status, 0, f'LOOKUP {part} of {path}')
                fh = found.fh
        return fh

    def play(self, step):
        word, rest = step.words
        self.line = step.number
        if word == 'setup':
            subprocess.run(['sh', '-ec', rest], cwd=self.server.export, check=True)
        elif word in ('handle', 'handle2'):
            name, path = rest.split()
            fh = self.find(path)
            self.names[name] = nfs.opaque(fh) if word == 'handle' else fh.ljust(32, b'\0')
        elif word in ('tcp', 'udp', 'local'):
            self.connect(word, rest)
        elif word == 'call':
            self.last_call = self.bytes_of(step)
            self.transmit()
        elif word == 'again':
            self.transmit()
        elif word == 'send':
            self.transport.send(self.bytes_of(step))
        elif word == 'reply':
            self.last_reply = self.transport.receive()
            self.match(self.pattern(step), self.last_reply)
        elif word == 'same':
            nfs.equal(self.transport.receive().hex(), self.last_reply.hex(), 'the reply')
        elif word == 'silence':
            self.silence()
        elif word == 'closed':
            nfs.check(self.transport.closed(), 'the server has not closed the connection')
        else:
            nfs.check(word in ('serve', 'portmap'), f'no such step: {word}')

    def silence(self):
        self.transport.socket.settimeout(0.5)
        try:
            data = self.transport.socket.recv(4096)
            raise nfs.Failure(f'something came: {data.hex()}' if data else 'the server has closed')
        except socket.timeout:
            self.transport.socket.settimeout(20)

    def transmit(self):
        tcp = isinstance(self.transport, nfs.Stream)
        self.transport.send(nfs.record(self.last_call) if tcp else self.last_call)

    def run(self):
        self.server = nfs.Server(self.options, portmap='on' if self.portmap else 'off')
        with self.server:
            try:
                root = self.server.root()
                self.names['root'] = nfs.opaque(root)
                self.names['root2'] = root.ljust(32, b'\0')
                self.names['export'] = nfs.opaque(self.server.export)
                self.connect('tcp', None)
                for step in self.steps:
                    self.play(step)
                self.server.alive()
            except (nfs.Failure, OSError, EOFError) as error:
                print(f'{self.path}:{self.line}: {error}\n{self.server.messages()}')
                return False
        return True


def main():
    nfs.end_cleanly()
    players = [Player(path) for path in sys.argv[1:]]
    if any(player.portmap for player in players):
        nfs.have_own_network()
    sys.exit(0 if all([player.run() for player in players]) else 1)


if __name__ == '__main__':
    main()
