#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# For test suites that are not ours: runs HOLDFAST_E2E_CMD (bash) in a guest, once in a directory of
# the exported file system and once in the same place through NFS, so that the file system can be
# asked first what is the server's fault. Needs HOLDFAST_BIN. Not part of `make check`.
#
#   HOLDFAST_E2E_CMD='prove -r /suite' tests/e2e/external.sh [ext4|xfs [local|nfs [DIR]]]
#
# The command starts in its directory, and writes what it wants to keep to /shared, which is DIR.
here=$(dirname "$(realpath "$0")")

if [ -z "${HOLDFAST_E2E_PLACE:-}" ]; then
    export HOLDFAST_E2E_PLACE=${2:-nfs}
    exec "$here/../../tools/uml.sh" -t "${HOLDFAST_E2E_SECONDS:-3600}" -d 2G -s "${3:-$PWD}" \
        "$here/external.sh" "${1:-ext4}"
fi

. "$here/../lib/guest.sh"
make_disk "$1"
mkdir -m 1777 "$export_dir/work"
server_start "$export_dir(rw,${HOLDFAST_E2E_HOW:-async},no_root_squash)"
nfs_mount "$export_dir" "$mount_dir" vers=3,nolock
case $HOLDFAST_E2E_PLACE in
    local) cd "$export_dir/work" ;;
    nfs) cd "$mount_dir/work" ;;
esac
status=0
bash -c "$HOLDFAST_E2E_CMD" || status=$?
cat /run/server.err
cd /
umount "$mount_dir"
server_stop
exit $status
