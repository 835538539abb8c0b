#!/usr/bin/env bash
# usage: power.sh DIR USERDATA
#
# Is a virtual host that is switched on, with its disk and its console in DIR. USERDATA is what the
# host is told by its cloud; it belongs to one machine for ever. Who kills QEMU cuts the power; it is
# back, and the host starts, once there is no file DIR/off. A host that switches itself off ends this,
# and so does the end of the process that has made the host, which holds the lock of DIR/owner.
set -euo pipefail
umask 077
cd "$1"
userdata=$2
. ./settings # memory accelerator port

if [ ! -e disk ]; then
	cp "$userdata" seed.d/user-data
	tar --create --file seed --directory seed.d .
	cp --sparse=always image/disk disk.part
	mv disk.part disk
fi
cmp --silent "$userdata" seed.d/user-data || {
	echo "$1: this is the host of another machine" >&2
	exit 1
}
(
	setpriv --pdeathsig KILL flock owner true && kill -KILL $$ # of the shell that waits for QEMU, which goes with it
) &
watch=$!
trap 'kill "$watch" || :' EXIT
while :; do
	code=0
	setpriv --pdeathsig KILL qemu-system-x86_64 -name host -nodefaults -no-user-config -display none \
		-accel "$accelerator" -cpu max,la57=off -smp 2 -m "$memory" -pidfile pid \
		-kernel image/vmlinuz -initrd image/initrd -append 'root=/dev/vda rw console=ttyS0 net.ifnames=0 mitigations=off quiet' \
		-drive file=disk,if=virtio,format=raw,cache=writeback -drive file=seed,if=virtio,format=raw,readonly=on \
		-netdev "user,id=uplink,ipv6=off,hostfwd=tcp:127.0.0.1:$port-:22" -device virtio-net-pci,netdev=uplink,romfile= \
		-device virtio-rng-pci -chardev file,id=console,path=console,append=on -serial chardev:console || code=$?
	[ "$code" = $((128 + 9)) ] || exit "$code"
	while [ -e off ]; do sleep 0.1; done
done
