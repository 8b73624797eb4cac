#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Who gets what (runs in a guest): the same exports files given to nfs-utils with the kernel's
# server and to ours, asked from the same addresses. exports.py has the files and judges.
here=$(dirname "$(realpath "$0")")
. "$here/../lib/guest.sh"

make_disk ext4
mkdir -p "$export_dir"/{a/in/deep,b,c,'a b','h#1',m,back\\slash}
make_disk ext4 /dev/ubdb "$export_dir/m"
mkdir "$export_dir/m/sub"
chmod -R 777 "$export_dir"
ln -s a "$export_dir/link"

modprobe ipv6 2> /dev/null || true
for address in 10.0.0.1 10.0.0.2 10.1.2.3 192.168.1.7 192.168.2.7; do
    ip address add "$address/32" dev lo
done
for address in 2001:db8::1 fd00::2; do
    ip address add "$address/128" dev lo nodad
done
cat > /etc/hosts << 'HOSTS'
127.0.0.1 localhost
10.0.0.1 alpha.example.org alpha
10.0.0.2 beta.cs.example.org
192.168.1.7 pc7.Example.net
2001:db8::1 six.example.org
HOSTS
printf 'hosts: files\nnetgroup: files\npasswd: files\ngroup: files\n' > /etc/nsswitch.conf
printf 'friends (alpha.example.org,,) (pc7,,) (10.1.2.3,,)\nempty (-,,)\n' > /etc/netgroup
rm -rf /etc/exports.d /etc/nfs.conf.d

step "nfs-utils and the kernel's server"
modprobe nfsd
mount -t nfsd nfsd /proc/fs/nfsd
rpcbind -w
: > /etc/exports
rpc.nfsd --no-nfs-version 4 --lease-time 10 --grace-time 10 4
rpc.mountd --port 20048
"$here/exports.py" ask 20048 2049 /tmp/theirs exportfs
exportfs -au
rpc.nfsd 0
pkill rpc.mountd
pkill rpcbind

step "ours"
echo "$export_dir/c *(rw)" > /etc/exports
server_start --portmap off --port 3049 --skip-bad-lines --exports /etc/exports
"$here/exports.py" ask 3049 3049 /tmp/ours "$HOLDFAST_BIN"
server_stop

step "compare"
"$here/exports.py" compare /tmp/theirs /tmp/ours
step "done"
