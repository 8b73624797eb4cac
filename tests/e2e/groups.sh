#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A user in more groups than a credential has room for (runs in a guest): the kernel sends sixteen,
# and with manage_gids the server looks the others up.
here=$(dirname "$(realpath "$0")")
. "$here/../lib/guest.sh"

groups=$(seq -s, 7001 7020)

make_disk ext4
echo "member:x:4242:4242::/:/bin/sh" >> /etc/passwd
for gid in ${groups//,/ }; do
    echo "g$gid:x:$gid:member" >> /etc/group
done
mkdir $export_dir/plain $export_dir/managed
for dir in plain managed; do
    for gid in ${groups//,/ }; do
        echo "of $gid" > $export_dir/$dir/$gid
        chown 0:"$gid" $export_dir/$dir/"$gid"
        chmod 640 $export_dir/$dir/"$gid"
    done
    mkdir $export_dir/$dir/dir
    chown 0:7019 $export_dir/$dir/dir
    chmod 2770 $export_dir/$dir/dir
done
server_start "$export_dir/plain(rw,sync,no_root_squash)" \
    "$export_dir/managed(rw,sync,no_root_squash,manage_gids)"

member()
{
    setpriv --reuid 4242 --regid 4242 --groups "$groups" -- "$@"
}

# readable DIR: how many of the files.
readable()
{
    local gid count=0
    for gid in ${groups//,/ }; do
        ! member cat "$1/$gid" > /dev/null 2>&1 || count=$((count + 1))
    done
    echo $count
}

step "without manage_gids: sixteen"
nfs_mount $export_dir/plain $mount_dir vers=3
same "files that can be read" 16 "$(readable $mount_dir)"
refused 'Permission denied' member touch $mount_dir/dir/file
umount $mount_dir

step "with it: all"
nfs_mount $export_dir/managed $mount_dir vers=3
same "files that can be read" 20 "$(readable $mount_dir)"
member touch $mount_dir/dir/file
same "the new file" "4242 7019" "$(stat -c '%u %g' $export_dir/managed/dir/file)"
member chgrp 7020 $mount_dir/dir/file
refused 'Permission denied' as 4243 cat $mount_dir/7020
# What the client says of him does not count.
refused 'Permission denied' setpriv --reuid 4243 --regid 4243 --groups 7001 -- cat $mount_dir/7001
umount $mount_dir
server_stop
step "done"
