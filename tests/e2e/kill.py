#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""kill.py EXPORT SEED PID: clients work, the server PID is killed, and what it had acknowledged
must be in the directory EXPORT. Run by nfs3_kill.sh in a guest."""
import os
import random
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import acked  # noqa: E402


def main():
    path, seed, pid = sys.argv[1], *map(int, sys.argv[2:])
    workers = [acked.Worker(i, path, seed, 10**6) for i in range(4)]
    enough = random.Random(seed).randrange(100, 400)
    for worker in workers:
        worker.start()
    while sum(len(w.done) for w in workers) < enough and not any(w.error for w in workers):
        time.sleep(0.001)
    os.kill(pid, signal.SIGKILL)
    for worker in workers:
        worker.join()
    failures = []
    for worker in workers:
        failures += [worker.error] if worker.error else []
        begun = [worker.pending] if worker.pending else []
        failures += acked.lost(worker.done, begun, os.path.join(path, worker.dir_name()))
    print(f"seed {seed}: {sum(len(w.done) for w in workers)} acknowledged, {len(failures)} wrong")
    for line in failures[:20]:
        print(" ", line)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
