#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What clients cost that have mounted an export and then do nothing: memory, descriptors, CPU, and
what it costs one that works. Each has an address of its own (127.x.y.z), has mounted over TCP as a
kernel client does (MNT, FSINFO, PATHCONF, GETATTR), and keeps its connection. Prints a table;
nothing is asserted: see docs/bench.md."""

import argparse
import os
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tests", "wire"))
import nfs  # noqa: E402  (the path comes first)

FSINFO, PATHCONF = 19, 20
GETATTR_COUNT = 2000


def address(number):
    return f"127.77.{number // 250}.{number % 250 + 1}"


def mount(server, number):
    client = server.nfs(source=(address(number), 0))
    root = client.mount(server.export).fh
    for procedure in (FSINFO, PATHCONF):
        client.rpc(procedure, nfs.opaque(root))
    client.getattr(root)
    return client


def threads_of(server):
    return f"/proc/{server.process.pid}/task"


def wakeups(server):
    """How often its threads have slept and were woken."""
    count = 0
    for thread in os.listdir(threads_of(server)):
        with open(f"{threads_of(server)}/{thread}/status", encoding="ascii") as status:
            count += sum(int(line.split()[1]) for line in status
                         if line.startswith("voluntary_ctxt_switches"))
    return count


def socket_kb():
    """Of all TCP sockets of this network namespace, both ends."""
    with open("/proc/net/sockstat", encoding="ascii") as stat:
        fields = next(line for line in stat if line.startswith("TCP:")).split()
    return int(fields[fields.index("mem") + 1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def working(server):
    """Median and 99th percentile, in us, of a GETATTR of one client that works."""
    client = server.nfs()
    root = client.mount(server.export).fh
    took = []
    for _ in range(GETATTR_COUNT):
        began = time.perf_counter()
        client.getattr(root)
        took.append((time.perf_counter() - began) * 1e6)
    took.sort()
    return statistics.median(took), took[len(took) * 99 // 100]


def quiet(server, seconds):
    """CPU time in ms and wake-ups, each for a minute of doing nothing."""
    time.sleep(1)
    cpu, woken = server.cpu_seconds(), wakeups(server)
    time.sleep(seconds)
    minutes = seconds / 60
    return (server.cpu_seconds() - cpu) * 1000 / minutes, (wakeups(server) - woken) / minutes


def state_of(server, seconds):
    median, worst = working(server)
    cpu_ms, woken = quiet(server, seconds)
    return {"memory of the server, kB": server.rss_kb(),
            "memory of all TCP sockets, both ends, kB": socket_kb(),
            "descriptors": server.fd_count(),
            "threads": len(os.listdir(threads_of(server))),
            "CPU in a minute without a call, ms": cpu_ms,
            "wake-ups in it": woken,
            "GETATTR of one that works, median, us": median,
            "and the 99th percentile": worst}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split(":", maxsplit=1)[0])
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--seconds", type=int, default=30, help="of doing nothing")
    options = parser.parse_args()
    print(f"load average {os.getloadavg()[0]:.2f} at the start; {options.clients} clients\n")
    with nfs.Server() as server:
        working(server)
        before = state_of(server, options.seconds)
        clients = [mount(server, number) for number in range(options.clients)]
        after = state_of(server, options.seconds)
        print(f"| | no client | {options.clients:,} idle clients | each |\n|---|---|---|---|")
        for key, value in before.items():
            each = (after[key] - value) / options.clients
            print(f"| {key} | {value:,.0f} | {after[key]:,.0f} | {each:,.2f} |")
        for client in clients:
            client.transport.close()


if __name__ == "__main__":
    nfs.end_cleanly()
    main()
