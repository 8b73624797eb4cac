#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Measures NFS servers beside each other on loopback: CPU per operation, throughput, latency.

All servers run at once, idle but for the one under load, in a network namespace and a mount
namespace of their own; each has an export of its own with the same files in it. Every round puts
each load on each server in turn, so that what disturbs the machine disturbs all of them; what is
printed is the median over the rounds. Nothing is asserted: see docs/bench.md for how to read it.
"""

import argparse
import ctypes
import json
import os
import platform
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
MIB = 1 << 20
BIG_BYTES = 256 * MIB
IMAGE_BYTES = 8 << 30
# Inodes for what --full makes and never removes, ready before anything is measured.
MKFS_OPTIONS = {"ext4": ["-N", "2000000", "-E", "lazy_itable_init=0,lazy_journal_init=0"]}
FILES = 1000
PR_SET_PDEATHSIG = 1


class Row:
    """One line of the table: a load, and which number of it counts."""

    def __init__(self, name, args, *, metric="server_us_per_op", fresh=None, bulk=False,
                 again=False):
        self.name = name
        self.args = args.split()
        self.metric = metric
        self.fresh = fresh  # wants a directory of its own: "empty", or "full" of files
        self.bulk = bulk  # bytes per second, beside iperf3
        self.again = again  # the same work as the row before, asked for in another way


def rows(options):
    create = 20000 if options.full else 4000
    huge = options.huge
    many = f"--files {FILES}"
    data = f"--span {BIG_BYTES}"
    return [
        # First in a round: ext4 does not use an inode again in the seconds after its removal, and
        # a create that finds many such inodes takes ten times as long.
        Row("CREATE", f"--op create --in-flight 16 --count {create}", fresh="empty"),
        Row("NULL", "--op null"),
        Row("GETATTR, 1 file", "--op getattr --dir big"),
        Row("GETATTR, 1,000 files", f"--op getattr --dir many {many}"),
        Row("GETATTR, 1,000 files, a send each", f"--op getattr --dir many {many} --one-by-one",
            again=True),
        Row("LOOKUP, 1 name", "--op lookup --dir many"),
        Row("LOOKUP, 1,000 names", f"--op lookup --dir many {many}"),
        Row(f"LOOKUP, {huge:,} names", f"--op lookup --dir huge --files {huge}"),
        Row("READ 4 KiB, 1 file", f"--op read --dir big --size 4096 {data}"),
        Row("READ 4 KiB, 1,000 files", f"--op read --dir many --size 4096 {many}"),
        Row("WRITE 4 KiB unstable, 1 file", f"--op write --dir out --size 4096 --span {64 * MIB}"),
        Row("WRITE 4 KiB unstable, 1,000 files", f"--op write --dir many --size 4096 {many}"),
        Row("REMOVE", f"--op remove --in-flight 16 --count {create}", fresh="full"),
        Row("READ 1 MiB", f"--op read --dir big --size {MIB} --in-flight 8 {data}", bulk=True),
        Row("WRITE 1 MiB unstable", f"--op write --dir out --size {MIB} --in-flight 8 {data}",
            bulk=True),
        Row("NULL, 1 in flight", "--op null --in-flight 1", metric="p50_us"),
        Row("GETATTR, 1 in flight", "--op getattr --dir big --in-flight 1", metric="p50_us"),
        Row(f"READDIRPLUS of {huge:,} files, per entry",
            "--op readdirplus --dir huge --in-flight 1 --size 65536", metric="server_us_per_unit"),
        Row("GETATTR, 10 connections", "--op getattr --dir big --in-flight 1 --active 10",
            metric="p99_us"),
        Row("GETATTR, 10 of 1,000 connections",
            "--op getattr --dir big --in-flight 1 --active 10 --connections 1000", metric="p99_us"),
    ]


# ---- servers ----


class Server:
    name = ""

    def __init__(self, options, work, export):
        self.options = options
        self.work = work
        self.export = export
        self.port = free_port()
        self.mount_port = self.port
        self.log_path = os.path.join(work, self.name + ".log")
        self.process = None
        self.dirs_made = 0

    def command(self):
        raise NotImplementedError

    def can(self, row):
        return True

    def before_start(self):
        pass

    def after_start(self):
        pass

    def start(self):
        self.before_start()
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, preexec_fn=die_with_parent)
        deadline = time.monotonic() + 30
        while not (is_listening(self.port) and is_listening(self.mount_port)):
            if self.process.poll() is not None or time.monotonic() > deadline:
                with open(self.log_path, encoding="utf-8", errors="replace") as log:
                    sys.exit(f"bench: {self.name} did not start:\n{log.read()[-2000:]}")
            time.sleep(0.05)
        self.after_start()

    def stop(self):
        if self.process is None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None


class Holdfast(Server):
    name = "holdfast"

    def command(self):
        state = os.path.join(self.work, "holdfast-state")
        os.makedirs(state, exist_ok=True)
        argument = f"{self.export} 127.0.0.1(rw,async,no_root_squash,insecure)"
        return [self.options.holdfast, "serve", argument, "--port", str(self.port), "--portmap",
                "off", "--state", state]


class Ganesha(Server):
    """nfs-ganesha, FSAL VFS, as packaged; it wants a portmapper while it starts, and only then."""

    name = "ganesha"

    def before_start(self):
        self.mount_port = free_port()
        self.config = os.path.join(self.work, "ganesha.conf")
        with open(self.config, "w", encoding="utf-8") as config:
            config.write(f"""
NFS_CORE_PARAM {{ Protocols = 3; NFS_Port = {self.port}; MNT_Port = {self.mount_port};
    Enable_NLM = false; Enable_RQUOTA = false; }}
NFSv4 {{ RecoveryBackend = fs; }}
EXPORT {{ Export_Id = 1; Path = {self.export}; Pseudo = {self.export}; Access_Type = RW;
    Squash = No_Root_Squash; SecType = sys; Protocols = 3; Transports = TCP;
    FSAL {{ Name = VFS; }} }}
LOG {{ Default_Log_Level = EVENT; }}
""")
        self.rpcbind = subprocess.Popen(["rpcbind", "-w", "-f"], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        preexec_fn=die_with_parent)
        time.sleep(1)

    def command(self):
        return ["ganesha.nfsd", "-F", "-f", self.config, "-p", os.path.join(self.work, "g.pid"),
                "-L", self.log_path, "-N", "NIV_EVENT"]

    def after_start(self):
        time.sleep(1)
        self.rpcbind.terminate()
        self.rpcbind.wait()


class Floor(Server):
    """Answers NULL, and nothing else, at the least cost there is: see floor.c."""

    name = "floor"

    def command(self):
        return [os.path.join(os.path.dirname(self.options.load), "floor"), str(self.port)]

    def can(self, row):
        return row.args[:2] == ["--op", "null"]


class Local(Server):
    """No server: the system call that each operation comes down to. See local.c."""

    name = "local"
    counts = {"null": 200000, "getattr": 200000, "lookup": 200000, "read": 100000, "write": 50000,
              "readdirplus": 1}

    def start(self):
        pass

    def can(self, row):
        return row.metric in ("server_us_per_op", "server_us_per_unit") and not row.again

    def measure(self, row, args):
        given = dict(zip(args[::2], args[1::2]))
        size = int(given.get("--size", 4096))
        operation = given["--op"]
        count = int(given.get("--count", self.counts.get(operation)))
        command = [os.path.join(os.path.dirname(self.options.load), "local"), operation,
                   os.path.join(self.export, given.get("--dir", "big")), given.get("--files", "1"),
                   str(size), given.get("--span", str(size)),
                   str(count if size < MIB else 2000)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        return {row.metric: float(done.stdout), "server": self.name, "row": row.name}


SERVERS = {server.name: server for server in (Ganesha, Holdfast, Floor, Local)}
NOT_NFS = ("floor", "local")


def die_with_parent(number=signal.SIGKILL):
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def is_listening(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


# ---- the files ----


def fill(path, count, size_bytes):
    os.makedirs(path, exist_ok=True)
    data = b"holdfast" * (min(size_bytes, MIB) // 8)
    for number in range(count):
        with open(f"{path}/f{number:06d}", "wb") as file:
            for _ in range(max(size_bytes // MIB, 1) if data else 0):
                file.write(data)


def prepare(export, options):
    fill(f"{export}/many", FILES, 4096)
    fill(f"{export}/big", 1, BIG_BYTES)
    fill(f"{export}/out", 1, BIG_BYTES)
    fill(f"{export}/huge", options.huge, 0)


# ---- measuring ----


def load(options, server, args):
    command = [options.load, "--port", str(server.port), "--mount-port", str(server.mount_port),
               "--export", server.export, "--pid", str(server.process.pid)] + args
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=600)
    if done.returncode != 0:
        print(f"bench: {server.name}: {' '.join(args)}: {done.stderr.strip()}", file=sys.stderr)
        return None
    return json.loads(done.stdout)


def fresh_dir(options, server, row):
    """A directory no server has seen before, filled through the server where the row wants it."""
    server.dirs_made += 1
    name = f"new{server.dirs_made}"
    os.makedirs(f"{server.export}/{name}")
    count = row.args[row.args.index("--count") + 1]
    if row.fresh == "full" and server.name == "local":
        fill(f"{server.export}/{name}", int(count), 0)
    elif row.fresh == "full":
        load(options, server, ["--op", "create", "--dir", name, "--in-flight", "16", "--count",
                               count])
    return name


def measure(options, server, row):
    if not server.can(row):
        return None
    args = list(row.args)
    if row.fresh is not None:
        name = fresh_dir(options, server, row)
        args += ["--dir", name]
    else:
        args += ["--seconds", str(options.seconds), "--warmup", "0.3"]
    if server.name == "local":
        result = server.measure(row, args)
    else:
        result = load(options, server, args)
    # Or the next row would be measured while this one's data is written back.
    subprocess.run(["sync", "--file-system", server.export], check=True)
    if result is not None:
        result.update(server=server.name, row=row.name)
        options.json_file.write(json.dumps(result) + "\n")
        options.json_file.flush()
    return result


def iperf(options):
    """Bytes per second of a single iperf3 stream on the same loopback."""
    port = free_port()
    server = subprocess.Popen(["iperf3", "-s", "-1", "-p", str(port)], stdout=subprocess.DEVNULL,
                              preexec_fn=die_with_parent)
    while not is_in_listen(port):
        time.sleep(0.05)
    done = subprocess.run(["iperf3", "-c", "127.0.0.1", "-p", str(port), "-t",
                           str(max(1, round(options.seconds))), "-J"], stdout=subprocess.PIPE,
                          check=True)
    server.wait()
    return json.loads(done.stdout)["end"]["sum_received"]["bits_per_second"] / 8


def is_in_listen(port):
    with open("/proc/net/tcp", encoding="ascii") as tcp, \
            open("/proc/net/tcp6", encoding="ascii") as tcp6:
        lines = tcp.readlines() + tcp6.readlines()
    return any(f":{port:04X}" in line.split()[1] and line.split()[3] == "0A"
               for line in lines[1:] if len(line.split()) > 3)


def memory(options, servers):
    """Growth of a freshly started server: for a connection, and for a file it has been told of."""
    grown = {}
    for server in servers:
        if server.name in NOT_NFS:
            continue
        server.stop()
        server.start()
        load(options, server, ["--op", "null", "--seconds", "0.2"])
        idle = load(options, server, ["--op", "null", "--connections", "1000", "--seconds", "0.2"])
        server.stop()
        server.start()
        load(options, server, ["--op", "getattr", "--dir", "big", "--seconds", "0.2"])
        known = load(options, server, ["--op", "lookup", "--dir", "huge", "--files",
                                       str(options.huge), "--count", str(options.huge)])
        grown[server.name] = {
            "connection": (idle["rss_open_bytes"] - idle["rss_before_bytes"]) / 1000,
            "handle": (known["rss_after_bytes"] - known["rss_open_bytes"]) / options.huge,
            "start": idle["rss_before_bytes"],
        }
        options.json_file.write(json.dumps({"server": server.name, "memory": grown[server.name]})
                                + "\n")
    return grown


# ---- the table ----


METRIC_NAMES = {"server_us_per_op": "µs CPU", "server_us_per_unit": "µs CPU",
                "p50_us": "µs median", "p99_us": "µs p99"}


def values(results, key):
    return [result[key] for result in results if result is not None]


def median(results, key):
    found = values(results, key)
    return statistics.median(found) if found else None


def number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def cell(row, results):
    """The metric, and in brackets the other number one wants to see beside it."""
    value = median(results, row.metric)
    if value is None:
        return "-"
    if "ops_per_s" not in results[-1]:
        return number(value)
    if row.bulk:
        more = f"{median(results, 'ops_per_s') * MIB / 1e9:.2f} GB/s"
    elif row.metric == "p50_us":
        more = f"p99 {number(median(results, 'p99_us'))}"
    elif row.metric == "server_us_per_unit":
        more = f"{median(results, 'units_per_s'):,.0f}/s"
    else:
        more = f"{median(results, 'ops_per_s'):,.0f}/s"
    return f"{number(value)} ({more})"


def spread(row, by_name):
    """Half the distance of the extremes over the median, of the worst server, in percent."""
    worst = 0
    for results in by_name.values():
        found = values(results, row.metric)
        if len(found) > 1:
            worst = max(worst, (max(found) - min(found)) / 2 / statistics.median(found))
    return f"{worst * 100:.0f} %"


def print_table(table, names, iperf_rates):
    base, others = names[0], [name for name in names[1:] if name not in NOT_NFS]
    ratios = [f"{name}/{base}" for name in others]
    head = ["operation", "measure"] + names + ratios + ["spread"]
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row, by_name in table:
        cells = [row.name, METRIC_NAMES[row.metric]] + [cell(row, by_name[name]) for name in names]
        of_base = median(by_name[base], row.metric)
        for name in others:
            value = median(by_name[name], row.metric)
            cells.append(f"{value / of_base:.3f}" if value and of_base else "-")
        print("| " + " | ".join(cells + [spread(row, by_name)]) + " |")
    if iperf_rates:
        print(f"\niperf3, single stream: {statistics.median(iperf_rates) / 1e9:.2f} GB/s "
              f"({min(iperf_rates) / 1e9:.2f} to {max(iperf_rates) / 1e9:.2f})")


def print_machine(options, work):
    with open("/proc/cpuinfo", encoding="utf-8") as cpuinfo:
        model = re.search(r"model name\s*: (.*)", cpuinfo.read())
    stat = subprocess.run(["stat", "-f", "-c", "%T", work], stdout=subprocess.PIPE, text=True,
                          check=True)
    print(f"{model.group(1) if model else 'unknown CPU'}, {os.cpu_count()} CPUs, Linux "
          f"{platform.release()}, export on {stat.stdout.strip()}; {options.rounds} rounds of "
          f"{options.seconds} s; load average {os.getloadavg()[0]:.2f} at the start\n")


# ---- start ----


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--holdfast", default=f"{HERE}/../build/src/cli/holdfast")
    parser.add_argument("--load", default=f"{HERE}/../build/bench/load")
    parser.add_argument("--servers", default=",".join(SERVERS),
                        help="which, the first one is the base of the ratios")
    parser.add_argument("--fs", default="ext4", choices=["ext4", "xfs", "btrfs"],
                        help="the exports are on a new file system of this type, in memory")
    parser.add_argument("--dir", help="the exports are made here instead")
    parser.add_argument("--full", action="store_true", help="9 long rounds, not 3 short ones")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--huge", type=int, default=100000, help="files in the large directory")
    parser.add_argument("--rows", default="", help="only rows whose name matches this pattern")
    parser.add_argument("--no-memory", action="store_true")
    parser.add_argument("--nice", type=int, default=0,
                        help="priority of servers and load, -20 on a machine that is busy")
    parser.add_argument("--json", default="/dev/null", help="every single result, a line each")
    options = parser.parse_args()
    options.rounds = options.rounds or (9 if options.full else 3)
    options.seconds = options.seconds or (2.0 if options.full else 0.7)
    return options


def enter_namespaces(options):
    """Ports, portmapper and the state of a server are nobody else's business; and with --nice, a
    session of its own, since the scheduler shares the CPUs between sessions first."""
    if os.environ.get("BENCH_INSIDE") is None:
        os.environ["BENCH_INSIDE"] = "yes"
        session = ["setsid", "--wait"] if options.nice != 0 else []
        command = session + ["unshare", "--net", "--mount", sys.executable] + sys.argv
        os.execvp(command[0], command)
    die_with_parent(signal.SIGTERM)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("bench: stopped"))
    if options.nice != 0:
        os.setpriority(os.PRIO_PROCESS, 0, options.nice)
        if os.path.exists("/proc/self/autogroup"):
            with open("/proc/self/autogroup", "w", encoding="ascii") as autogroup:
                autogroup.write(str(options.nice))
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    for path in ("/run", "/var/lib/nfs"):
        if os.path.isdir(path):
            subprocess.run(["mount", "-t", "tmpfs", "tmpfs", path], check=True)


def choose(options):
    programs = {"ganesha": "ganesha.nfsd", "holdfast": options.holdfast}
    for name in NOT_NFS:
        programs[name] = os.path.join(os.path.dirname(options.load), name)
    if shutil.which(options.load) is None:
        sys.exit(f"bench: {options.load} is not built; it needs libnfs-dev")
    names = []
    for name in options.servers.split(","):
        if shutil.which(programs[name]) is not None:
            names.append(name)
        else:
            print(f"bench: {programs[name]} is not there, and left out", file=sys.stderr)
    return names or sys.exit("bench: no server to measure")


def make_work(options):
    """The directory everything happens in. A new file system is like any other's new file system,
    and its journal is nobody else's; the mount ends with our mount namespace."""
    work = os.path.join(options.dir or "/var/tmp", f"holdfast-bench.{os.getpid()}")
    os.makedirs(work)
    if options.dir is None:
        image = f"/dev/shm/holdfast-bench.{os.getpid()}"
        with open(image, "wb") as file:
            file.truncate(IMAGE_BYTES)
        subprocess.run([f"mkfs.{options.fs}", "-q", *MKFS_OPTIONS.get(options.fs, []), image],
                       check=True)
        subprocess.run(["mount", "-o", "loop", image, work], check=True)
        os.unlink(image)
    return work


def measure_all(options, servers):
    wanted = [row for row in rows(options) if re.search(options.rows, row.name)]
    table = [(row, {server.name: [] for server in servers}) for row in wanted]
    iperf_rates = []
    for _ in range(options.rounds):
        for row, by_name in table:
            if row.bulk and shutil.which("iperf3"):
                iperf_rates.append(iperf(options))
            for server in servers:
                by_name[server.name].append(measure(options, server, row))
    print_table(table, [server.name for server in servers], iperf_rates)


def main():
    options = parse()
    enter_namespaces(options)
    names = choose(options)
    options.json_file = open(options.json, "w", encoding="utf-8")
    work = make_work(options)
    servers = []
    try:
        for name in names:
            export = os.path.join(work, name)
            os.makedirs(export)
            servers.append(SERVERS[name](options, work, export))
            if name != "floor":
                prepare(export, options)
        os.sync()
        for server in servers:
            server.start()
        print_machine(options, work)
        measure_all(options, servers)
        if not options.no_memory:
            for name, grown in memory(options, servers).items():
                print(f"memory, {name}: {grown['start'] / MIB:.1f} MiB at start, "
                      f"{grown['connection']:,.0f} bytes a connection, "
                      f"{grown['handle']:,.0f} bytes a known file")
    finally:
        for server in servers:
            server.stop()
        shutil.rmtree(work, ignore_errors=True)  # a mount point: that goes by itself
        if os.path.ismount(work):
            subprocess.run(["umount", "--lazy", work], check=True)
            os.rmdir(work)


if __name__ == "__main__":
    main()
