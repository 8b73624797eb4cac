#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The server dies and comes back under a kernel client (runs in a guest): copies that were going
# on complete and are intact, handles and open files stay good. kill -9 loses no page cache, but the
# client cannot know: the write verifier must make it write again.
here=$(dirname "$(realpath "$0")")
. "$here/../lib/guest.sh"

big_mb=96

serve()
{
    server_start "$export_dir(rw,sync,no_root_squash)"
}

bounce()
{
    server_kill
    sleep 1
    serve
}

# going_on PID: waits a moment; the copy must not be over yet.
going_on()
{
    kill -0 "$1" 2> /dev/null || fail "the copy was over before the server died"
    sleep 0.05
}

make_disk "${1:-ext4}"
serve
nfs_mount
head -c ${big_mb}M /dev/urandom > /tmp/big

step "killed while a large file is written"
dd if=/tmp/big of="$mount_dir/big" bs=64k conv=fsync status=none &
copy=$!
while [ "$(stat -c %s "$export_dir/big" 2> /dev/null || echo 0)" -lt $((big_mb << 18)) ]; do
    going_on $copy
done
bounce
wait $copy || fail "the copy failed"
cmp /tmp/big "$export_dir/big" || fail "the copy is not what was written"

step "killed while it is read"
nfs_remount
dd if="$mount_dir/big" of=/tmp/copy bs=64k status=none &
copy=$!
while [ "$(stat -c %s /tmp/copy 2> /dev/null || echo 0)" -lt $((big_mb << 18)) ]; do
    going_on $copy
done
bounce
wait $copy || fail "reading failed"
cmp /tmp/big /tmp/copy || fail "what was read is not what is there"
rm /tmp/copy

step "killed three times while small files are made"
mkdir "$mount_dir/small" /tmp/small
# Exclusively, as cp does it: sent again after a restart, that is still the same success.
make_files='
import sys
for i in range(600):
    with open(f"{sys.argv[1]}/{i}", "xb") as file:
        file.write(b"%d " % i * i)
'
python3 -c "$make_files" /tmp/small
python3 -c "$make_files" "$mount_dir/small" &
copy=$!
for count in 50 200 400; do
    while [ ! -e "$export_dir/small/$count" ]; do
        going_on $copy
    done
    bounce
done
wait $copy || fail "making small files failed"
nfs_remount
diff -r /tmp/small "$mount_dir/small" || fail "small files differ"

step "a handle outlives the server, a rename of its parent, and a new start"
mkdir "$mount_dir/dir"
echo before > "$mount_dir/dir/file"
exec 7<> "$mount_dir/dir/file"
mv "$export_dir/dir" "$export_dir/moved"
bounce
echo "more words" >&7
exec 7>&-
same "the file that was open" "more words" "$(cat "$export_dir/moved/file")"

step "a deleted file's handle is stale, also when its inode is used again"
echo old > "$export_dir/victim"
exec 7< "$mount_dir/victim"
inode=$(stat -c %i "$export_dir/victim")
rm "$export_dir/victim"
bounce
for i in {1..50}; do
    echo new > "$export_dir/again$i"
    [ "$(stat -c %i "$export_dir/again$i")" != "$inode" ] || break
done
refused 'Stale file handle' cat <&7
exec 7<&-

umount "$mount_dir"
server_stop
step "done"
