#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# slow_disk.sh [FILES [ROUNDS [flush|write]]]: what a slow disk costs who unpacks small files. In a
# guest (tools/uml.sh): FILES (500) of 20 KiB, unpacked by tar on the kernel's client over NFSv3 and
# TCP, onto an ext4 on a disk that answers each flush, or each write and flush, after 10 ms
# (slow-disk, beside this; its flushes are counted). Served by the kernel's server, sync and async,
# and by ours: without a log, with the log on the same disk, with the log on a second disk in
# memory, and async. Each round takes them in turn; the table has the medians, and in its head what
# a write of a block and a flush take, and a system call: in this guest a hundred times what it
# takes on the host, and a server outside the kernel makes ten for a call.
here=$(dirname "$(realpath "$0")")
root=$(dirname "$here")
if [ ! -e /run/guest/command ]; then
    export HOLDFAST_BIN=${HOLDFAST_BIN:-$root/build/src/cli/holdfast}
    export HOLDFAST_SLOW_DISK=${HOLDFAST_SLOW_DISK:-$root/build/bench/slow-disk}
    exec "$root/tools/uml.sh" -m 1024 -t 3000 bash "$(realpath "$0")" "$@"
fi
. "$root/tests/lib/guest.sh"

file_count=${1:-500}
round_count=${2:-1}
file_bytes=20480
slow=${3:-flush}
declare -A seconds flushes

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
    mkfs.ext4 -q -F -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 /dev/nbd0
    mkdir -p "$export_dir"
    mount -o nodiscard /dev/nbd0 "$export_dir"
}

flush_count()
{
    awk '{print $16}' /sys/block/nbd0/stat
}

# unpack ROW: the client has closed all files when tar ends, so their data has been committed.
unpack()
{
    local began ended flushed
    sync -f "$export_dir"
    nfs_mount "$export_dir" "$mount_dir" vers=3,proto=tcp
    flushed=$(flush_count)
    began=$(date +%s%N)
    tar -xf /tmp/tree.tar -C "$mount_dir" --no-same-owner
    ended=$(date +%s%N)
    flushed=$(($(flush_count) - flushed))
    umount "$mount_dir"
    same "files on the server" "$file_count" "$(find "$export_dir/tree" -type f | wc -l)"
    seconds[$1]+="$(((ended - began) / 1000000)) "
    flushes[$1]+="$flushed "
    step "$1: $(((ended - began) / 1000000)) ms, $flushed flushes"
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

# What a system call takes, and a write of a block and a flush, in microseconds.
costs()
{
    python3 - /dev/nbd0 << 'PYTHON'
import mmap, os, sys, time
def us(count, work):
    began = time.perf_counter()
    for _ in range(count):
        work()
    return (time.perf_counter() - began) / count * 1e6
block = mmap.mmap(-1, 4096)
disk = os.open(sys.argv[1], os.O_RDWR | os.O_DIRECT)
print(f"a system call: {us(1000, os.getppid):.0f} us;",
      f"a write: {us(50, lambda: os.pwrite(disk, block, 0)):.0f} us; and a flush:",
      f"{us(50, lambda: (os.pwrite(disk, block, 0), os.fdatasync(disk))):.0f} us")
PYTHON
}

modprobe nbd nbds_max=1
modprobe brd rd_nr=1 rd_size=131072
modprobe nfsd
"$HOLDFAST_SLOW_DISK" /dev/nbd0 512 10 "$slow" &
slow_pid=$!
while [ "$(blockdev --getsz /dev/nbd0)" -eq 0 ]; do
    kill -0 $slow_pid
    sleep 0.1
done
costs=$(costs)
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
    dd if=/dev/zero of=/dev/ram0 bs=1M count=1 status=none
    ours "log on a second disk" sync /dev/ram0
    ours "ours, async" async auto
done
echo
echo "| $file_count files of $file_bytes bytes; $costs | seconds | of ours, async | flushes |"
echo "|---|---|---|---|"
base=$(median <<< "${seconds[ours, async]}")
for row in "${rows[@]}"; do
    ms=$(median <<< "${seconds[$row]}")
    awk -v row="$row" -v ms="$ms" -v base="$base" -v flushes="$(median <<< "${flushes[$row]}")" \
        'BEGIN {printf "| %s | %.1f | %.2f | %d |\n", row, ms / 1000, ms / base, flushes}'
done
kill $slow_pid
