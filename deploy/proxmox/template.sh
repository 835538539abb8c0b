#!/bin/sh
# Makes the template that machines are cloned from, out of a cloud image with
# cloud-init, such as those of Debian or Ubuntu. Run it as root on the node that the
# template shall be on: once on each node, with the same name and a number of its own,
# if its storage is local; once in all if it is shared. It may be run again.
set -eu

vmid=
storage=
image=
sha512=
name=debian-13
bridge=vmbr0

usage() {
	cat <<EOT
Usage: template.sh --vmid NUMBER --storage NAME --image FILE|URL --sha512 SUM [flags]

  --vmid NUMBER   the template's number, below those of machines: less than 10000
  --storage NAME  where its disk lies
  --image WHAT    a cloud image, qcow2 or raw: a file, or an https URL
  --sha512 SUM    the image's checksum, as its publisher says it
  --name NAME     the template's name ($name)
  --bridge NAME   its network ($bridge); each machine gets that of its subnet
EOT
}

fail() {
	echo "template.sh: $*" >&2
	exit 1
}

while [ $# -gt 0 ]; do
	case $1 in
	--help) usage && exit ;;
	--vmid | --storage | --image | --sha512 | --name | --bridge)
		[ $# -gt 1 ] || fail "$1 wants a value; see --help"
		case $1 in
		--vmid) vmid=$2 ;;
		--storage) storage=$2 ;;
		--image) image=$2 ;;
		--sha512) sha512=$2 ;;
		--name) name=$2 ;;
		--bridge) bridge=$2 ;;
		esac
		shift 2
		;;
	*) fail "unknown argument $1; see --help" ;;
	esac
done
for flag in vmid storage image sha512; do
	eval "value=\$$flag"
	[ -n "$value" ] || fail "--$flag is missing; see --help"
done
case $vmid in
*[!0-9]*) fail "--vmid $vmid is not a number" ;;
esac
if [ "$vmid" -lt 100 ] || [ "$vmid" -ge 10000 ]; then
	fail "--vmid $vmid is not from 100 to 9999; machines have the numbers above"
fi
command -v qm >/dev/null || fail "there is no qm: run this on a node of the Proxmox VE cluster"

if config=$(qm config "$vmid" 2>/dev/null); then
	if echo "$config" | grep -qx 'template: 1' && echo "$config" | grep -qx "name: $name"; then
		echo "template $vmid ($name) exists; nothing to do"
		exit
	fi
	fail "number $vmid belongs to another machine; choose one that is free"
fi

work=$(mktemp -d)
made=
# What is half made is in the way of the next try.
undo() {
	status=$?
	rm -rf "$work"
	if [ "$status" -ne 0 ] && [ -n "$made" ]; then
		qm destroy "$vmid" --purge 1 >&2 || echo "template.sh: machine $vmid is half made: remove it" >&2
	fi
	exit "$status"
}
trap undo EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

case $image in
https://*)
	curl -fL --proto '=https' --retry 3 -o "$work/image" "$image"
	image=$work/image
	;;
/*) ;;
*) fail "--image $image is neither an absolute path nor an https URL" ;;
esac
echo "$sha512  $image" | sha512sum --check --quiet - || fail "the checksum of $image is another one than --sha512 says"

made=yes
qm create "$vmid" --name "$name" --ostype l26 --cores 1 --memory 1024 --agent enabled=1 \
	--scsihw virtio-scsi-single --net0 "virtio,bridge=$bridge" --serial0 socket --vga serial0
qm set "$vmid" --scsi0 "$storage:0,import-from=$image,discard=on"
qm set "$vmid" --boot order=scsi0
qm template "$vmid"
echo "template $vmid ($name) is made"
