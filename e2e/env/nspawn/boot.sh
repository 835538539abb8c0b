#!/bin/sh
# usage: boot.sh SETTINGS
#
# What the user data of a machine become: a systemd-nspawn machine that boots a copy of a node image
# of kind, has the address that the machine is said to have, and runs once, when it has booted, the
# user data that the file user-data in the machine's directory has. SETTINGS is a file with
#
#   image    root file system, a directory
#   hosts    file of names that machines know
#   bridge   interface of this box that they are connected to
#   gateway  address of this box there
#   bits     length of its prefix
#   group    control group below which each machine has its own
#
# It needs root. Whatever ends this process ends all of the machine, as if it were switched off.
set -eu
settings=$1
. "$settings"
machine=${NSTANCE_MACHINE_DIR##*/}
unified=
[ ! -e /sys/fs/cgroup/cgroup.controllers ] || unified=yes

# join HIERARCHY enters the machine's control group in one.
join() {
	mkdir -p "$1/$group/$machine"
	if [ -z "$unified" ] && [ -e "$1/cpuset.cpus" ]; then # an empty set takes no processes
		for dir in "$1/$group" "$1/$group/$machine"; do
			for set in cpuset.cpus cpuset.mems; do
				[ -n "$(cat "$dir/$set")" ] || cat "$dir/../$set" >"$dir/$set"
			done
		done
	fi
	echo $$ >"$1/$group/$machine/cgroup.procs"
}

if [ -z "${BOOTING:-}" ]; then
	if [ -n "$unified" ]; then
		join /sys/fs/cgroup
	else
		for hierarchy in /sys/fs/cgroup/*; do
			[ ! -e "$hierarchy/cgroup.procs" ] || join "$hierarchy"
		done
	fi
	export BOOTING=yes
	# A systemd-nspawn that is killed leaves its machine running; a namespace does not outlive its first process.
	exec unshare --mount --pid --fork --kill-child --mount-proc "$0" "$settings"
fi

root=$NSTANCE_MACHINE_DIR/root
if [ ! -e "$root" ]; then
	cp --archive "$image" "$root.part"
	cd "$root.part"
	install "$NSTANCE_AGENT" usr/local/bin/nstance-agent
	install --mode 600 "$NSTANCE_MACHINE_DIR/user-data" var/lib/user-data
	# What cloud-init does in images for clouds.
	cat >etc/systemd/system/user-data.service <<-'END'
		[Unit]
		Description=Run the user data of the machine, once
		ConditionPathExists=!/var/lib/user-data.done

		[Service]
		Type=oneshot
		ExecStart=/bin/sh /var/lib/user-data
		ExecStart=/bin/touch /var/lib/user-data.done
		RemainAfterExit=yes
	END
	mkdir -p etc/systemd/system/multi-user.target.wants etc/systemd/system/kubelet.service.d etc/systemd/journald.conf.d
	ln -s ../user-data.service etc/systemd/system/multi-user.target.wants/
	printf '[Journal]\nForwardToConsole=yes\nMaxLevelConsole=info\n' >etc/systemd/journald.conf.d/console.conf
	# An image whose Pods have a network by a file, and not by a DaemonSet that writes it, has the file whenever the
	# kubelet starts: a machine that leaves a cluster loses it.
	if [ -e etc/cni/net.d/10-ptp.conflist ]; then
		cp etc/cni/net.d/10-ptp.conflist usr/local/share/pods.conflist
		cat >etc/systemd/system/kubelet.service.d/50-network.conf <<-'END'
			[Service]
			ExecStartPre=/bin/mkdir -p /etc/cni/net.d
			ExecStartPre=/bin/cp /usr/local/share/pods.conflist /etc/cni/net.d/10-ptp.conflist
		END
	fi
	# Nobody answers names at the gateway, and a client hears that at once.
	rm -f etc/resolv.conf etc/hostname var/lib/dbus/machine-id
	echo "nameserver $gateway" >etc/resolv.conf
	echo "$machine" >etc/hostname
	cat >usr/local/sbin/first-process <<-END
		#!/bin/sh
		# Becomes the first process of the image.
		set -eu
		ip link set host0 up
		ip address add $NSTANCE_MACHINE_ADDRESS/$bits dev host0
		ip route add default via $gateway
		echo 1 >/proc/sys/net/ipv4/ip_forward
		[ -e /dev/kmsg ] || ln -s console /dev/kmsg
		# Control groups of version 1 are mounted to be read, but for that of systemd.
		for dir in /sys/fs/cgroup/*; do
			[ ! -L "\$dir" ] && [ -e "\$dir/cgroup.procs" ] && [ "\${dir##*/}" != systemd ] && [ "\${dir##*/}" != unified ] || continue
			umount "\$dir"
			mount -t cgroup -o "\${dir##*/}" cgroup "\$dir"
		done
		exec /usr/local/bin/entrypoint /sbin/init
	END
	chmod 755 usr/local/sbin/first-process
	cd /
	mv "$root.part" "$root"
fi
{
	printf '127.0.0.1 localhost\n%s %s\n' "$NSTANCE_MACHINE_ADDRESS" "$machine"
	cat "$hosts"
} >"$root/etc/hosts"

export SYSTEMD_NSPAWN_API_VFS_WRITABLE=yes SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=${unified:-no}
exec systemd-nspawn --quiet --register=no --keep-unit --settings=no --machine="$machine" --hostname="$machine" --directory="$root" \
	--network-bridge="$bridge" --capability=all --private-users=no --system-call-filter='@keyring bpf' \
	--resolv-conf=off --timezone=off --link-journal=no --kill-signal=SIGRTMIN+3 /usr/local/sbin/first-process
