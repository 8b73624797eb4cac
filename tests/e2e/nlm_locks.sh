#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Locks of Linux clients (runs in a guest): two clients, each in network, mount and host name spaces
# of its own with its own rpcbind and rpc.statd, and the server, which has neither, beside them.
# Clients lock against each other and against programs on the server, wait and wake, lose their
# locks when they restart, and get them back when the server does.
#
# With arguments, for test suites that are not ours: these are a command, which is run at the end by
# a client, with the mounted directory in NFS_DIR.
#     tools/uml.sh -d 512M bash tests/e2e/nlm_locks.sh COMMAND...
here=$(dirname "$(realpath "$0")")
. "$here/../lib/guest.sh"

grace_s=30
declare -A client_pid

serve()
{
    server_start --grace $grace_s --log-level info "$export_dir 10.0.0.0/8(rw,sync,no_root_squash)"
}

# on CLIENT COMMAND...
on()
{
    local pid=${client_pid[$1]}
    shift
    nsenter --target "$pid" --net --mount --uts -- "$@"
}

# client_begin NAME NUMBER: at 10.0.NUMBER.2, its state directory kept over lives.
client_begin()
{
    local name=$1 net=10.0.$2 state=/var/lib/clients/$1
    mkdir -p "$state/sm" "$state/sm.bak" /run/say
    touch "$state/state"
    chown -R statd: "$state"
    unshare --net --mount --uts --propagation private sleep infinity &
    client_pid[$name]=$!
    disown
    while [ "$(readlink /proc/${client_pid[$name]}/ns/net)" = "$(readlink /proc/self/ns/net)" ]; do
        sleep 0.1
    done
    ip link add "to-$name" type veth peer name eth0 netns "${client_pid[$name]}"
    ip address add "$net.1/24" dev "to-$name"
    ip link set "to-$name" up
    on "$name" hostname "$name"
    on "$name" ip link set lo up
    on "$name" ip address add "$net.2/24" dev eth0
    on "$name" ip link set eth0 up
    on "$name" mount -t tmpfs tmpfs /run
    on "$name" mkdir /run/lock
    on "$name" mount --bind "$state" /var/lib/nfs
    on "$name" rpcbind -w
    on "$name" rpc.statd
    on "$name" mkdir -p "$mount_dir"
    # With nothing but the address: it falls back from version 4 to 3, and finds MOUNT and locks.
    on "$name" mount -t nfs "$net.1:$export_dir" "$mount_dir"
}

# The machine is gone, from one moment to the next: nothing of it reaches the server any more.
client_crash()
{
    local of_client process
    of_client=$(readlink "/proc/${client_pid[$1]}/ns/net")
    ip link delete "to-$1"
    for process in /proc/[0-9]*; do
        if [ "$(readlink "$process/ns/net")" = "$of_client" ]; then
            kill -KILL "${process#/proc/}" 2> /dev/null || true
        fi
    done
}

# locker CLIENT WORD ARG...: in the background; WORD names what it says (heard WORD).
locker()
{
    local client=$1 word=$2
    shift 2
    rm -f "/say/$word" "/say/$word.go"
    on "$client" python3 "$here/locker.py" --say "/say/$word" --until "/say/$word.go" "$@" \
        > "/say/$word.log" 2>&1 &
}

# heard WORD TEXT: it says so, sooner or later. 100 seconds are three polls of a client.
heard()
{
    local tries
    for tries in $(seq 1000); do
        [ "$(cat "/say/$1" 2> /dev/null)" != "$2" ] || return 0
        sleep 0.1
    done
    fail "$1: not '$2' but '$(cat "/say/$1" "/say/$1.log" 2>&1)' after $tries tries"
}

# waits WORD: it waits, and goes on doing so.
waits()
{
    heard "$1" waiting
    sleep 2
    heard "$1" waiting
}

try_on()
{
    local client=$1
    shift
    on "$client" python3 "$here/locker.py" "$@"
}

release()
{
    touch "/say/$1.go"
    heard "$1" unlocked
}

modprobe veth
mkdir -p /say
mount -t tmpfs tmpfs /say
make_disk ext4
echo 0123456789 > "$export_dir/f"
echo 0123456789 > "$export_dir/g"
chmod 666 "$export_dir"/?
serve
client_begin alice 1
client_begin bob 2
file=$mount_dir/f

for kind in "" --flock; do
    step "two clients, fcntl or flock: ${kind:-fcntl}"
    locker alice first $kind hold "$file"
    heard first locked
    same "another client's try" blocked "$(try_on bob $kind try "$file")"
    same "another client's try to share" blocked "$(try_on bob $kind --shared try "$file")"
    locker bob second $kind wait "$file"
    waits second
    release first
    heard second locked
    same "the first client's try" blocked "$(try_on alice $kind try "$file")"
    release second
    same "a try when it is free" locked "$(try_on alice $kind try "$file")"
done

step "parts, and sharing"
locker alice first --range 0 5 hold "$file"
heard first locked
same "beside it" locked "$(try_on bob --range 5 5 try "$file")"
same "overlapping" blocked "$(try_on bob --range 4 1 try "$file")"
release first
locker alice first --shared hold "$file"
heard first locked
same "shared" locked "$(try_on bob --shared try "$file")"
same "exclusive" blocked "$(try_on bob try "$file")"
release first

step "programs on the server"
locker alice first hold "$file"
heard first locked
same "a program's try" blocked "$(python3 "$here/locker.py" try "$export_dir/f")"
python3 "$here/locker.py" --say /say/local --until /say/local.go wait "$export_dir/f" &
waits local
release first
heard local locked
same "a client's try" blocked "$(try_on bob try "$file")"
locker bob second wait "$file"
waits second
release local
heard second locked
release second

step "a waiter that is killed"
locker alice first hold "$file"
heard first locked
locker bob second wait "$file"
waits second
on bob pkill -KILL -f 'locker.py.*second'
release first
same "nobody has it" locked "$(try_on alice try "$file")"

step "the server is killed, and locks are given back"
locker alice first hold "$file"
heard first locked
locker bob second wait "$file"
waits second
server_kill
serve
same "a lock that nobody had, in the grace period" blocked \
    "$(timeout 5 nsenter --target "${client_pid[bob]}" --net --mount --uts -- python3 \
        "$here/locker.py" try "$mount_dir/g" || echo blocked)"
# Looked at on the server, without getting in the way.
for tries in $(seq 600); do
    [ "$(python3 "$here/locker.py" look "$export_dir/f")" != taken ] || break
    sleep 0.1
done
same "the lock, after $tries looks" taken "$(python3 "$here/locker.py" look "$export_dir/f")"
sleep $grace_s
waits second
release first
heard second locked
release second

step "a client restarts"
locker alice first hold "$file"
heard first locked
locker bob second wait "$file"
waits second
client_crash alice
waits second
client_begin alice 1
heard second locked
same "the client in its new life" blocked "$(try_on alice try "$file")"
release second
same "and when it is free" locked "$(try_on alice try "$file")"

if [ $# -gt 0 ]; then
    step "by hand: $*"
    on alice env NFS_DIR="$mount_dir" "$@"
fi

step "the end"
on alice umount "$mount_dir"
on bob umount "$mount_dir"
server_stop
