#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages that a task needs and that are missing: need.sh build|check|bench
# As root with apt; otherwise says what to install.
set -eu

build="gcc meson ninja-build pkg-config python3 libxxhash-dev uthash-dev libcap-dev \
libjansson-dev libarchive-dev libmicrohttpd-dev libseccomp-dev"
check="$build libcmocka-dev libnfs-dev libtirpc-dev user-mode-linux kmod dmsetup e2fsprogs \
xfsprogs btrfs-progs nfs-common iproute2 nftables util-linux make acl attr strace procps mandoc \
rpcbind tcpdump tshark nfs-ganesha nfs-ganesha-vfs nfs-kernel-server man-db qemu-system-arm \
u-boot-qemu python3-prometheus-client quota systemd"
bench="$build libnfs-dev nfs-ganesha nfs-ganesha-vfs iperf3 procps iproute2 util-linux e2fsprogs \
fio user-mode-linux kmod nfs-common"
soak="$check clang libclang-rt-14-dev llvm"

case "${1:-}" in
build) wanted=$build ;;
check) wanted=$check ;;
bench) wanted=$bench ;;
soak) wanted=$soak ;;
*)
    echo "usage: need.sh build|check|bench|soak" >&2
    exit 2
    ;;
esac

missing=
for package in $wanted; do
    status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$status" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "need.sh: please install:$missing" >&2
    exit 1
fi
echo "need.sh: installing:$missing" >&2
export DEBIAN_FRONTEND=noninteractive
# Services that packages would start (rpcbind, ganesha) have no business on a test machine.
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
    printf '#!/bin/sh\nexit 101\n' >$policy
    chmod +x $policy
    trap 'rm -f $policy' EXIT
fi
# shellcheck disable=SC2086
apt-get install -y -qq --no-install-recommends $missing </dev/null >&2 || {
    apt-get update -qq >&2
    apt-get install -y -qq --no-install-recommends $missing </dev/null >&2
}
