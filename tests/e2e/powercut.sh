#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# powercut.sh [journal_]{sync|async|nosync} [CUTS [FS [WHERE]]]: power cuts under a working server,
# in a guest.
#
# The export's disk is under dm-log-writes, which keeps every write in the order in which flushes
# made it durable, and takes a mark from the client after each acknowledgement. A cut at a mark is
# an image of everything flushed before it and some, all or none of what was not flushed yet. The
# server is started on that image, as after a reboot, and then every change that was acknowledged
# before the mark must be there.
#
# That the rig can see a loss is shown by the other two ways to run it, which must lose something:
# an async export, and (rule 9) a sync one whose fsync does nothing. With journal_ the server keeps
# the intent log: WHERE says whether that is in the export ("inside"), or on a disk of its own
# ("device"), which is recorded and cut at the same marks, and of whose writes each sector counts.
# At every other cut the power fails again while the server starts: what it wrote is recorded, too,
# and cut at some write.
here=$(dirname "$(realpath "$0")")
. "$here/../lib/guest.sh"

mode=$1
cut_count=${2:-12}
fs=${3:-ext4}
where=${4:-inside}
state_dir=$export_dir/state
share=$export_dir/share
recorded=(recorded) # in the order in which they are marked (powercut.py)

serve()
{
    local how=sync
    [[ $mode != *async ]] || how=async
    server_start "$share(rw,$how,no_root_squash)"
}

# The small file systems that a test wants: mkfs.xfs(8) makes none below 300 MB but for its own
# tests, which these variables tell.
make_fs()
{
    case $fs in
        ext4) mkfs.ext4 -q -F -J size=8 -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 "$1" ;;
        xfs) TEST_DIR=x TEST_DEV=x QA_CHECK_FS=x mkfs.xfs -q -f -K "$1" ;;
        btrfs) mkfs.btrfs -q -f -K --mixed "$1" ;;
    esac
}

mount_fs()
{
    local options=rw
    [ "$fs" != ext4 ] || options=nodiscard
    mount -t "$fs" -o "$options" "$1" "$export_dir"
}

check_fs()
{
    local checked=0
    case $fs in
        ext4) e2fsck -fn "$1" > /tmp/fsck 2>&1 || checked=$? ;;
        xfs) xfs_repair -n "$1" > /tmp/fsck 2>&1 || checked=$? ;;
        btrfs) btrfs check "$1" > /tmp/fsck 2>&1 || checked=$? ;;
    esac
    [ $checked -eq 0 ] || fail "the file system is damaged: $(tail -n 30 /tmp/fsck)"
}

# record NAME DEVICE LOG: what is written to /dev/mapper/NAME is kept in LOG.
record()
{
    dmsetup create "$1" --table "0 $(blockdev --getsz "$2") log-writes $2 $3"
}

# The disks of cut $1: of the file system, and of the log if it has one.
make_images()
{
    python3 "$here/powercut.py" cut /tmp/history /dev/ubdb "$1" /dev/ubdc 4096
    [ "$where" != device ] ||
        python3 "$here/powercut.py" cut /tmp/history /dev/ubdf "$1" /dev/ubdg 512
}

# Starts a server on the images, records what it writes to the file system until it is ready, and
# makes the image what it is if the power fails in between. (What it writes to a log elsewhere is
# written when the file system is as it should be; that disk stays as it was.)
cut_again()
{
    record again /dev/ubdc /dev/ubdd
    mount_fs /dev/mapper/again
    serve
    server_kill
    umount "$export_dir"
    dmsetup remove again
    make_images "$1"
    python3 "$here/powercut.py" again /dev/ubdd "$1" /dev/ubdc
}

modprobe dm-log-writes
export DM_DISABLE_UDEV=1
record recorded /dev/ubda /dev/ubdb
make_fs /dev/mapper/recorded
mkdir "$export_dir"
mount_fs /dev/mapper/recorded
mkdir "$share" "$state_dir"
if [[ $mode = journal* && $where = device ]]; then
    record journal /dev/ubde /dev/ubdf
    recorded=(journal recorded)
    export HOLDFAST_JOURNAL=/dev/mapper/journal
elif [[ $mode = journal* ]]; then
    export HOLDFAST_JOURNAL=$state_dir/journal
    fallocate -l 6M "$HOLDFAST_JOURNAL"
fi
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
python3 "$here/powercut.py" work "$share" /tmp/history "${recorded[@]}"
server_kill
umount "$export_dir"
dmsetup remove "${recorded[@]}"
[ "$where" != device ] || export HOLDFAST_JOURNAL=/dev/ubdg

lossy=0
for cut in $(seq "$cut_count"); do
    make_images "$cut"
    if [ $((cut % 2)) -eq 0 ] && [[ $mode = sync || $mode = journal_sync ]]; then
        cut_again "$cut"
    fi
    mount_fs /dev/ubdc
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
    check_fs /dev/ubdc
done
step "$lossy of $cut_count cuts lost something that was acknowledged"
if [[ $mode != *async && $mode != *nosync ]]; then
    [ $lossy -eq 0 ] || fail "a sync export lost acknowledged changes"
else
    [ $lossy -gt 0 ] || fail "nothing was lost without syncs: this test sees nothing"
fi
