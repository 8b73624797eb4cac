#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Boots a User-Mode Linux guest, runs one command in it as root, and exits with the command's
# status.
#
# usage: tools/uml.sh [-m MEGABYTES] [-t SECONDS] [-d IMAGE|SIZE]... [-s DIR] COMMAND [ARG]...
#
#   -m  memory of the guest (512)
#   -t  the guest is killed after so many seconds (300); the status is then 124
#   -d  a disk: an image on the host, or a size such as 2G for an empty one that lasts as long as
#       the guest; /dev/ubda in the guest, the next one /dev/ubdb, and so on
#   -s  a directory of the host that the guest may write, as /shared
#
# The guest sees the host's files under an overlay: it may change anything, and everything it
# changed is forgotten when it ends, except on its disks and in /shared. It has its own lo and no
# way out, so servers in it may take ports 111 and 2049. It sees the variables of the caller whose
# names begin with HOLDFAST_, and no others. The command starts in the caller's directory, without
# input.
#
# Status 125: the guest did not boot, or ended without a word; its console is then printed.
# Several guests run side by side: each has its own umid and directory.
set -u
usage="usage: tools/uml.sh [-m MEGABYTES] [-t SECONDS] [-d IMAGE|SIZE]... [-s DIR] COMMAND [ARG]..."

# ---- in the guest, as its init. uml_guest= and uml_shared= are words of the kernel's command line.

guest_make_root()
{
    export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
    insmod "/usr/lib/uml/modules/$(uname -r)/kernel/fs/overlayfs/overlay.ko" || return
    mount -t tmpfs -o size=80% tmpfs /mnt && mkdir /mnt/upper /mnt/work /mnt/root || return
    mount -t overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work overlay /mnt/root || return
    cd /mnt/root && mkdir -p host shared lib/modules && pivot_root . host || return
    exec chroot . "$0" --in-root
}

guest_run()
{
    mount -t proc proc /proc
    mount -t sysfs sysfs /sys
    mount -t devtmpfs devtmpfs /dev
    mkdir -p /dev/pts /dev/shm
    ln -s /proc/self/fd /dev/fd
    mount -t devpts devpts /dev/pts
    mount -t tmpfs tmpfs /dev/shm
    mount -t tmpfs tmpfs /run
    mount --bind /host/usr/lib/uml/modules /lib/modules
    mkdir -p /run/lock /run/guest
    mount -t hostfs -o "$uml_guest" none /run/guest
    [ -z "${uml_shared:-}" ] || mount -t hostfs -o "$uml_shared" none /shared
    ip link set lo up
    hostname guest
    stty -F /dev/tty1 raw -echo
    env -i PATH="$PATH" HOME=/root LC_ALL=C bash /run/guest/command < /dev/null > /dev/tty1 2>&1
    echo $? > /run/guest/status
    sync
}

if [ $$ -eq 1 ] && [ -n "${uml_guest:-}" ]; then
    if [ "${1:-}" = --in-root ]; then
        guest_run
    else
        guest_make_root
        echo "the guest could not make its root"
    fi
    # LINUX_REBOOT_CMD_POWER_OFF; not halt(8), which not every machine has.
    python3 -c 'import ctypes; ctypes.CDLL(None).reboot(0x4321fedc)'
fi

# ---- on the host ----

fail()
{
    echo "uml.sh: $*" >&2
    exit 125
}

# The guest's memory is a file, mapped executable.
memory_dir()
{
    local dir
    for dir in /dev/shm "${TMPDIR:-/tmp}" /var/tmp; do
        if [ -w "$dir" ] && [ "$(df --output=avail -BM "$dir" | tail -1 | tr -dc 0-9)" -gt "$1" ] &&
            ! findmnt -nT "$dir" -o OPTIONS | grep -qw noexec; then
            echo "$dir"
            return
        fi
    done
    return 1
}

memory_mb=512
timeout_s=300
shared=
disks=()
while getopts m:t:d:s: option; do
    case $option in
        m) memory_mb=$OPTARG ;;
        t) timeout_s=$OPTARG ;;
        d) disks+=("$OPTARG") ;;
        s) shared=$(realpath "$OPTARG") || fail "$OPTARG: no such directory" ;;
        *) echo "$usage" >&2; exit 2 ;;
    esac
done
shift $((OPTIND - 1))
if [ $# -eq 0 ]; then
    echo "$usage" >&2
    exit 2
fi
for tool in linux.uml setpriv findmnt; do
    command -v $tool > /dev/null || fail "no $tool: apt-get install user-mode-linux util-linux"
done
command -v modprobe > /dev/null || PATH=$PATH:/usr/sbin:/sbin
command -v modprobe > /dev/null || fail "no modprobe: apt-get install kmod"

run=$(mktemp -d "${TMPDIR:-/tmp}/uml.XXXXXX") || exit 125
uml_pid=
clean_up()
{
    # The guest's processes are children of its kernel, in its process group.
    [ -z "$uml_pid" ] || kill -KILL -- "-$uml_pid" 2> /dev/null
    rm -rf "$run"
}
trap clean_up EXIT
trap 'exit 143' TERM INT HUP

memory_in=$(memory_dir "$memory_mb") || fail "nowhere to put $memory_mb MB of memory"
arguments=()
letters=abcdefgh
for i in "${!disks[@]}"; do
    image=${disks[$i]}
    if [[ $image =~ ^[0-9]+[MG]$ ]]; then
        truncate -s "$image" "$run/disk$i"
        image=$run/disk$i
    fi
    arguments+=("ubd${letters:$i:1}=$(realpath "$image")")
done
[ -z "$shared" ] || arguments+=("uml_shared=$shared")
{
    for name in ${!HOLDFAST_*}; do
        printf 'export %s=%q\n' "$name" "${!name}"
    done
    printf 'cd %q\nexec' "$PWD"
    printf ' %q' "$@"
    echo
} > "$run/command"

exec 3>&1
TMPDIR=$memory_in setsid setpriv --pdeathsig KILL linux.uml \
    umid="$(basename "$run")" uml_dir="$run" mem="${memory_mb}M" \
    root=/dev/root rootfstype=hostfs rootflags=/ ro init="$(realpath "$0")" uml_guest="$run" \
    con=null con0=null,fd:1 con1=null,fd:3 ssl=null "${arguments[@]}" \
    < /dev/null > "$run/console" 2>&1 &
uml_pid=$!
disown
timeout "$timeout_s" tail -s 0.1 --pid=$uml_pid -f /dev/null &
wait $!
if [ $? -eq 124 ]; then
    echo "uml.sh: killed after $timeout_s s" >&2
    exit 124
fi
if ! status=$(cat "$run/status" 2> /dev/null) || [ -z "$status" ]; then
    tail -50 "$run/console" >&2
    fail "the guest ended without a status"
fi
exit "$status"
