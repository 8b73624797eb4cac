# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# For scripts that run in a guest (tools/uml.sh): a disk to export, our server on it, the kernel's
# NFS client beside it. Needs HOLDFAST_BIN, the program under test; HOLDFAST_JOURNAL is what its
# option --journal gets. A failing command ends the script with its line and the server's log.
set -eEuo pipefail

export_dir=/export
mount_dir=/mnt/nfs
state_dir=/var/lib/holdfast
server_pid=

explain_failure()
{
    [ "$BASH_SUBSHELL" -eq 0 ] || return 0
    echo "FAILED: ${BASH_SOURCE[1]##*/}:$1: $2"
    tail -n 40 /run/server.err /run/server.out 2> /dev/null || true
    # What clients wait for, if anything hangs; and what the kernel said.
    dmesg | grep -v 'random: crng' | tail -n 15
}
trap 'explain_failure $LINENO "$BASH_COMMAND"' ERR

fail()
{
    echo "FAILED: $*"
    tail -n 40 /run/server.err 2> /dev/null || true
    exit 1
}

step()
{
    echo "[$(cut -d' ' -f1 /proc/uptime)] $*"
}

# same WHAT EXPECTED ACTUAL
same()
{
    [ "$2" = "$3" ] || fail "$1: expected '$2', got '$3'"
}

# refused ERROR-TEXT COMMAND...: the command must fail with that error.
refused()
{
    local want=$1 text
    shift
    if text=$("$@" 2>&1); then
        fail "'$*' was allowed"
    fi
    [[ $text == *"$want"* ]] || fail "'$*': expected '$want', got '$text'"
}

# as UID COMMAND...: as that user and group, with no other groups.
as()
{
    local id=$1
    shift
    setpriv --reuid "$id" --regid "$id" --clear-groups -- "$@"
}

# make_disk ext4|xfs [DEVICE [DIR]]: an empty file system on the first disk, at the export.
make_disk()
{
    local device=${2:-/dev/ubda} dir=${3:-$export_dir}
    case $1 in
        ext4) mkfs.ext4 -q -F "$device" ;;
        xfs) mkfs.xfs -q -f "$device" ;;
    esac
    mkdir -p "$dir"
    mount -t "$1" "$device" "$dir"
}

# server_start ARG...: `holdfast serve ARG...`; returns when it says that it is ready. It does not
# inherit descriptor 7, for scripts that hold a file open.
server_start()
{
    mkdir -p "$state_dir"
    : > /run/server.out
    "$HOLDFAST_BIN" serve --state "$state_dir" --journal "${HOLDFAST_JOURNAL:-off}" "$@" \
        > /run/server.out 2>> /run/server.err 7>&- &
    server_pid=$!
    local tries
    for tries in $(seq 300); do
        [ ! -s /run/server.out ] || return 0
        kill -0 $server_pid 2> /dev/null || fail "the server ended at once"
        sleep 0.1
    done
    fail "the server was not ready after $tries tries"
}

server_kill()
{
    kill -KILL "$server_pid" 2> /dev/null || true
    wait "$server_pid" 2> /dev/null || true
}

# The server must end by itself, with status 0.
server_stop()
{
    local status=0
    kill -TERM "$server_pid"
    wait "$server_pid" || status=$?
    same "status of the stopped server" 0 "$status"
}

# nfs_mount [PATH [DIR [OPTIONS]]]: with nolock, since server and client are one machine here, whose
# portmapper has room for one lock manager. nlm_locks.sh has clients of their own.
nfs_mount()
{
    local dir=${2:-$mount_dir}
    mkdir -p "$dir"
    # shellcheck disable=SC2086
    mount -t nfs -o "nolock${3:+,$3}" "127.0.0.1:${1:-$export_dir}" "$dir"
}

# Forget what the client has cached: the next look goes to the server.
nfs_remount()
{
    local source
    source=$(findmnt -nT "$mount_dir" -o SOURCE)
    umount "$mount_dir"
    mount -t nfs -o vers=3,nolock "$source" "$mount_dir"
}
