#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fuzzes with libFuzzer, AddressSanitizer and UBSan: run.sh SECONDS [TARGET...]
#
# SECONDS are shared by the targets (all of them, if none is named), as many at a time as there are
# processors. What was found new stays in build-fuzz/corpus/TARGET; a crash in build-fuzz/TARGET-*,
# and it is printed with the command that shows it again. keep.sh takes finds into the corpus.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
build=${FUZZ_BUILD:-$root/build-fuzz}

# One target, for $1 seconds.
fuzz() {
    seconds=$1
    target=$2
    kept=$root/tests/fuzz/corpus/$target
    new=$build/corpus/$target
    log=$build/$target.log
    mkdir -p "$new" "$kept"
    if "$build/tests/fuzz/fuzz-$target" -max_total_time="$seconds" -max_len=4096 -timeout=10 \
        -rss_limit_mb=1024 -print_final_stats=1 -artifact_prefix="$build/$target-" \
        "$new" "$kept" >"$log" 2>&1; then
        runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
        edges=$(sed -n 's/.* cov: \([0-9]*\).*/\1/p' "$log" | tail -n 1)
        echo "$target: $runs inputs in $seconds s, $edges edges, nothing found"
        return 0
    fi
    echo "$target: FAILED"
    tail -n 60 "$log"
    for input in "$build/$target"-crash-* "$build/$target"-timeout-* "$build/$target"-oom-*; do
        [ ! -e "$input" ] || echo "again: $build/tests/fuzz/fuzz-$target $input"
    done
    return 1
}

case "${1:-}" in
'' | *[!0-9]*)
    echo "usage: run.sh SECONDS [TARGET...]" >&2
    exit 2
    ;;
esac
if [ "${FUZZ_ONE:-}" ]; then
    fuzz "$1" "$2"
    exit
fi
seconds=$1
shift

clang=$(command -v clang || command -v clang-14) || {
    echo "run.sh: clang is needed" >&2
    exit 3
}
if [ ! -f "$build/build.ninja" ]; then
    CC=$clang meson setup "$build" "$root" -Dfuzz=true -Dbuildtype=debugoptimized \
        -Db_sanitize=address,undefined -Db_lundef=false \
        -Dc_args='-fsanitize=fuzzer-no-link -fno-sanitize-recover=undefined' >/dev/null
fi
targets=$(ninja -C "$build" -t targets all | sed -n 's|^tests/fuzz/fuzz-\([^/:]*\):.*|\1|p' | sort)
# shellcheck disable=SC2046,SC2086
ninja -C "$build" $(printf 'tests/fuzz/fuzz-%s ' $targets) >/dev/null
# shellcheck disable=SC2086
[ $# -gt 0 ] || set -- $targets

jobs=$(nproc)
each=$((seconds * jobs / $#))
[ "$each" -gt 0 ] || each=1
printf '%s\n' "$@" | FUZZ_ONE=1 xargs -P "$jobs" -I TARGET "$0" "$each" TARGET || exit 1
