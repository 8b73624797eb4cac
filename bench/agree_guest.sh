#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# agree_guest.sh ROUNDS SECONDS, in a guest, for agree.py --guest: READs by `holdfast baseline` and
# by fio on a mount of the kernel, with direct I/O, of the same size and as many in flight. Writes a
# line of JSON for each round to /shared/rounds.
here=$(dirname "$(realpath "$0")")
. "$here/../tests/lib/guest.sh"

rounds=$1
seconds=$2
file=$export_dir/file
url="nfs://127.0.0.1:2049$file?mountport=2049"

make_disk ext4
head -c 64M /dev/urandom > "$file"
server_start "$export_dir(ro,async,insecure)"
nfs_mount "$export_dir" "$mount_dir" vers=3,proto=tcp,rsize=131072,noatime

# What is at that place of the JSON on stdin.
number()
{
    /usr/bin/python3 -c "import json, sys; print(json.load(sys.stdin)$1)"
}

point()
{
    "$HOLDFAST_BIN" baseline --json --kind read --proto tcp --block 128k --in-flight 8 \
        --time "$seconds" "$url" |
        number '["points"][0]["bytes_per_second"]'
}

kernel()
{
    fio --name=read --filename="$mount_dir/file" --rw=read --bs=128k --direct=1 \
        --ioengine=libaio --iodepth=8 --runtime="$seconds" --time_based --output-format=json |
        number '["jobs"][0]["read"]["bw_bytes"]'
}

ip link set lo mtu 1500
modprobe sch_tbf
for rate in 20mbit 50mbit 200mbit; do
    tc qdisc add dev lo root tbf rate $rate burst 64k limit 8m
    for _ in $(seq "$rounds"); do
        echo "{\"rate\": \"$rate\", \"baseline\": $(point), \"fio\": $(kernel)}" >> /shared/rounds
    done
    tc qdisc del dev lo root
done
umount "$mount_dir"
server_stop
