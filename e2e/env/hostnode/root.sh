#!/usr/bin/env bash
# usage: root.sh OUT DEBIAN PROGRAMS
#
# Makes the root file system of a node machine, as an archive, of what e2e/env/kind/debian.sh made
# (DEBIAN) and programs that were built from their modules (in the folder PROGRAMS): kubelet,
# container runtime, plug-ins of the network, and the image of which a test's Pods are.
set -euo pipefail

out=$1 debian=$(readlink -f "$2") programs=$(readlink -f "$3")
kind=$(cd "$(dirname "$0")/../kind" && pwd)
arch=$(dpkg --print-architecture)
work=$(mktemp -d "${TMPDIR:-/tmp}/node-machine.XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT
root=$work/root

mkdir "$root"
tar --extract --directory "$root" --file "$debian"
mkdir -p "$root/opt/cni/bin"
cp "$root"/usr/lib/cni/{host-local,ptp,loopback} "$root/opt/cni/bin"
install "$programs"/{containerd,containerd-shim-runc-v2,ctr,kubelet} "$root/usr/local/bin"
install "$kind/runc-less.sh" "$root/usr/local/bin/runc"

. "$kind/pod-image.sh"
archive registry.k8s.io/pause:3.10 /usr/local/bin/pause "$(layer pause)"
install -D --mode 644 "$work/image.tar" "$root/usr/local/share/pause.tar"
cat >"$root/etc/systemd/system/pod-image.service" <<'END'
[Unit]
Description=Import the image of Pods
After=containerd.service
Requires=containerd.service
Before=kubelet.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/local/bin/ctr --namespace k8s.io images import /usr/local/share/pause.tar

[Install]
WantedBy=multi-user.target
END
chroot "$root" systemctl --quiet enable pod-image.service

tar --create --directory "$root" --file "$out.part" .
mv "$out.part" "$out"
