#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What a client's own tools show of the server (runs in a guest): showmount, rpcinfo, nfsstat, df.
here=$(dirname "$(realpath "$0")")
. "$here/../lib/guest.sh"

make_disk "${1:-ext4}"
mkdir $export_dir/other
server_start "$export_dir 127.0.0.0/8(rw,no_root_squash)" \
    "$export_dir/other 10.0.0.0/8(rw) @nobody(ro) *(ro)"

step "rpcinfo"
# program, versions
served='100000 2 3 4
100003 2 3
100005 1 2 3
100011 1 2
100012 1
100021 1 3 4
100024 1
100227 2 3'
same "programs and versions" "$served" "$(rpcinfo -p 127.0.0.1 | tail -n +2 |
    awk '{ print $1, $2 }' | sort -un -k 1,1 -k 2,2 |
    awk '{ v[$1] = v[$1] " " $2 } END { for (p in v) print p v[p] }' | sort -n)"
same "ports" "$(printf '%s\n' 'tcp 111' 'tcp 2049' 'udp 111' 'udp 2049')" \
    "$(rpcinfo -p 127.0.0.1 | tail -n +2 | awk '{ print $3, $4 }' | sort -u)"
while read -r program versions; do
    for version in $versions; do
        for transport in udp tcp; do
            rpcinfo -T $transport 127.0.0.1 "$program" "$version" > /run/rpcinfo 2>&1 ||
                fail "rpcinfo -T $transport $program $version: $(cat /run/rpcinfo)"
        done
    done
done <<< "$served"
refused 'Program not registered' rpcinfo -T tcp 127.0.0.1 100999

step "showmount"
exported="$export_dir 127.0.0.0/8
$export_dir/other 10.0.0.0/8,@nobody,*"
same "showmount -e" "$exported" \
    "$(showmount -e --no-headers 127.0.0.1 | sed 's/  */ /g')"
same "showmount -a before" "" "$(showmount -a --no-headers 127.0.0.1)"
nfs_mount $export_dir $mount_dir vers=3
nfs_mount $export_dir/other /mnt/other vers=3
same "showmount -a" "$(printf '127.0.0.1:%s\n' $export_dir $export_dir/other)" \
    "$(showmount -a --no-headers 127.0.0.1 | sort)"
same "showmount -d" "$(printf '%s\n' $export_dir $export_dir/other)" \
    "$(showmount -d --no-headers 127.0.0.1 | sort)"

step "nfsstat -m"
nfsstat -m > /run/nfsstat
grep -q "^$mount_dir from 127.0.0.1:$export_dir$" /run/nfsstat || fail "$(cat /run/nfsstat)"
flags=$(grep -A1 "^$mount_dir from" /run/nfsstat | tail -n 1)
for word in vers=3 rsize=1048576 wsize=1048576 namlen=255 proto=tcp mountvers=3 mountproto=; do
    [[ $flags == *$word* ]] || fail "nfsstat -m lacks $word: $flags"
done

step "df"
dd if=/dev/zero of=$mount_dir/file bs=1M count=20 conv=fsync status=none
touch $mount_dir/{1..50}
sync
# The client counts in blocks of what it transfers at once, 1 MiB, and rounds up.
space_of()
{
    df -k --output=size,avail "$1" | tail -n 1 |
        awk '{ print int(($1 + 1023) / 1024), int(($2 + 1023) / 1024) }'
}
same "df, size and space that is left, in MiB" "$(space_of $export_dir)" "$(space_of $mount_dir)"
used=$(df -k --output=used $mount_dir | tail -n 1)
[ "$used" -ge 20480 ] || fail "df says that $used KiB are used"
same "df -i" "$(df --output=itotal,iused,iavail $export_dir)" \
    "$(df --output=itotal,iused,iavail $mount_dir)"
same "type and source" "nfs 127.0.0.1:$export_dir" \
    "$(df --output=fstype,source $mount_dir | tail -n 1 | xargs)"
same "stat -f, name length" "$(stat -f -c %l $export_dir)" "$(stat -f -c %l $mount_dir)"

step "after umount"
umount $mount_dir /mnt/other
same "showmount -a" "" "$(showmount -a --no-headers 127.0.0.1)"
server_stop
step "done"
