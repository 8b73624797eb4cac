#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# posix.sh ext4|xfs (in a guest): thousands of file system calls do through NFS what they do on the
# exported file system itself, down to the error (posix.py). Differences that are the client's own,
# with their reasons, are in posix.known.
here=$(dirname "$(realpath "$0")")
. "$here/../lib/guest.sh"

make_disk "$1"
mkdir "$export_dir"/{local,remote}
server_start "$export_dir(rw,async,no_root_squash)"
nfs_mount
step "on the file system itself"
python3 "$here/posix.py" "$export_dir/local" > /tmp/local
step "through NFS"
python3 "$here/posix.py" "$mount_dir/remote" > /tmp/remote
step "$(wc -l < /tmp/local) lines to compare"
diff -U0 /tmp/local /tmp/remote | grep '^[-+][^-+]' > /tmp/differences || true
if ! diff <(grep -v '^#' "$here/posix.known") /tmp/differences; then
    [ ! -w /shared ] || cp /tmp/local /tmp/remote /tmp/differences /shared
    fail "NFS differs from $1"
fi
umount "$mount_dir"
server_stop
step "done"
