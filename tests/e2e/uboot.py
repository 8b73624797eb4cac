#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""U-Boot in QEMU loads files by NFSv2 over UDP, as a board without a disk does: the portmapper,
MOUNT, LOOKUP, READLINK, READ, over slirp to this machine's loopback. U-Boot tells the CRC of what
it has in memory, tshark what was said on the way. In a network namespace of its own (port 111)."""
import os
import random
import re
import select
import subprocess
import sys
import time
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../wire'))
import nfs  # noqa: E402
from nfs import check, equal  # noqa: E402

FIRMWARE = '/usr/lib/u-boot/qemu_arm/u-boot.bin'
WAIT_SECONDS = 300
ADDRESS = '0x41000000'


class Board:
    """U-Boot at its prompt."""

    def __init__(self):
        self.process = subprocess.Popen(
            ['qemu-system-arm', '-M', 'virt', '-m', '256', '-nographic', '-bios', FIRMWARE,
             '-netdev', 'user,id=net', '-device', 'virtio-net-device,netdev=net',
             '-monitor', 'none', '-serial', 'stdio'],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.text = ''
        self.until('Hit any key to stop autoboot')
        self.write('\n')
        self.until('\n=> ')
        self.command('setenv ipaddr 10.0.2.15; setenv serverip 10.0.2.2; setenv autoload no')

    def write(self, text):
        self.process.stdin.write(text.encode())
        self.process.stdin.flush()

    def until(self, what):
        end = time.monotonic() + WAIT_SECONDS
        while what not in self.text:
            check(time.monotonic() < end, f'U-Boot does not say {what!r} but {self.text!r}')
            if select.select([self.process.stdout], [], [], 1)[0]:
                data = os.read(self.process.stdout.fileno(), 65536)
                check(data, f'QEMU has ended: {self.text!r}')
                self.text += data.decode(errors='replace').replace('\r', '')
        said, _, self.text = self.text.partition(what)
        return said

    def command(self, line):
        self.write(line + '\n')
        return self.until('\n=> ')

    def load(self, path):
        """(size, CRC) of what was loaded, or what U-Boot says instead."""
        said = self.command(f'setenv filesize; nfs {ADDRESS} 10.0.2.2:{path}')
        size = re.search(r'Bytes transferred = (\d+)', said)
        if not size:
            return said
        crc = re.search(r'==> ([0-9a-f]{8})', self.command(f'crc32 {ADDRESS} ${{filesize}}'))
        check(crc, f'no CRC: {said}')
        return int(size.group(1)), int(crc.group(1), 16)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def load_everything(server, board):
    rng = random.Random(8)
    os.makedirs(os.path.join(server.export, 'boot/images'))
    for name, size in (('boot/images/kernel', 1500000), ('boot/images/odd', 100003), ('small', 1),
                       ('edge', 8192)):
        data = rng.randbytes(size)
        with open(os.path.join(server.export, name), 'wb') as out:
            out.write(data)
        equal(board.load(f'{server.export}/{name}'), (size, zlib.crc32(data)), name)
        if name == 'boot/images/kernel':
            kernel = (size, zlib.crc32(data))
    os.symlink('images/kernel', os.path.join(server.export, 'boot/vmlinuz'))
    equal(board.load(f'{server.export}/boot/vmlinuz'), kernel, 'through a link')
    os.symlink(f'{server.export}/boot/images/kernel', os.path.join(server.export, 'absolute'))
    equal(board.load(f'{server.export}/absolute'), kernel, 'through an absolute link')
    said = board.load(f'{server.export}/nothing')
    check('ERROR' in said, f'a file that is not there: {said!r}')


def tshark(capture, shown):
    told = subprocess.run(['tshark', '-r', capture, '-Y', shown], check=True, capture_output=True,
                          text=True)
    return told.stdout.splitlines()


def main():
    nfs.end_cleanly()
    if not os.path.exists(FIRMWARE):
        print(f'skipped: no {FIRMWARE} (package u-boot-qemu)')
        sys.exit(77)
    nfs.have_own_network()
    with nfs.Server(options='ro,insecure', portmap='on') as server:
        capture = os.path.join(server.work, 'capture')
        listener = subprocess.Popen(['tcpdump', '-i', 'lo', '-U', '-Z', 'root', '-w', capture],
                                    stderr=subprocess.PIPE, text=True)
        said = ''
        while 'listening' not in said:
            said = listener.stderr.readline()
            check(said, 'tcpdump has ended')
        try:
            with Board() as board:
                load_everything(server, board)
        finally:
            listener.terminate()
            listener.communicate()
        port = f'udp.port == {server.port}'
        check(tshark(capture, f'{port} && nfs && rpc.programversion == 2'), 'no NFSv2 was spoken')
        for wrong in ('_ws.malformed', 'rpc.state_accept != 0', 'rpc.replystat != 0'):
            equal(tshark(capture, wrong), [], f'frames with {wrong}')
        server.alive()
    print('ok')


if __name__ == '__main__':
    main()
