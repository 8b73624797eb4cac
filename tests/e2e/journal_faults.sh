#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What breaks under a server with the log on a disk of its own (runs in a guest): that disk goes,
# the file system's goes, either is full, the file system stops itself. In each case the answers
# are right, nothing that was acknowledged is lost, and what can go on goes on.
here=$(dirname "$(realpath "$0")")
. "$here/../lib/guest.sh"

calls()
{
    python3 "$here/journal_faults.py" "$export_dir" "$@" || fail "calls: $*"
}

serve()
{
    server_start "$export_dir(rw,sync,no_root_squash,insecure)"
}

# table NAME DEVICE: from now on the disk is there, or with DEVICE - it is gone.
table()
{
    local target="linear $2 0"
    [ "$2" != - ] || target=error
    dmsetup suspend --noflush --nolockfs "$1"
    dmsetup load "$1" --table "0 $(cat "/run/$1.sectors") $target"
    dmsetup resume "$1"
}

# disk NAME DEVICE [SECTORS]
disk()
{
    echo "${3:-$(blockdev --getsz "$2")}" > "/run/$1.sectors"
    dmsetup create "$1" --table "0 $(cat "/run/$1.sectors") linear $2 0"
}

# is_failed True|False: what the status says of the log.
is_failed()
{
    same "the log has failed" "$1" "$("$HOLDFAST_BIN" status --json --state "$state_dir" |
        python3 -c 'import json, sys; print(json.load(sys.stdin)["journals"][1]["failed"])')"
}

# After a crash of the machine: what the file system's disk has is looked at, and mounted anew. (An
# ext4 that has stopped itself wants e2fsck(8), which ends with 1 when it has put something right.)
reboot()
{
    server_kill
    umount "$export_dir"
    table data /dev/ubda
    e2fsck -fp /dev/mapper/data > /tmp/fsck 2>&1 || [ $? -eq 1 ] ||
        fail "the file system is damaged: $(cat /tmp/fsck)"
    mount /dev/mapper/data "$export_dir"
}

modprobe dm-mod
export DM_DISABLE_UDEV=1
export HOLDFAST_JOURNAL=/dev/mapper/log
disk data /dev/ubda
disk log /dev/ubdb
make_disk ext4 /dev/mapper/data
serve

step "the log's disk goes"
calls "create a OK" "write a 5000 OK" "create b OK" "commit b 200000 OK" "create c OK"
before=$(calls "verifier c")
table log -
calls "create d IO" "write a 5000 IO" "commit c 100 IO" "remove a IO" "read a 5000" "read b 200000"
[ "$before" != "$(calls "verifier c")" ] || fail "the write verifier is the old one"
is_failed True
server_kill
if (serve) > /run/refused 2>&1; then
    fail "a server started without the log that its export needs"
fi
grep -q /dev/mapper/log /run/refused || fail "it does not say why: $(cat /run/refused)"
table log /dev/ubdb
serve
calls "read a 5000" "read b 200000" "create e OK" "write e 100 OK" "remove a OK"
is_failed False

step "the file system's disk goes"
calls "create f OK" "write f 9000 OK" "create g OK"
table data -
calls "write f 9000 OK|IO" "write g 400000 IO|ROFS" "create h IO" "remove f IO" \
    "commit f 9000 IO"
is_failed True
reboot
serve
calls "gone a" "read b 200000" "read e 100" "read f 9000" "create h2 OK" "write g 400000 OK"

step "the file system stops itself"
calls "create i OK" "write i 3000 OK"
mount -o remount,abort "$export_dir" || true
calls "create j IO|ROFS" "write g 400000 IO|ROFS" "read i 3000"
reboot
serve
calls "read i 3000" "read g 400000" "create j2 OK" "write j2 50000 OK"

step "the file system is full"
dd if=/dev/zero of="$export_dir/fill" bs=1M status=none 2> /dev/null || true
calls "create k OK|NOSPC" "write j2 3000000 NOSPC" "read i 3000" "remove h2 OK"
is_failed False
rm "$export_dir/fill"
calls "create l OK" "write l 3000000 OK" "commit j2 70000 OK"
reboot
serve
calls "gone h2" "read l 3000000" "read j2 70000" "read g 400000"
server_stop

step "the log is full"
dmsetup remove log
dd if=/dev/zero of=/dev/ubdb bs=1M count=2 status=none
disk log /dev/ubdb 2048
serve
for round in 1 2 3; do
    many=()
    for i in $(seq 40); do
        many+=("create m$round.$i OK" "write m$round.$i 15000 OK")
    done
    calls "${many[@]}"
done
is_failed False
reboot
serve
calls "read m1.1 15000" "read m2.40 15000" "read m3.40 15000"
server_stop
umount "$export_dir"
e2fsck -fn /dev/mapper/data > /tmp/fsck 2>&1 || fail "the file system is damaged: $(cat /tmp/fsck)"
