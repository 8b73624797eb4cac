#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What durability costs: small files put onto servers that differ in how they make changes durable,
in turn, in each round; beside the least that the same disk and loopback can cost. Prints medians
and their ratios. Nothing is asserted: see docs/bench.md."""

import argparse
import json
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
JOURNAL_BYTES = 64 << 20


class Server:
    """One way to serve; its export is a directory of its own on the disk."""

    def __init__(self, name, work, options, journal):
        self.name = name
        self.export = f"{work}/{name}"
        self.state = f"{work}/state-{name}"
        os.makedirs(self.export)
        self.options, self.journal = options, journal
        self.process, self.port, self.turns = None, 0, 0

    def start(self, binary):
        command = [binary, "serve", "--port", "0", "--portmap", "off", "--state", self.state,
                   f"{self.export} 127.0.0.1({self.options},no_root_squash,insecure,"
                   f"journal={self.journal})"]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        self.port = int(re.search(r"port (\d+)", self.process.stdout.readline()).group(1))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.stdout.close()
        told = self.process.stderr.read()
        self.process.wait(60)
        return told

    def files(self, options, sequences, count=None):
        self.turns += 1
        name = f"d{self.turns}"
        os.mkdir(f"{self.export}/{name}")
        return untar(options, "files", self.port, self.export, name, count or options.files,
                     sequences, self.process.pid)


def untar(options, *arguments):
    done = subprocess.run([options.untar, *map(str, arguments)], stdout=subprocess.PIPE, text=True,
                          check=True, timeout=600)
    return json.loads(done.stdout)


def floor(options, work):
    """Three durable writes past the page cache, and three round trips, for each file."""
    device = untar(options, "device", f"{work}/preallocated", options.files)["us_per_file"]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen([os.path.join(os.path.dirname(options.untar), "floor"), str(port)])
    try:
        time.sleep(0.2)
        trips = untar(options, "null", port, options.files)["us_per_file"]
    finally:
        server.kill()
        server.wait()
    return {"device": device, "trips": trips, "floor": device + trips}


class Ram:
    """A block device in memory, in the place of one with power-loss protection: zram, or where the
    kernel has none a loop device, whose thread makes each write dearer."""

    ZRAM = "/sys/class/zram-control"

    def __init__(self, path):
        self.path, self.number, self.device = path, None, None
        try:
            with open(f"{self.ZRAM}/hot_add", encoding="ascii") as file:
                self.number = int(file.read())
            with open(f"/sys/block/zram{self.number}/disksize", "w", encoding="ascii") as file:
                file.write(str(JOURNAL_BYTES))
            self.device = f"/dev/zram{self.number}"
        except OSError:
            with open(path, "wb") as file:
                file.truncate(JOURNAL_BYTES)
            done = subprocess.run(["losetup", "-f", "--show", path], stdout=subprocess.PIPE,
                                  text=True, check=False)
            self.device = done.stdout.strip() or None

    def close(self):
        if self.number is not None:
            with open(f"/sys/block/zram{self.number}/reset", "w", encoding="ascii") as file:
                file.write("1")
            with open(f"{self.ZRAM}/hot_remove", "w", encoding="ascii") as file:
                file.write(str(self.number))
        elif self.device:
            subprocess.run(["losetup", "-d", self.device], check=False)
        if os.path.exists(self.path):
            os.unlink(self.path)


def flushes_of(device):
    """The count of flush requests that a block device has completed: Documentation/block/stat."""
    with open(f"/sys/block/{os.path.basename(device)}/stat", encoding="ascii") as stat:
        fields = stat.read().split()
    return int(fields[15]) if len(fields) > 15 else None


def lone_flushes(options, work):
    """Flushes at the device for each of many lone operations, on an ext4 of its own."""
    image, mount = f"{work}/image", f"{work}/mnt"
    with open(image, "wb") as file:
        file.truncate(512 << 20)
    device = subprocess.run(["losetup", "-f", "--show", image], stdout=subprocess.PIPE, text=True,
                            check=False).stdout.strip()
    if not device:
        return None
    counted = {}
    try:
        subprocess.run(["mkfs.ext4", "-q", device], check=True)
        os.mkdir(mount)
        subprocess.run(["mount", device, mount], check=True)
        for journal in ("auto", "off"):
            server = Server(f"mnt/{journal}", work, "rw,sync", journal)
            server.start(options.holdfast)
            server.files(options, 1, 20)
            before = flushes_of(device)
            server.files(options, 1, 200)
            counted[journal] = (flushes_of(device) - before) / 600
            server.stop()
    finally:
        subprocess.run(["umount", mount], check=False)
        subprocess.run(["losetup", "-d", device], check=False)
    return counted


def measure(options, work, servers):
    results = {}

    def note(key, value):
        results.setdefault(key, []).append(value)

    for _ in range(options.rounds):
        for key, value in floor(options, work).items():
            note(key, value)
        for server in servers:
            one = server.files(options, 1)
            many = server.files(options, 16)
            note(server.name, one["us_per_file"])
            note(server.name + " 16", many["us_per_file"])
            note(server.name + " CPU", many["server_us_per_op"])
    return {key: (statistics.median(values), min(values), max(values))
            for key, values in results.items()}


def show(results, counted):
    def ratio(a, b):
        return f"{results[a][0] / results[b][0]:.2f}" if a in results and b in results else "-"

    print("| us per file | median | least | most |\n|---|---|---|---|")
    for key, (middle, least, most) in results.items():
        print(f"| {key} | {middle:,.1f} | {least:,.1f} | {most:,.1f} |")
    print("\n| ratio | |\n|---|---|")
    print(f"| journal sync, serial / floor | {ratio('sync', 'floor')} |")
    print(f"| fsync per operation / journal sync, serial | {ratio('fsync', 'sync')} |")
    print(f"| journal async / sync, 16 at a time (rate of sync) | {ratio('async 16', 'sync 16')} |")
    print(f"| async / sync, serial, journal in memory (rate of sync) | {ratio('async', 'ram')} |")
    print(f"| CPU of journal async - of none async, us an operation | "
          f"{results['async CPU'][0] - results['none CPU'][0]:.2f} |")
    if counted:
        print(f"| flushes per lone operation: journal, fsync | {counted['auto']:.2f}, "
              f"{counted['off']:.2f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split(":", maxsplit=1)[0])
    parser.add_argument("--holdfast", default=f"{HERE}/../build/src/cli/holdfast")
    parser.add_argument("--untar", default=f"{HERE}/../build/bench/untar")
    parser.add_argument("--dir", default="/var/tmp", help="on the disk to be measured")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--files", type=int, default=400, help="in each measurement")
    options = parser.parse_args()
    if shutil.which(options.untar) is None:
        sys.exit(f"bench: {options.untar} is not built; it needs libnfs-dev")
    work = os.path.join(options.dir, f"holdfast-durable.{os.getpid()}")
    os.makedirs(work)
    ram = Ram(f"/dev/shm/holdfast-durable.{os.getpid()}")
    servers = [Server("sync", work, "rw,sync", f"{work}/journal-sync"),
               Server("async", work, "rw,async", f"{work}/journal-async"),
               Server("fsync", work, "rw,sync", "off"), Server("none", work, "rw,async", "off")]
    if ram.device:
        servers.append(Server("ram", work, "rw,sync", ram.device))
    try:
        for server in servers:
            server.start(options.holdfast)
        print(f"load average {os.getloadavg()[0]:.2f} at the start; {options.rounds} rounds of "
              f"{options.files} files of 8 KiB\n")
        results = measure(options, work, servers)
        for server in servers:
            told = server.stop()
            print(re.sub(r"(?m)^(?!.*durable write takes).*\n", "", told), end="")
        show(results, lone_flushes(options, work))
    finally:
        for server in servers:
            if server.process and server.process.poll() is None:
                server.process.kill()
        ram.close()
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
