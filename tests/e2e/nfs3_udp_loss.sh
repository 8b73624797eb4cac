#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# UDP on a bad network (runs in a guest): lo has an MTU of 1500, so a READ or WRITE of 32 KiB is 22
# fragments, and loses, doubles and reorders packets. The kernel's client has no UDP here
# (CONFIG_NFS_DISABLE_UDP_SUPPORT), so the client is our own.
here=$(dirname "$(realpath "$0")")
. "$here/../lib/guest.sh"

make_disk ext4
server_start "$export_dir(rw,sync,no_root_squash)"
ip link set lo mtu 1500
modprobe sch_netem
tc qdisc add dev lo root netem loss 1% duplicate 1% reorder 10% delay 1ms limit 10000
python3 "$here/udp_loss.py" "$export_dir"
server_stop
