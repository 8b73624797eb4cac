#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The main job (runs in a guest): a mount without a version falls back from version 4 to 3, a source
# tree is unpacked, read back and compared, and something is built with make.
here=$(dirname "$(realpath "$0")")
. "$here/../lib/guest.sh"

file_count=4200

# A C project: a library of 5 files and a program, with dependencies.
write_project()
{
    local i
    mkdir "$1"
    {
        echo 'objects = $(patsubst %.c,%.o,$(wildcard part*.c))'
        echo 'sum: main.o libparts.a'
        printf '\t$(CC) -o $@ main.o -L. -lparts\n'
        echo 'libparts.a: $(objects)'
        printf '\tar rcs $@ $^\n'
        echo '%.o: %.c parts.h'
        printf '\t$(CC) -O1 -Wall -Werror -c -o $@ $<\n'
    } > "$1/Makefile"
    {
        echo '#include <stdio.h>'
        echo '#include "parts.h"'
        echo 'int main(void) { printf("%d\n", 0'
        for i in $(seq 5); do
            echo "    + part$i()"
            echo "int part$i(void);" >> "$1/parts.h"
            printf '#include "parts.h"\nint part%d(void) { return %d; }\n' "$i" "$i" > "$1/part$i.c"
        done
        echo '    ); return 0; }'
    } > "$1/main.c"
}

make_disk ext4
server_start "$export_dir(rw,sync,no_root_squash)"

step "mount with nothing but the address and nolock"
! pgrep -x rpcbind || fail "an rpcbind runs in this guest"
nfs_mount
options=$(findmnt -n -o OPTIONS "$mount_dir")
[[ $options == *vers=3,* && $options == *proto=tcp,* ]] || fail "mounted with $options"
nfsstat -m | grep -q 'vers=3' || fail "nfsstat -m: $(nfsstat -m)"

step "the portmapper and the export list"
rpcinfo -p 127.0.0.1 > /tmp/programs
for line in '100000 +2 +tcp +111' '100000 +2 +udp +111' '100003 +3 +tcp +2049' \
    '100003 +3 +udp +2049' '100005 +3 +tcp' '100005 +3 +udp'; do
    grep -qE "^ +$line" /tmp/programs || fail "rpcinfo -p lacks '$line': $(cat /tmp/programs)"
done
for transport in t u; do
    rpcinfo -$transport 127.0.0.1 100003 3 || fail "rpcinfo -$transport: NFS is not there"
    rpcinfo -$transport 127.0.0.1 100005 3 || fail "rpcinfo -$transport: MOUNT is not there"
done
showmount -e 127.0.0.1 | grep -q "^$export_dir " || fail "showmount -e: $(showmount -e 127.0.0.1)"

step "df"
for column in size used avail; do
    here_kb=$(df -k --output=$column "$export_dir" | tail -n 1)
    nfs_kb=$(df -k --output=$column "$mount_dir" | tail -n 1)
    # The client counts in units of its wsize, 1 MiB at most.
    difference=$((here_kb - nfs_kb))
    [ ${difference#-} -le 1024 ] || fail "df $column: $here_kb here, $nfs_kb through NFS"
done
same "df -i" "$(df --output=itotal "$export_dir" | tail -n 1)" \
    "$(df --output=itotal "$mount_dir" | tail -n 1)"

step "unpack $file_count files"
"$here/../lib/tree.py" $file_count /tmp/tree.tar
mkdir /tmp/tree "$mount_dir/tree"
tar xf /tmp/tree.tar -C "$mount_dir/tree"
step "read it back"
tar xf /tmp/tree.tar -C /tmp/tree
nfs_remount
diff -r --no-dereference /tmp/tree "$mount_dir/tree" || fail "the trees differ through NFS"
# Modes, owners, times and links, which diff does not look at.
tar df /tmp/tree.tar -C "$mount_dir/tree" || fail "attributes differ through NFS"

step "build with make"
write_project "$mount_dir/project"
make -s -C "$mount_dir/project"
same "what the built program says" 15 "$("$mount_dir/project/sum")"
make -q -C "$mount_dir/project" || fail "make wants to build again: times are not kept"
sleep 1.1
sed -i 's/return 3/return 300/' "$mount_dir/project/part3.c"
! make -q -C "$mount_dir/project" || fail "make does not see that a file is newer"
make -s -C "$mount_dir/project"
same "what the program says after a change" 312 "$("$mount_dir/project/sum")"

step "remove it all"
rm -r "$mount_dir/tree" "$mount_dir/project"
same "what is left" "" "$(ls -A "$mount_dir" | grep -v '^lost+found$' || true)"

# The client's dirty pages are the machine's, and so are the limits that hold the server back.
step "a large file when few dirty pages are allowed"
sysctl -q vm.dirty_bytes=$((4 << 20)) vm.dirty_background_bytes=$((2 << 20))
head -c 48M /dev/urandom > /tmp/big
dd if=/tmp/big of="$mount_dir/big" bs=1M conv=fsync status=none
nfs_remount
cmp /tmp/big "$mount_dir/big" || fail "the large file is not what was written"

umount "$mount_dir"
server_stop
step "done"
