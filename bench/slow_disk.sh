#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# slow_disk.sh [FILES [ROUNDS [flush|write]]]: what a slow disk costs who unpacks small files. In a
# guest (tools/uml.sh): FILES (500) of 20 KiB, unpacked by tar on the kernel's client over NFSv3 and
# TCP, onto an ext4 on a disk of which each flush, or each write and flush, is held back for 10 ms
# (dm-delay). Served by the kernel's server, sync and async, and by ours: without a log, with the
# log on the same disk, with the log on a second disk that is not slow, and async. Each round takes
# them in turn; the table has the medians. The guest's clock ticks every 10 ms, and what is held
# back waits for the second tick: what a durable write takes in truth stands in the table's head.
here=$(dirname "$(realpath "$0")")
root=$(dirname "$here")
if [ ! -e /run/guest/command ]; then
    export HOLDFAST_BIN=${HOLDFAST_BIN:-$root/build/src/cli/holdfast}
    exec "$root/tools/uml.sh" -m 512 -t 3000 -d 512M -d 128M bash "$(realpath "$0")" "$@"
fi
. "$root/tests/lib/guest.sh"

file_count=${1:-500}
round_count=${2:-1}
file_bytes=20480
slow=${3:-flush}
declare -A seconds

make_tar()
{
    local i
    mkdir /tmp/tree
    for i in $(seq "$file_count"); do
        head -c $file_bytes /dev/urandom > "/tmp/tree/file$i"
    done
    tar -cf /tmp/tree.tar -C /tmp tree
}

slow_disk()
{
    mkfs.ext4 -q -F -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 /dev/mapper/slow
    mkdir -p "$export_dir"
    mount -o nodiscard /dev/mapper/slow "$export_dir"
}

# unpack ROW: the client has closed all files when tar ends, so their data has been committed.
unpack()
{
    local began ended
    sync -f "$export_dir"
    nfs_mount "$export_dir" "$mount_dir" vers=3,proto=tcp
    began=$(date +%s%N)
    tar -xf /tmp/tree.tar -C "$mount_dir" --no-same-owner
    ended=$(date +%s%N)
    umount "$mount_dir"
    same "files on the server" "$file_count" "$(find "$export_dir/tree" -type f | wc -l)"
    seconds[$1]+="$(((ended - began) / 1000000)) "
    step "$1: $(((ended - began) / 1000000)) ms"
}

# knfsd HOW
knfsd()
{
    slow_disk
    echo "$export_dir 127.0.0.1($1,rw,no_root_squash,insecure,no_subtree_check)" > /etc/exports
    rpc.nfsd --no-nfs-version 4 --lease-time 10 --grace-time 10 4
    exportfs -ra
    unpack "knfsd $1"
    exportfs -ua
    rpc.nfsd 0
    umount "$export_dir"
}

# ours ROW HOW JOURNAL
ours()
{
    slow_disk
    HOLDFAST_JOURNAL=$3
    server_start --portmap off "$export_dir(rw,$2,no_root_squash,insecure)"
    unpack "$1"
    server_stop
    umount "$export_dir"
    : > /run/server.err
}

nfs_mount()
{
    local options="nolock,$3"
    [ -z "$server_pid" ] || ! kill -0 "$server_pid" 2> /dev/null ||
        options+=",port=2049,mountport=2049,mountproto=tcp"
    mkdir -p "$2"
    mount -t nfs -o "$options" "127.0.0.1:$1" "$2"
}

median()
{
    tr ' ' '\n' | grep . | sort -n | awk '{all[NR] = $1} END {print all[int((NR + 1) / 2)]}'
}

modprobe dm-delay
modprobe nfsd
export DM_DISABLE_UDEV=1
sectors=$(blockdev --getsz /dev/ubda)
[ "$slow" = write ] && write_ms=10 || write_ms=0
dmsetup create slow \
    --table "0 $sectors delay /dev/ubda 0 0 /dev/ubda 0 $write_ms /dev/ubda 0 10"
# 50 durable writes of a block, past the page cache.
began=$(date +%s%N)
dd if=/dev/zero of=/dev/mapper/slow bs=4k count=50 oflag=direct,dsync status=none
ended=$(date +%s%N)
durable_us=$(((ended - began) / 50000))
make_tar
rm -rf /etc/exports.d /etc/nfs.conf.d
mount -t nfsd nfsd /proc/fs/nfsd
rpcbind -w
rpc.mountd
rows=("knfsd sync" "knfsd async" "each change synced" "log on the same disk"
    "log on a second disk" "ours, async")
for _ in $(seq "$round_count"); do
    knfsd sync
    knfsd async
    ours "each change synced" sync off
    ours "log on the same disk" sync auto
    dd if=/dev/zero of=/dev/ubdb bs=1M count=1 status=none
    ours "log on a second disk" sync /dev/ubdb
    ours "ours, async" async auto
done
echo
echo "| $file_count files of $file_bytes bytes; a durable write: $durable_us us | seconds |" \
    "of ours, async |"
echo "|---|---|---|"
base=$(median <<< "${seconds[ours, async]}")
for row in "${rows[@]}"; do
    ms=$(median <<< "${seconds[$row]}")
    awk -v row="$row" -v ms="$ms" -v base="$base" \
        'BEGIN {printf "| %s | %.1f | %.2f |\n", row, ms / 1000, ms / base}'
done
