#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Quotas through a mount (runs in a guest): what quota(1) says of a mounted directory is what it
# says of the server's own file system, for users and groups; who is over the limit gets EDQUOT. Who
# may ask for whom, over both versions of the protocol, is for quota.py.
here=$(dirname "$(realpath "$0")")
. "$here/../lib/guest.sh"

nfs_device=127.0.0.1:$export_dir

# said DEVICE ARG...: what quota(1) says of one of the file systems: space, quota, limit, until when
# (0: no grace time runs); and the same of files.
said()
{
    local device=$1
    shift
    quota -v -w -p "$@" 2> /run/quota.err |
        awk -v device="$device" '$1 == device { $1 = ""; gsub(/\*/, ""); print }' | xargs
}

# same_quota ARG...: on both sides. Times that run may differ by the seconds that pass in between.
same_quota()
{
    local i here there
    read -r -a here <<< "$(said /dev/ubda "$@")"
    read -r -a there <<< "$(said $nfs_device "$@")"
    same "fields of quota $*, ${there[*]:-none} $(cat /run/quota.err)" "${#here[@]}" "${#there[@]}"
    [ "${#here[@]}" = 8 ] || fail "quota $* says '${here[*]}'"
    for i in 0 1 2 4 5 6; do
        same "field $i of quota $*" "${here[$i]}" "${there[$i]}"
    done
    for i in 3 7; do
        [ $((here[i] == 0)) = $((there[i] == 0)) ] || fail "quota $*: ${here[*]}, ${there[*]}"
        [ $((there[i] - here[i])) -ge -5 ] && [ $((there[i] - here[i])) -le 5 ] ||
            fail "quota $*: ${here[*]}, ${there[*]}"
    done
}

make_quotas()
{
    modprobe quota_v2 2> /dev/null || true
    mkdir -p $export_dir
    if [ "$1" = ext4 ]; then
        mkfs.ext4 -q -F -O quota -E quotatype=usrquota:grpquota /dev/ubda
        mount -t ext4 -o usrquota,grpquota /dev/ubda $export_dir
    else
        mkfs.xfs -q -f /dev/ubda
        # Without room behind the ends of files, which counts, and comes and goes.
        mount -t xfs -o uquota,gquota,allocsize=4k /dev/ubda $export_dir
    fi
    mkdir -m 1777 $export_dir/all
    mkdir $export_dir/all/deep $export_dir/other
    setquota -u 1000 2000 3000 50 60 $export_dir
    setquota -g 2000 10000 20000 0 7 $export_dir
    setquota -u 1002 6000000000 7000000000 0 0 $export_dir # KiB: more than 32 bits
}

make_quotas "${1:-ext4}"
server_start "$export_dir 127.0.0.1(rw,sync,no_root_squash)" "$export_dir/other 10.9.9.9(rw)"
nfs_mount $export_dir $mount_dir vers=3
install -m 666 /dev/null /run/quota.err

step "within, over the soft and over the hard limit"
same_quota -u 1000
as 1000 dd if=/dev/zero of=$mount_dir/all/a bs=1k count=1500 conv=fsync status=none
sync
same_quota -u 1000
same "space of user 1000" 1500 "$(said $nfs_device -u 1000 | cut -d' ' -f1)"
as 1000 dd if=/dev/zero of=$mount_dir/all/b bs=1k count=1000 conv=fsync status=none
sync
same_quota -u 1000
[ "$(said $nfs_device -u 1000 | cut -d' ' -f4)" -gt "$(date +%s)" ] || fail "no grace time runs"
refused 'Disk quota exceeded' \
    as 1000 dd if=/dev/zero of=$mount_dir/all/c bs=1k count=1000 conv=fsync status=none
sync
same_quota -u 1000
in_words()
{
    quota -w -s -A -u 1000 2>&1 | awk -v device="$1" '$1 == device { $1 = ""; print }' | xargs
}
same "with -s, in words" "$(in_words /dev/ubda)" "$(in_words $nfs_device)"

step "groups, and large numbers"
setpriv --reuid 1001 --regid 2000 --clear-groups -- \
    bash -c "cd $mount_dir/all; touch {1..7}"
same_quota -g 2000
same "files of group 2000" 7 "$(said $nfs_device -g 2000 | cut -d' ' -f5)"
refused 'Disk quota exceeded' \
    setpriv --reuid 1001 --regid 2000 --clear-groups -- touch $mount_dir/all/eighth
same_quota -u 1002
same "the limits of user 1002" "6000000000 7000000000" \
    "$(said $nfs_device -u 1002 | cut -d' ' -f2,3)"

step "a user asks"
same "of himself" "$(said $nfs_device -u 1000)" \
    "$(setpriv --reuid 1000 --regid 1000 --clear-groups -- bash -c "$(declare -f said); \
        said $nfs_device" 2> /run/quota.err)"

step "who may ask for whom"
python3 "$here/quota.py" 2049 $export_dir ||
    fail "quota.py"

step "not enforced: counted all the same"
if [ "${1:-ext4}" = ext4 ]; then
    quotaoff -u $export_dir
    python3 "$here/quota.py" 2049 $export_dir off || fail "quota.py off"
fi
umount $mount_dir
server_stop
step "done"
