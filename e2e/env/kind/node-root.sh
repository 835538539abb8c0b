#!/usr/bin/env bash
# usage: node-root.sh OUT DEBIAN PROGRAMS KIND
#
# Makes the file system of a node image for kind, as an archive, where none can be pulled: from
# what debian.sh made (DEBIAN), the files of kind's own base image (KIND, the folder of its
# module) and programs that were built from their modules (in the folder PROGRAMS). Needs root and
# jq, and no container engine.
#
# The images of the cluster's own Pods are in it, made of the same programs. They have the tags
# that kubeadm asks for, whatever version of etcd or coredns is inside: it accepts no others.
set -euo pipefail

out=$1 debian=$(readlink -f "$2") programs=$(readlink -f "$3") kind=$4
here=$(cd "$(dirname "$0")" && pwd)
version=$("$programs/kubeadm" version --output short)
arch=$(dpkg --print-architecture)

work=$(mktemp -d "${TMPDIR:-/tmp}/node-image.XXXXXX")
containerd=
finish() {
	if [ -n "$containerd" ]; then
		kill "$containerd" && wait "$containerd" || true
	fi
	rm -rf --one-file-system "$work"
}
trap finish EXIT
root=$work/root

mkdir "$root"
tar --extract --directory "$root" --file "$debian"

# As the Dockerfile of kind's base image does it.
echo "== kind's files"
cp --recursive --no-preserve=mode,ownership "$kind"/images/base/files/. "$root"
chmod 755 "$root"/usr/local/bin/* "$root"/kind/bin/*
rm -f "$root"/lib/systemd/system/sysinit.target.wants/systemd-tmpfiles-setup.service
rm -f "$root"/lib/systemd/system/{multi-user,local-fs,basic}.target.wants/* "$root"/etc/systemd/system/*.wants/*
rm -f "$root"/lib/systemd/system/sockets.target.wants/*{udev,initctl}*
echo ReadKMsg=no >>"$root/etc/systemd/journald.conf"
mkdir -p "$root"/etc/kubernetes/manifests "$root"/opt/cni/bin "$root"/kind/manifests "$root"/etc/cni/net.d
cp "$root"/usr/lib/cni/{host-local,ptp,portmap,loopback} "$root/opt/cni/bin"

echo "== programs"
install "$programs"/{containerd,containerd-shim-runc-v2,ctr} "$root/usr/local/bin"
install "$programs"/{kubeadm,kubelet,kubectl} "$root/usr/bin"
install "$here/runc-less.sh" "$root/usr/local/sbin/runc"
sed -i 's/restrict_oom_score_adj = false/restrict_oom_score_adj = true/' "$root/etc/containerd/config.toml"
sed -i '/^OOMScoreAdjust=/d; /^Limit[A-Z]*=/d' "$root/etc/systemd/system/containerd.service"
chroot "$root" systemctl --quiet enable containerd.service kubelet.service undo-mount-hacks.service
chroot "$root" systemctl --quiet mask systemd-binfmt.service # what it registers is the whole host's
"$programs/ctr" oci spec | jq '.hooks.createContainer += [{path: "/kind/bin/mount-product-files.sh"}] | del(.process.rlimits)' \
	>"$root/etc/containerd/cri-base.json"

echo -n "$version" >"$root/kind/version"
cp "$here"/manifests/*.yaml "$root/kind/manifests"
cp "$here/10-ptp.conflist" "$root/etc/cni/net.d"

. "$here/pod-image.sh"

# image REFERENCE ENTRYPOINT LAYER... puts layers, archives of files, into an image of the node.
image() {
	archive "$@"
	"$programs/ctr" --address "$work/containerd.sock" --namespace k8s.io images import --no-unpack "$work/image.tar"
}

echo "== images"
printf 'version = 3\ndisabled_plugins = ["io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri", "io.containerd.internal.v1.opt", "io.containerd.nri.v1.nri"]\n' >"$work/containerd.toml"
"$programs/containerd" --config "$work/containerd.toml" --address "$work/containerd.sock" \
	--root "$root/var/lib/containerd" --state "$work/state" >"$work/containerd.log" 2>&1 &
containerd=$!
for _ in $(seq 100); do
	! "$programs/ctr" --address "$work/containerd.sock" version >/dev/null 2>&1 || break
	sleep 0.2
done
for reference in $("$programs/kubeadm" config images list --kubernetes-version "$version"); do
	program=$(basename "${reference%:*}")
	case $program in
	kube-proxy) image "$reference" "/usr/local/bin/$program" "$debian" "$(layer "$program")" ;;
	*) image "$reference" "/usr/local/bin/$program" "$(layer "$program")" ;;
	esac
done
# The one that containerd is told to use, which may be another version than kubeadm's.
pause=$(sed -n "s/^ *sandbox\(_image\)\? *= *[\"']\(.*pause:[^\"']*\)[\"'].*/\2/p" "$root/etc/containerd/config.toml")
[ -z "$pause" ] || image "$pause" /usr/local/bin/pause "$work/pause.tar"
kill "$containerd" && wait "$containerd" || true
containerd=

echo "== $out"
tar --create --directory "$root" --file "$out.part" .
mv "$out.part" "$out"
