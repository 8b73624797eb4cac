#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""kill.py EXPORT SEED: works until the server dies, then looks whether what it had acknowledged is
in the directory EXPORT. Run by nfs3_kill.sh in a guest."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import acked  # noqa: E402


def main():
    path, seed = sys.argv[1], int(sys.argv[2])
    workers = [acked.Worker(i, path, seed, 10**6) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    failures = []
    for worker in workers:
        failures += [worker.error] if worker.error else []
        failures += acked.lost(worker.done, worker.pending, os.path.join(path, worker.dir_name()))
    print(f"seed {seed}: {sum(len(w.done) for w in workers)} acknowledged, {len(failures)} wrong")
    for line in failures[:20]:
        print(" ", line)
    return 1 if failures or not all(w.done for w in workers) else 0


if __name__ == "__main__":
    sys.exit(main())
