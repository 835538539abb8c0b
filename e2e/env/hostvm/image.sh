#!/usr/bin/env bash
# usage: image.sh OUT
#
# Makes what a virtual host begins with, in the folder OUT: the root file system of a Debian with
# systemd and its containers (disk), a kernel (vmlinuz), and what that needs to find the disk
# (initrd). The host runs at each start what it is given on a second disk, an archive: its file start.
# Needs root, debootstrap and e2fsprogs.
set -euo pipefail

release=bookworm
size=12G # sparse: two node machines, the image that they are made of, and the share that has to stay free
packages=systemd,systemd-sysv,systemd-container,dbus,udev,iproute2,iptables,nftables,kmod,procps,openssh-server
packages+=,ca-certificates,initramfs-tools,linux-image-cloud-$(dpkg --print-architecture)

[ "$(id -u)" = 0 ] && command -v debootstrap mkfs.ext4 >/dev/null || {
	echo "to make the disk of a virtual host takes root, and apt-get install debootstrap e2fsprogs" >&2
	exit 1
}
out=$1
work=$(mktemp -d "${TMPDIR:-/tmp}/host-vm.XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT
root=$work/root
# What it mounts goes with its namespace.
unshare --mount debootstrap --variant=minbase --include="$packages" "$release" "$root" >"$work/log" || {
	tail -20 "$work/log" >&2
	exit 1
}

# What an initramfs has without this is for any hardware, and takes an emulated processor long to unpack.
sed -i 's/^MODULES=.*/MODULES=list/; s/^COMPRESS=.*/COMPRESS=gzip/' "$root/etc/initramfs-tools/initramfs.conf"
printf '%s\n' virtio_pci virtio_blk ext4 >>"$root/etc/initramfs-tools/modules"
unshare --mount bash -euc 'mount -t proc proc "$0/proc"; chroot "$0" update-initramfs -u -k all' "$root" >"$work/log" 2>&1 || {
	tail -20 "$work/log" >&2
	exit 1
}

echo host >"$root/etc/hostname"
printf '127.0.0.1 localhost host\n' >"$root/etc/hosts"
echo '/dev/vda / ext4 defaults 0 1' >"$root/etc/fstab"
# Nobody answers there, and says so at once: a kubelet asks again and again for the name of its own Node.
echo nameserver 10.0.2.15 >"$root/etc/resolv.conf"
cat >"$root/etc/systemd/network/20-uplink.network" <<'END'
[Match]
Name=eth0

[Network]
Address=10.0.2.15/24
Gateway=10.0.2.2
END
cat >"$root/etc/systemd/system/seed.service" <<'END'
[Unit]
Description=Run what this host is given at its start
After=local-fs.target
ConditionPathExists=/dev/vdb

[Service]
Type=oneshot
RemainAfterExit=yes
StandardOutput=journal+console
StandardError=journal+console
ExecStart=/bin/sh -ec 'mkdir -p /run/seed; tar --extract --directory /run/seed --file /dev/vdb; exec /bin/sh -e /run/seed/start'

[Install]
WantedBy=multi-user.target
END
chroot "$root" systemctl --quiet enable systemd-networkd.service seed.service
# What nobody misses takes an emulated processor its time at each start.
chroot "$root" systemctl --quiet mask apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service \
	fstrim.timer getty@tty1.service serial-getty@ttyS0.service systemd-logind.service
rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/usr/share/{doc,man,locale}

rm -rf "$out.part"
mkdir -p "$out.part"
cp "$root"/boot/vmlinuz-* "$out.part/vmlinuz"
cp "$root"/boot/initrd.img-* "$out.part/initrd"
rm -rf "$root"/boot/*
mkfs.ext4 -q -L host -d "$root" -E lazy_itable_init=1,nodiscard "$out.part/disk" "$size" >"$work/log"
rm -rf "$out"
mv "$out.part" "$out"
