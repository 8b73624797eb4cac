#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes tests/fuzz/corpus/TARGET the smallest set of inputs that covers what the old one and the
# finds of run.sh cover: keep.sh TARGET...
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
build=${FUZZ_BUILD:-$root/build-fuzz}
[ $# -gt 0 ] || {
    echo "usage: keep.sh TARGET..." >&2
    exit 2
}
for target; do
    old=$root/tests/fuzz/corpus/$target
    kept=$(mktemp -d "$build/keep-XXXXXX")
    mkdir -p "$build/corpus/$target" "$old"
    "$build/tests/fuzz/fuzz-$target" -set_cover_merge=1 -use_counters=0 -max_len=4096 \
        "$kept" "$old" "$build/corpus/$target" >"$build/$target-keep.log" 2>&1
    rm -f "$old"/*
    mv "$kept"/* "$old"/
    rmdir "$kept"
    echo "$target: $(ls "$old" | wc -l) inputs, $(du -sb "$old" | cut -f1) bytes"
done
