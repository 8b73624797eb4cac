#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# soak.sh SECONDS: power cuts (powercut.sh) for so long, on each file system, with the log inside
# and on a disk of its own, each run with a seed of its own. A run that lost something is told with
# what shows it again. A guest has one processor: two run at a time.
set -u
root=$(realpath "$(dirname "$0")/../..")
end=$((SECONDS + $1))
cuts=20
export HOLDFAST_BIN=${HOLDFAST_BIN:-$root/build/src/cli/holdfast}
kinds=('ext4 inside' 'ext4 device' 'xfs inside' 'xfs device' 'btrfs inside' 'btrfs device')
out=$(mktemp -d)
trap 'kill $(jobs -p) 2> /dev/null; rm -rf "$out"' EXIT

# run SEED FS WHERE
run()
{
    local log=$out/$1
    if HOLDFAST_SEED=$1 "$root/tools/uml.sh" -m 768 -t 3000 -d 64M -d 1G -d 64M -d 256M -d 64M \
        -d 1G -d 64M bash "$root/tests/e2e/powercut.sh" journal_sync $cuts "$2" "$3" \
        > "$log" 2>&1; then
        echo "$2, log $3, seed $1: $cuts cuts, nothing lost"
        return
    fi
    echo "$2, log $3: FAILED; again with HOLDFAST_SEED=$1 powercut.sh journal_sync $cuts $2 $3"
    tail -n 20 "$log"
    : > "$out/failed"
}

seed=$(date +%s)
number=0
while [ $SECONDS -lt $end ]; do
    # shellcheck disable=SC2086
    run $((seed + number)) ${kinds[$((number % ${#kinds[@]}))]} &
    number=$((number + 1))
    [ "$(jobs -pr | wc -l)" -lt 2 ] || wait -n
done
wait
[ ! -e "$out/failed" ]
