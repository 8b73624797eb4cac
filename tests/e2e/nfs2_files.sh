#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The kernel's NFSv2 client (runs in a guest), over TCP, which is what it is built with: files,
# links, pipes and devices, names by the thousand, times, and what 32 bits can say of larger files.
here=$(dirname "$(realpath "$0")")
. "$here/../lib/guest.sh"

file_count=200

make_disk ext4
server_start "$export_dir(rw,sync,no_root_squash)"

# Without mount.nfs, which knows version 2 no more: the kernel asks the portmapper and MOUNT itself.
mount_v2()
{
    mkdir -p "$mount_dir"
    mount -i -t nfs -o vers=2,proto=tcp,nolock,addr=127.0.0.1,mountvers=1,mountproto=tcp \
        "127.0.0.1:$export_dir" "$mount_dir"
}

step "mount with version 2"
mount_v2
options=$(findmnt -n -o OPTIONS "$mount_dir")
[[ $options == *vers=2,* && $options == *proto=tcp,* ]] || fail "mounted with $options"

remount()
{
    umount "$mount_dir"
    mount_v2
}

step "unpack $file_count files, read them back"
"$here/../lib/tree.py" $file_count /tmp/tree.tar
mkdir /tmp/tree "$mount_dir/tree"
tar xf /tmp/tree.tar -C "$mount_dir/tree"
tar xf /tmp/tree.tar -C /tmp/tree
remount
diff -r --no-dereference /tmp/tree "$mount_dir/tree" || fail "the trees differ through NFS"
diff -r --no-dereference /tmp/tree "$export_dir/tree" || fail "the trees differ on the server"

step "what is no file"
mkfifo -m 640 "$mount_dir/pipe"
mknod -m 620 "$mount_dir/tty" c 4 65
mknod -m 660 "$mount_dir/disk" b 259 70000
python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("'"$mount_dir"'/socket")'
ln -s to/where "$mount_dir/link"
ln "$mount_dir/pipe" "$mount_dir/pipe2"
remount
for dir in "$export_dir" "$mount_dir"; do
    (cd "$dir" && stat -c '%n %f %h %t %T' pipe pipe2 tty disk socket link) \
        > "/tmp/kinds.${dir##*/}"
done
diff /tmp/kinds.export /tmp/kinds.nfs || fail "kinds, modes and devices differ"
kinds='fifo fifo character special file block special file socket symbolic link'
# shellcheck disable=SC2005,SC2046
same "kinds of files" "$kinds" \
    "$(cd "$mount_dir" && echo $(stat -c %F pipe pipe2 tty disk socket link))"
same "the link" to/where "$(readlink "$mount_dir/link")"
echo through > "$mount_dir/pipe" & # the pipe is this machine's
same "the pipe" through "$(cat "$mount_dir/pipe2")"

step "times"
touch -d @1234567890.123456 "$mount_dir/tree"
same "a time" 1234567890.123456000 "$(date -r "$export_dir/tree" +%s.%N)"
touch "$export_dir/owned" && chmod 666 "$export_dir/owned"
touch -d @1000 "$export_dir/owned"
as 1000 touch "$mount_dir/owned" # the server's time: its owner alone may set another
[ "$(stat -c %Y "$export_dir/owned")" -gt 1000000000 ] || fail "touch by another had no effect"
refused "not permitted" as 1000 touch -d @5 "$mount_dir/owned"

step "larger than 32 bits"
truncate -s 5G "$export_dir/large"
same "size of 5 GiB" 4294967295 "$(stat -c %s "$mount_dir/large")"
printf end | dd of="$export_dir/large" bs=1 seek=2147483000 conv=notrunc status=none
same "data below 2 GiB" end "$(dd if="$mount_dir/large" bs=1 skip=2147483000 count=3 status=none)"
chmod 600 "$mount_dir/large"
same "its size, after chmod" 5368709120 "$(stat -c %s "$export_dir/large")"

step "5,000 names, and their removal"
mkdir "$mount_dir/names"
(cd "$export_dir/names" && seq -f 'name%.0f' 5000 | xargs touch)
remount
same "names" 5000 "$(ls "$mount_dir/names" | sort -u | wc -l)"
same "names, each once" 5000 "$(ls "$mount_dir/names" | wc -l)"
rm -r "$mount_dir/names"
[ ! -e "$export_dir/names" ] || fail "the directory is still there"

step "df"
here_kb=$(df -k --output=size "$export_dir" | tail -n 1)
nfs_kb=$(df -k --output=size "$mount_dir" | tail -n 1)
difference=$((here_kb - nfs_kb))
[ ${difference#-} -le 64 ] || fail "df: $here_kb here, $nfs_kb through NFS"

step "a restart of the server in between"
exec 7> "$mount_dir/open"
echo before >&7
server_stop
server_start "$export_dir(rw,sync,no_root_squash)"
echo after >&7
exec 7>&-
same "what was written before and after" "$(printf 'before\nafter')" "$(cat "$export_dir/open")"

umount "$mount_dir"
server_stop
step "done"
