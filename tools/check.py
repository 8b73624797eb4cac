#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Builds and runs every test, and closes with one line: N passed, N failed, N skipped.

Two builds: as users get it, for everything; and with AddressSanitizer and UBSan, for the suites
that feed the code bytes. What a test prints is shown when it fails or is skipped.
"""
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILDS = [
    # folder, options, suites (None: all)
    ("build", ["-Dbuildtype=release"], None),
    ("build-asan", ["-Dbuildtype=debugoptimized", "-Db_sanitize=address,undefined",
                    "-Db_lundef=false"], ["unit", "wire", "fuzz"]),
]


def build(folder, options):
    path = os.path.join(ROOT, folder)
    if not os.path.exists(os.path.join(path, "build.ninja")):
        subprocess.run(["meson", "setup", path, ROOT, *options], check=True)
    subprocess.run(["ninja", "-C", path], check=True)
    return path


def run(path, suites):
    command = ["meson", "test", "-C", path, "--no-rebuild", "--print-errorlogs",
               "--num-processes", str(max(2, os.cpu_count() or 2)),
               "--timeout-multiplier", "4"]  # machines may be slow, tests may not be flaky
    for suite in suites or []:
        command += ["--suite", suite]
    log = os.path.join(path, "meson-logs", "testlog.json")
    if os.path.exists(log):
        os.remove(log)
    environment = dict(os.environ, UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1")
    subprocess.run(command, check=False, env=environment)
    results = []
    with open(log, encoding="utf-8") as lines:
        for line in lines:
            results.append(json.loads(line))
    return results


def main():
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for folder, options, suites in BUILDS:
        for result in run(build(folder, options), suites):
            kind = {"OK": "passed", "EXPECTEDFAIL": "passed", "SKIP": "skipped"}.get(
                result["result"], "failed")
            counts[kind] += 1
            if kind != "passed":
                print(f"{kind}: {result['name']} ({folder}): {result['result']}")
            if kind == "skipped":
                print((result.get("stdout") or "") + (result.get("stderr") or ""))
    print("{passed} passed, {failed} failed, {skipped} skipped".format(**counts))
    return 1 if counts["failed"] or not counts["passed"] else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (subprocess.CalledProcessError, OSError) as error:
        print(f"check: {error}", file=sys.stderr)
        print("0 passed, 1 failed, 0 skipped")
        sys.exit(1)
