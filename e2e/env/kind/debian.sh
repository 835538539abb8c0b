#!/usr/bin/env bash
# usage: debian.sh OUT
#
# Makes an archive of a small Debian with what a node of kind needs of its packages. Needs root and
# debootstrap.
set -euo pipefail

# The one whose systemd still runs on hosts with control groups of version 1.
release=bookworm
packages=systemd,systemd-sysv,dbus,iproute2,iptables,nftables,conntrack,kmod,procps,ethtool,mount
packages+=,socat,containernetworking-plugins,runc,jq,ca-certificates

[ "$(id -u)" = 0 ] && command -v debootstrap >/dev/null || {
	echo "to make a node image takes root and debootstrap: apt-get install debootstrap jq" >&2
	exit 1
}
work=$(mktemp -d "${TMPDIR:-/tmp}/debian.XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT
# What it mounts goes with its namespace.
unshare --mount debootstrap --variant=minbase --include="$packages" "$release" "$work/root" >"$work/log" || {
	tail -20 "$work/log" >&2
	exit 1
}
rm -rf "$work"/root/var/cache/apt/* "$work"/root/var/lib/apt/lists/* "$work"/root/usr/share/{doc,man,locale}
tar --create --directory "$work/root" --file "$1.part" .
mv "$1.part" "$1"
