#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What a directory can hold, and who may do what (runs in a guest): special files, links, names,
# large files, a directory of 100,000 files, permissions of other users, squashed identities.
here=$(dirname "$(realpath "$0")")
. "$here/../lib/guest.sh"

special_files()
{
    mknod "$mount_dir/fifo" p
    mknod "$mount_dir/block" b 7 1234
    mknod "$mount_dir/char" c 300 70000
    python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' \
        "$mount_dir/socket"
    nfs_remount
    local name
    for name in fifo block char socket; do
        same "$name" "$(stat -c '%F %t %T %a %u' "$export_dir/$name")" \
            "$(stat -c '%F %t %T %a %u' "$mount_dir/$name")"
    done
    same "device numbers" "character special file 12c 11170" \
        "$(stat -c '%F %t %T' "$mount_dir/char")"
    (echo through > "$mount_dir/fifo") &
    same "a fifo passes words between processes" through "$(cat "$mount_dir/fifo")"
    rm "$mount_dir"/{fifo,block,char,socket}
}

links()
{
    echo one > "$mount_dir/file"
    ln "$mount_dir/file" "$mount_dir/hard"
    same "links of a hard-linked file" 2 "$(stat -c %h "$mount_dir/file")"
    same "the inode of both" "$(stat -c %i "$mount_dir/file")" "$(stat -c %i "$mount_dir/hard")"
    rm "$mount_dir/file"
    same "links after a remove" "1 one" "$(stat -c %h "$mount_dir/hard") $(cat "$mount_dir/hard")"
    local i targets=(hard ../nowhere /etc/passwd "$(printf 'x%.0s' {1..1000})" $'a\nb\xff')
    for i in "${!targets[@]}"; do
        ln -s "${targets[$i]}" "$mount_dir/symbolic$i"
    done
    nfs_remount
    for i in "${!targets[@]}"; do
        same "a symbolic link" "${targets[$i]}" "$(readlink "$mount_dir/symbolic$i")"
    done
    same "through a symbolic link" one "$(cat "$mount_dir/symbolic0")"
    rm "$mount_dir"/{hard,symbolic*}
}

# Names are bytes: all but "/" and NUL, 1 to 255 of them.
names()
{
    local long name
    long=$(printf 'n%.0s' {1..255})
    mkdir "$mount_dir/names"
    for name in "$long" ' ' $'\n' $'\x80\xff' '...' '-rf' '*' 'ä' $'\x01'; do
        printf %s "$name" > "$mount_dir/names/$name"
        printf %s "$name" | cmp - "$mount_dir/names/$name"
    done
    refused 'File name too long' touch "$mount_dir/names/${long}n"
    nfs_remount
    same "listed names" "$(ls -A "$export_dir/names" | sort)" "$(ls -A "$mount_dir/names" | sort)"
    mkdir -p "$mount_dir/names/$(printf 'd%.0s/' {1..100})"
    rm -r "$mount_dir/names"
    [ ! -e "$export_dir/names" ] || fail "names is still there on the server"
}

large_files()
{
    python3 - "$mount_dir" "$export_dir" <<'PYTHON'
import os, sys
path, here = sys.argv[1] + "/sparse", sys.argv[2] + "/sparse"
places = [0, 2**31 - 3, 2**32 - 3, 5 * 2**40 // 2]  # the last one: 2.5 TiB
with open(path, "wb") as file:
    for place in places:
        file.seek(place)
        file.write(b"straddle")
for at in (here, path):
    with open(at, "rb") as file:
        assert os.fstat(file.fileno()).st_size == places[-1] + 8, at
        for place in places:
            file.seek(place)
            assert file.read(8) == b"straddle", (at, place)
        file.seek(2**30)
        assert file.read(4096) == bytes(4096), at
os.truncate(path, 2**32 + 1)
assert os.stat(here).st_size == 2**32 + 1
os.unlink(path)
PYTHON
}

permissions()
{
    local file=$mount_dir/private
    echo secret > "$file"
    chown 1000:1000 "$file"
    chmod 640 "$file"
    same "the owner reads" secret "$(as 1000 cat "$file")"
    refused 'Permission denied' as 1001 cat "$file"
    same "the group reads" secret \
        "$(setpriv --reuid 1001 --regid 1001 --groups 1000 -- cat "$file")"
    # AUTH_SYS carries 16 groups: the one that counts is the last of them.
    same "a supplementary group reads" secret "$(setpriv --reuid 1001 --regid 1001 \
        --groups 51,52,53,54,55,56,57,58,59,60,61,62,63,64,65,1000 -- cat "$file")"
    refused 'Permission denied' as 1001 bash -c "echo x >> $file"
    refused 'Operation not permitted' as 1001 chmod 666 "$file"
    refused 'Operation not permitted' as 1000 chown 1001 "$file"
    as 1000 chmod 400 "$file"
    # The server lets an owner write what he has open, whatever the mode; the client checks at
    # open.
    refused 'Permission denied' as 1000 bash -c "echo x >> $file"
    same "root is root here" secret "$(cat "$file")"

    # An executable that cannot be read can still be run: the client reads it all the same.
    cp /bin/true "$mount_dir/true"
    chmod 711 "$mount_dir/true"
    as 1000 "$mount_dir/true"
    refused 'Permission denied' as 1000 cat "$mount_dir/true"

    mkdir -m 1777 "$mount_dir/sticky"
    as 1000 touch "$mount_dir/sticky/mine"
    refused 'Operation not permitted' as 1001 rm -f "$mount_dir/sticky/mine"
    refused 'Operation not permitted' as 1001 mv "$mount_dir/sticky/mine" "$mount_dir/sticky/yours"
    mkdir -m 2775 "$mount_dir/setgid"
    chown 0:1000 "$mount_dir/setgid"
    chmod 2777 "$mount_dir/setgid"
    as 1001 touch "$mount_dir/setgid/file"
    as 1001 mkdir "$mount_dir/setgid/dir"
    same "a file in a setgid directory" "1001 1000" "$(stat -c '%u %g' "$mount_dir/setgid/file")"
    same "a directory in one" "1001 1000 2755" "$(stat -c '%u %g %a' "$mount_dir/setgid/dir")"
    mkdir -m 700 "$mount_dir/closed"
    touch "$mount_dir/closed/file"
    refused 'Permission denied' as 1000 stat "$mount_dir/closed/file"
    refused 'Permission denied' as 1000 ls "$mount_dir/closed"
    rm -r "$mount_dir"/{private,true,sticky,setgid,closed}
}

squash()
{
    local dir=/mnt/squash
    nfs_mount "$export_dir/squash" $dir
    echo mine > "$export_dir/squash/of-root"
    chmod 600 "$export_dir/squash/of-root"
    refused 'Permission denied' cat $dir/of-root
    chmod 777 "$export_dir/squash"
    echo theirs > $dir/of-nobody
    same "root's file" "65534 65534" "$(stat -c '%u %g' "$export_dir/squash/of-nobody")"
    refused 'Operation not permitted' chown 1000 $dir/of-nobody
    as 1000 touch $dir/of-1000
    same "another user's file" "1000 1000" "$(stat -c '%u %g' "$export_dir/squash/of-1000")"
    umount $dir

    nfs_mount "$export_dir/all" $dir
    chmod 777 "$export_dir/all"
    as 1000 touch $dir/file
    same "anybody's file" "77 88" "$(stat -c '%u %g' "$export_dir/all/file")"
    umount $dir

    nfs_mount "$export_dir/readonly" $dir
    refused 'Read-only file system' touch $dir/file
    same "reading" "content" "$(cat $dir/word)"
    umount $dir
}

many_files()
{
    local count=100000
    mkdir "$export_dir/many"
    # Fills the directory, and prints what ls should say of it.
    python3 - "$export_dir/many" $count > /tmp/expected <<'PYTHON'
import os, sys
os.chdir(sys.argv[1])
names = [f"file-{i:06}" for i in range(int(sys.argv[2]))]
for name in names:
    os.mknod(name, 0o644)
for size, name in enumerate(names[::5000]):
    os.truncate(name, size)
for i, name in enumerate(names):
    print("-rw-r--r-- 1 0 0", i // 5000 if i % 5000 == 0 else 0, name)
PYTHON
    step "ls -l of $count files"
    ls -ln --time-style=+ "$mount_dir/many" | tail -n +2 | tr -s ' ' > /tmp/listed
    cmp /tmp/expected /tmp/listed || fail "ls -l of many files is wrong: $(head -n 3 /tmp/listed)"
    step "ls -f of them"
    same "entries with the dots" $((count + 2)) "$(ls -f "$mount_dir/many" | sort -u | wc -l)"
}

make_disk "${1:-ext4}"
mkdir "$export_dir"/{squash,all,readonly}
echo content > "$export_dir/readonly/word"
server_start "$export_dir(rw,async,no_root_squash)" "$export_dir/squash" \
    "$export_dir/all(rw,all_squash,anonuid=77,anongid=88)" "$export_dir/readonly(ro)"
nfs_mount
for part in special_files links names large_files permissions squash many_files; do
    step "$part"
    $part
done
umount "$mount_dir"
server_stop
step "done"
