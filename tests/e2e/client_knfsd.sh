#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Our client's commands against the kernel's server (runs in a guest): trees there and back over TCP
# and UDP, over UDP that loses 5 percent, and while the server goes and comes back.
here=$(dirname "$(realpath "$0")")
. "$here/../lib/guest.sh"

file_count=250
url=nfs://127.0.0.1$export_dir

knfsd_start()
{
    rpc.nfsd --udp --no-nfs-version 4 --lease-time 10 --grace-time 10 4
}

# Without a terminal there is no line of progress.
run()
{
    "$HOLDFAST_BIN" "$@" 2>&1 | cat
}

# A stop and a start, and nobody there for a moment.
bounce()
{
    rpc.nfsd 0
    sleep 1
    knfsd_start
}

# Data, kinds and link texts; with -p also modes and times.
compare()
{
    diff -r --no-dereference "$1" "$2" || fail "$1 and $2 differ"
}
attributes()
{
    (cd "$1" && find . ! -type l -printf '%P %y %m %Ts %s\n' |
        sed 's/ d \(.*\) [0-9]*$/ d \1/' | sort)
}

there_and_back()
{
    local words=$1
    run put -r -p /tmp/tree "$url/${words}"
    compare /tmp/tree "$export_dir/tree"
    same "modes and times there" "$(attributes /tmp/tree)" "$(attributes "$export_dir/tree")"
    run get -r -p "$url/tree$words" /tmp/back
    compare /tmp/tree /tmp/back
    same "modes and times here" "$(attributes /tmp/tree)" "$(attributes /tmp/back)"
    run rm -r "$url/tree$words"
    [ ! -e "$export_dir/tree" ] || fail "rm -r left something"
    rm -r /tmp/back
}

# half COUNT DIR PID: waits until DIR has so many files; the copy must not be over yet.
half()
{
    while [ "$(find "$2" -type f 2> /dev/null | wc -l)" -lt "$1" ]; do
        kill -0 "$3" 2> /dev/null || fail "the copy was over before the server went"
        sleep 0.02
    done
}

make_disk ext4
"$here/../lib/tree.py" $file_count /tmp/tree.tar
mkdir /tmp/tree
tar -xf /tmp/tree.tar -C /tmp/tree --no-same-owner
find /tmp/tree -type f -links +1 -exec sh -c 'cp -p "$1" "$1.one" && mv "$1.one" "$1"' - {} \;
head -c 4M /dev/urandom > /tmp/tree/big

step "the kernel's server"
rm -rf /etc/exports.d /etc/nfs.conf.d
echo "$export_dir 127.0.0.1(rw,sync,no_root_squash,insecure,no_subtree_check)" > /etc/exports
modprobe nfsd
mount -t nfsd nfsd /proc/fs/nfsd
rpcbind -w
knfsd_start
rpc.mountd
exportfs -ra
grep -q udp /proc/fs/nfsd/portlist || fail "the kernel's server has no UDP"

step "over TCP"
there_and_back ""
step "over UDP"
there_and_back "?proto=udp"

step "over UDP, and 5 percent of the datagrams are lost"
modprobe sch_netem
tc qdisc add dev lo root netem loss 5% limit 10000
there_and_back "?proto=udp"
lost=$(tc -s qdisc show dev lo | sed -n 's/.*dropped \([0-9]*\).*/\1/p')
[ "$lost" -gt 100 ] || fail "only $lost datagrams were lost"
tc qdisc del dev lo root

for words in "" "?proto=udp"; do
    step "the server goes and comes back while a tree is put there $words"
    run put -r /tmp/tree "$url/$words" &
    copy=$!
    for part in 4 2; do
        half $((file_count / part)) "$export_dir/tree" $copy
        bounce
    done
    wait $copy || fail "put failed"
    compare /tmp/tree "$export_dir/tree"

    step "and while it is fetched $words"
    run get -r "$url/tree$words" /tmp/back &
    copy=$!
    for part in 4 2; do
        half $((file_count / part)) /tmp/back $copy
        bounce
    done
    wait $copy || fail "get failed"
    compare /tmp/tree /tmp/back
    rm -r /tmp/back "$export_dir/tree"
done
step "done"
