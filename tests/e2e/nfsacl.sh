#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Access control lists through a mount (runs in a guest): what getfacl(1) and setfacl(1) of a client
# say and do is what they say and do on the server's own file system, and the kernels of both decide
# by it. Version 3: Linux' client has no lists in version 2.
here=$(dirname "$(realpath "$0")")
. "$here/../lib/guest.sh"

list_of()
{
    (cd "$1" && getfacl -n -E -p "$2")
}

# same_lists NAME...: on both sides, the second time without what the client has cached.
same_lists()
{
    local name turn
    for turn in cached fresh; do
        for name; do
            same "the list of $name, $turn" "$(list_of $export_dir "$name")" \
                "$(list_of $mount_dir "$name")"
        done
        echo 3 > /proc/sys/vm/drop_caches
    done
}

set_on_the_client()
{
    echo words > $mount_dir/f
    mkdir $mount_dir/d
    same_lists f d
    setfacl -m u:1000:rw,u:1001:r,g:2000:rwx $mount_dir/f
    setfacl -m u:1000:rwx,d:u:1000:rwx,d:g:2000:rx,d:m::rwx,d:o::- $mount_dir/d
    same_lists f d
    same "the named user" "user:1000:rw-" "$(list_of $export_dir f | grep user:1000)"
    setfacl -m m::r $mount_dir/f
    setfacl -x u:1001 $mount_dir/f
    same_lists f
    chmod 664 $mount_dir/f
    same_lists f
    setfacl -k $mount_dir/d
    same_lists d
    setfacl -b $mount_dir/f $mount_dir/d
    same_lists f d
    same "extended lists on the server" "" "$(getfacl -s -p $export_dir/f $export_dir/d)"
}

set_on_the_server()
{
    setfacl -m u:1002:rx,g:3000:w,m::rx $export_dir/f
    setfacl -m d:u:1002:rx,o::x $export_dir/d
    # The client may believe what it knows for a while; one that mounts anew knows nothing.
    umount $mount_dir
    nfs_mount $export_dir $mount_dir vers=3
    same_lists f d
    same "ls marks it" "+" "$(ls -l $mount_dir/f | cut -c11)"
}

# What is made in a directory with a default list, as on the server's own file system.
inherited()
{
    local mask name
    setfacl -b $mount_dir/d
    setfacl -m d:u::rwx,d:u:1000:rwx,d:g::rx,d:m::rwx,d:o::rx $mount_dir/d
    for mask in 000 022 077; do
        (umask $mask && cd $mount_dir/d && touch f$mask && mkdir d$mask && mkfifo p$mask)
        (umask $mask && cd $export_dir/d && touch F$mask && mkdir D$mask && mkfifo P$mask)
        for name in f d p; do
            same "$name made with umask $mask" \
                "$(list_of $export_dir/d ${name^}$mask | tail -n +2)" \
                "$(list_of $mount_dir/d $name$mask | tail -n +2)"
            same "and on the server" "$(list_of $export_dir/d ${name^}$mask | tail -n +2)" \
                "$(list_of $export_dir/d $name$mask | tail -n +2)"
        done
    done
    cp -a $mount_dir/d $mount_dir/copy
    same "cp -a keeps it" "$(list_of $mount_dir/d d022)" "$(list_of $mount_dir/copy d022)"
}

decides()
{
    echo secret > $mount_dir/secret
    chmod 600 $mount_dir/secret
    refused 'Permission denied' as 1000 cat $mount_dir/secret
    setfacl -m u:1000:r $mount_dir/secret
    same "who is named reads" secret "$(as 1000 cat $mount_dir/secret)"
    refused 'Permission denied' as 1000 bash -c "echo x > $mount_dir/secret"
    refused 'Permission denied' as 1001 cat $mount_dir/secret
    refused 'Operation not permitted' as 1000 setfacl -m u:1001:r $mount_dir/secret
    setfacl -m g:2000:rw $mount_dir/secret
    same "whose group is named writes" "" \
        "$(setpriv --reuid 1005 --regid 1005 --groups 2000 -- \
            bash -c "echo told >> $mount_dir/secret" 2>&1)"
    chown 1003 $mount_dir/secret
    as 1003 setfacl -b $mount_dir/secret
    refused 'Permission denied' as 1000 cat $mount_dir/secret
    same_lists secret
}

hidden()
{
    local dir=/mnt/hidden
    nfs_mount $export_dir/hidden $dir vers=3
    echo words > $dir/f
    umount $dir
    setfacl -m u:1000:r $export_dir/hidden/f
    chmod o-r $export_dir/hidden/f
    nfs_mount $export_dir/hidden $dir vers=3
    refused 'Operation not supported' setfacl -m u:1001:r $dir/f
    same "no_acl: the mode alone" "user::rw- group::r-- other::---" \
        "$(getfacl -c -E -p $dir/f | xargs)"
    same "which is obeyed all the same" words "$(as 1000 cat $dir/f)"
    umount $dir
}

restart()
{
    setfacl -m u:1000:rwx,g:2000:r,m::rx $mount_dir/f
    local before
    before=$(list_of $mount_dir f)
    server_kill
    serve
    echo 3 > /proc/sys/vm/drop_caches
    same "the list after the server was killed" "$before" "$(list_of $mount_dir f)"
    same_lists f d
}

serve()
{
    server_start "$export_dir(rw,sync,no_root_squash)" \
        "$export_dir/hidden(rw,no_root_squash,no_acl)"
}

make_disk "${1:-ext4}"
mkdir $export_dir/hidden
serve
nfs_mount $export_dir $mount_dir vers=3
for part in set_on_the_client set_on_the_server inherited decides hidden restart; do
    step "$part"
    $part
done
umount $mount_dir
server_stop
step "done"
