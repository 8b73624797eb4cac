#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# powercut.sh [journal_]{sync|async|nosync} [CUTS]: power cuts under a working server, in a guest.
#
# The export's disk is under dm-log-writes, which keeps every write in the order in which flushes
# made it durable, and takes a mark from the client after each acknowledgement. A cut at a mark is
# an image of everything flushed before it and some, all or none of what was not flushed yet. The
# server is started on that image, as after a reboot, and then every change that was acknowledged
# before the mark must be there.
#
# That the rig can see a loss is shown by the other two ways to run it, which must lose something:
# an async export, and (rule 9) a sync one whose fsync does nothing. With journal_ the server keeps
# the intent log, in the export.
here=$(dirname "$(realpath "$0")")
. "$here/../lib/guest.sh"

mode=$1
[[ $mode != journal* ]] || export HOLDFAST_JOURNAL=/export/state/journal
cut_count=${2:-12}
state_dir=$export_dir/state
share=$export_dir/share

serve()
{
    local how=sync
    [[ $mode != *async ]] || how=async
    server_start "$share(rw,$how,no_root_squash)"
}

modprobe dm-log-writes
export DM_DISABLE_UDEV=1
dmsetup create recorded --table "0 $(blockdev --getsz /dev/ubda) log-writes /dev/ubda /dev/ubdb"
mkfs.ext4 -q -F -J size=8 -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 /dev/mapper/recorded
mkdir "$export_dir"
mount -t ext4 -o nodiscard /dev/mapper/recorded "$export_dir"
mkdir "$share" "$state_dir"
[[ $mode != journal* ]] || fallocate -l 6M "$HOLDFAST_JOURNAL"
if [[ $mode = *nosync ]]; then
    # The key of the handles is not what is to be lost: without it no server starts.
    serve
    server_stop
    export LD_PRELOAD=$HOLDFAST_NOSYNC
fi
sync -f "$export_dir"
serve
unset LD_PRELOAD
step "work"
python3 "$here/powercut.py" work "$share" /tmp/history
server_kill
umount "$export_dir"
dmsetup remove recorded

lossy=0
for cut in $(seq "$cut_count"); do
    python3 "$here/powercut.py" cut /tmp/history /dev/ubdb "$cut" /dev/ubdc
    mount -t ext4 /dev/ubdc "$export_dir"
    # A server that sees what is missing, and refuses to serve, is right: that is a loss, too.
    if [[ $mode = journal_nosync ]] && ! (serve && server_kill) > /tmp/refused; then
        tail -n 1 /tmp/refused
        lossy=$((lossy + 1))
        umount "$export_dir"
        continue
    fi
    serve
    python3 "$here/powercut.py" check /tmp/history "$cut" "$share" || lossy=$((lossy + 1))
    grep replayed /run/server.err | tail -n 1 || true
    : > /run/server.err
    server_kill
    umount "$export_dir"
    e2fsck -fn /dev/ubdc > /tmp/fsck 2>&1 || fail "the file system is damaged: $(cat /tmp/fsck)"
done
step "$lossy of $cut_count cuts lost something that was acknowledged"
if [[ $mode != *async && $mode != *nosync ]]; then
    [ $lossy -eq 0 ] || fail "a sync export lost acknowledged changes"
else
    [ $lossy -gt 0 ] || fail "nothing was lost without syncs: this test sees nothing"
fi
