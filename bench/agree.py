#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Whether `holdfast baseline` measures what others measure: throughput of READs beside tools that
are not ours, on the same server and link, one after the other in each round.

On this machine, over a loopback that is as fast as a wire: libnfs' raw API and iperf3. In a guest
(--guest), also over such a wire: the kernel's NFS client with direct I/O, driven by fio. Prints the
bytes per second of each and how far they are from the baseline's. Nothing is asserted.
"""

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

import run

sys.path.insert(0, os.path.join(run.HERE, "..", "tests", "wire"))
import nfs  # noqa: E402  (the path comes first)

BLOCK, IN_FLIGHT = 128 << 10, 8
FILE_BYTES = 64 << 20


@contextlib.contextmanager
def wire(rate):
    """lo as an Ethernet of that rate; None: as it is."""
    if rate is not None:
        subprocess.run(f"ip link set lo mtu 1500 && tc qdisc add dev lo root tbf rate {rate} "
                       "burst 128k limit 8m", shell=True, check=True)
    try:
        yield
    finally:
        if rate is not None:
            subprocess.run("tc qdisc del dev lo root; ip link set lo mtu 65536", shell=True,
                           check=True)


def baseline(options, url):
    done = subprocess.run([options.holdfast, "baseline", "--json", "--kind", "read", "--proto",
                           "tcp", "--block", str(BLOCK), "--in-flight", str(IN_FLIGHT), "--time",
                           str(options.seconds), url], stdout=subprocess.PIPE, check=True)
    point, = json.loads(done.stdout)["points"]
    return point["bytes_per_second"]


def libnfs(options, server, handle):
    done = subprocess.run([f"{options.build}/bench/client-libnfs", str(server.port), "read", handle,
                           str(IN_FLIGHT), str(BLOCK), str(options.seconds), "as-is"],
                          stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)["calls_per_s"] * BLOCK


def show(name, rounds):
    """rounds: for each, tool -> bytes per second, the baseline first."""
    print(f"\n{name}")
    for tool in rounds[0]:
        rates = [one[tool] for one in rounds]
        apart = [one[tool] / one["baseline"] - 1 for one in rounds]
        print(f"  {tool:<28}{statistics.median(rates) / 1e6:10.1f} MB/s"
              f"{statistics.median(apart) * 100:+8.1f} %")


def measure_here(options, server):
    with open(os.path.join(server.export, "file"), "wb") as file:
        for _ in range(FILE_BYTES >> 20):
            file.write(b"holdfast" * (1 << 17))
    with nfs.Tcp(server.port) as transport:
        client = nfs.Nfs(transport)
        handle = client.lookup(client.mount(server.export).fh, "file").fh.hex()
    url = f"nfs://127.0.0.1:{server.port}{server.export}/file?mountport={server.port}&insecure"
    for rate in ("20mbit", "100mbit", "1gbit", None):
        rounds = []
        for _ in range(options.rounds):
            with wire(rate):
                rounds.append({"baseline": baseline(options, url),
                               "libnfs": libnfs(options, server, handle),
                               "iperf3, one stream": run.iperf(options)})
        show(f"loopback{', ' + rate if rate else ' as it is: each client has its own costs'}",
             rounds)


def measure_guest(options):
    shared = tempfile.mkdtemp(prefix="holdfast-agree-")
    try:
        subprocess.run([f"{run.HERE}/../tools/uml.sh", "-d", "256M", "-s", shared, "-t", "600",
                        f"{run.HERE}/agree_guest.sh", str(options.rounds), str(options.seconds)],
                       check=True, env=dict(os.environ, HOLDFAST_BIN=options.holdfast))
        with open(f"{shared}/rounds", encoding="ascii") as file:
            lines = [json.loads(line) for line in file]
    finally:
        shutil.rmtree(shared)
    for rate in dict.fromkeys(line["rate"] for line in lines):
        rounds = [{"baseline": line["baseline"], "kernel client, fio": line["fio"]}
                  for line in lines if line["rate"] == rate]
        show(f"guest, {rate}", rounds)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", default=f"{run.HERE}/../build")
    parser.add_argument("--guest", action="store_true", help="the kernel's client, in a guest")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--nice", type=int, default=0, help="priority, -20 on a busy machine")
    options = parser.parse_args()
    options.holdfast = os.path.realpath(f"{options.build}/src/cli/holdfast")
    options.load = f"{options.build}/bench/load"
    options.dir = "/dev/shm"
    return options


def main():
    options = parse()
    if options.guest:
        measure_guest(options)
        return
    run.enter_namespaces(options)
    work = run.make_work(options)
    export = os.path.join(work, "holdfast")
    os.makedirs(export)
    server = run.Holdfast(options, work, export)
    try:
        server.start()
        run.print_machine(options, work)
        measure_here(options, server)
    finally:
        server.stop()
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
