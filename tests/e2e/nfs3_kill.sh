#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# kill -9 at any moment loses nothing that was acknowledged (runs in a guest). The page cache
# survives, so this is about what a server might keep to itself; powercut.sh takes the page cache
# away too.
here=$(dirname "$(realpath "$0")")
. "$here/../lib/guest.sh"

make_disk "${1:-ext4}"
for round in 1 2 3 4; do
    mkdir "$export_dir/$round"
    server_start "$export_dir/$round(rw,sync,no_root_squash)"
    python3 "$here/kill.py" "$export_dir/$round" "$round" "$server_pid" ||
        fail "acknowledged changes are gone"
    server_kill
done
server_start "$export_dir(rw,sync,no_root_squash)"
server_stop
