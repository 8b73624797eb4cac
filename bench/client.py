#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what a call costs its client: Holdfast's client library beside libnfs.

Both keep calls of one kind in flight over one connection, to bench/floor, which answers from
constants, and to `holdfast serve`. Every round runs each client against each server in turn; what
is printed is the median over the rounds. Nothing is asserted: see docs/bench.md for how to read it.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

import run

sys.path.insert(0, os.path.join(run.HERE, "..", "tests", "wire"))
import nfs  # noqa: E402  (the path comes first)

MIB = 1 << 20
SPAN_BYTES = 64 * MIB
CLIENTS = {"holdfast": ["client"], "libnfs as it is": ["client-libnfs", "as-is"],
           "libnfs, sends gathered": ["client-libnfs", "gathered"]}
LOADS = [("NULL, 32 in flight", "null", 32, 0), ("GETATTR, 32 in flight", "getattr", 32, 0),
         ("GETATTR, 1 in flight", "getattr", 1, 0), ("READ 4 KiB, 32 in flight", "read", 32, 4096),
         ("READ 1 MiB, 8 in flight", "read", 8, MIB)]


def handle_of_file(server):
    """A file of SPAN_BYTES in the export, by the client of the wire tests."""
    with open(os.path.join(server.export, "file"), "wb") as file:
        for _ in range(SPAN_BYTES // MIB):
            file.write(b"holdfast" * (MIB // 8))
    with nfs.Tcp(server.port) as transport:
        client = nfs.Nfs(transport)
        return client.lookup(client.mount(server.export).fh, "file").fh.hex()


def measure(options, server, handle, name, load):
    _, op, in_flight, size = load
    program, *more = CLIENTS[name]
    command = [os.path.join(options.build, "bench", program), str(server.port), op, handle,
               str(in_flight), str(size), str(options.seconds), *more]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=60)
    result = json.loads(done.stdout)
    options.json_file.write(json.dumps({"server": server.name, "client": name, "load": load[0],
                                        **result}) + "\n")
    return result


def cell(results):
    cpu = statistics.median(result["cpu_us_per_call"] for result in results)
    rate = statistics.median(result["calls_per_s"] for result in results)
    return f"{run.number(cpu)} ({rate:,.0f}/s)"


def ratio(ours, theirs, key, up):
    """How many times better, the median of the ratios of each round."""
    return statistics.median(t[key] / o[key] if up else o[key] / t[key]
                             for o, t in zip(ours, theirs))


def print_table(table, iperf_rates):
    print("| call | server | " + " | ".join(f"{name}, µs CPU" for name in CLIENTS) +
          " | " + " | ".join(f"per core, times {name}" for name in list(CLIENTS)[1:]) + " |")
    print("|" + "---|" * (2 + 2 * len(CLIENTS) - 1))
    for (name, server), results in table.items():
        ours, *others = results.values()
        cells = [cell(result) for result in results.values()]
        cells += [f"{ratio(ours, other, 'cpu_us_per_call', True):.2f}" for other in others]
        print("| " + " | ".join([name, server, *cells]) + " |")
    if not iperf_rates:
        return
    print(f"\niperf3, single stream: {statistics.median(iperf_rates) / 1e9:.2f} GB/s "
          f"({min(iperf_rates) / 1e9:.2f} to {max(iperf_rates) / 1e9:.2f})")
    for (name, server), results in table.items():
        if "1 MiB" in name:
            for client, rounds in results.items():
                shares = [result["calls_per_s"] * MIB / rate
                          for result, rate in zip(rounds, iperf_rates)]
                print(f"{name} from {server}, {client}: {statistics.median(shares) * 100:.0f} % "
                      f"of iperf3 in the same round ({min(shares) * 100:.0f} to "
                      f"{max(shares) * 100:.0f})")


def measure_all(options, servers):
    loads = [load for load in LOADS if options.rows.lower() in load[0].lower()]
    table = {(load[0], server.name): {name: [] for name in CLIENTS}
             for load in loads for server, _ in servers}
    iperf_rates = []
    for _ in range(options.rounds):
        for load in loads:
            if load[3] == MIB:
                iperf_rates.append(run.iperf(options))
            for server, handle in servers:
                for name in CLIENTS:
                    table[load[0], server.name][name].append(
                        measure(options, server, handle, name, load))
    print_table(table, iperf_rates)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", default=f"{run.HERE}/../build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--rows", default="", help="only loads whose name has this in it")
    parser.add_argument("--json", default="/dev/null", help="every single result, a line each")
    parser.add_argument("--nice", type=int, default=0, help="priority, -20 on a busy machine")
    options = parser.parse_args()
    options.holdfast = f"{options.build}/src/cli/holdfast"
    options.load = f"{options.build}/bench/load"
    options.dir = "/dev/shm"
    return options


def main():
    options = parse()
    run.enter_namespaces(options)
    options.json_file = open(options.json, "w", encoding="utf-8")
    work = run.make_work(options)
    servers = []
    try:
        for kind in (run.Floor, run.Holdfast):
            export = os.path.join(work, kind.name)
            os.makedirs(export)
            server = kind(options, work, export)
            server.start()
            servers.append((server, handle_of_file(server) if kind is run.Holdfast else "00" * 32))
        run.print_machine(options, work)
        measure_all(options, servers)
    finally:
        for server, _ in servers:
            server.stop()
        run.shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
