#!/usr/bin/env bash
# runc for hosts whose root may not raise limits, or that have control groups of version 2 without
# controllers: a container that asks for what they have not does not start there. It takes from
# what is asked for what this host cannot give, and nothing else: the capability CAP_SYS_RESOURCE,
# and being killed later than others when memory runs out; limits of memory, processors and
# processes. Elsewhere it is runc. Engines call it on the host, and containerd in node images.
set -euo pipefail

runc=/usr/sbin/runc
[ "${1-}" != --version ] || exec "$runc" "$@" # is asked where there is no /proc
capabilities=$((16#$(sed -n 's/^CapBnd:[[:space:]]*//p' /proc/self/status)))
sys_resource=24 # its number in linux/capability.h
unraised= unlimited=
((capabilities >> sys_resource & 1)) || unraised=yes
[ ! -e /sys/fs/cgroup/cgroup.controllers ] || [ -n "$(cat /sys/fs/cgroup/cgroup.controllers)" ] || unlimited=yes
if [ -z "$unraised$unlimited" ]; then
	exec "$runc" "$@"
fi

# edit FILTER FILE changes a file in place: whoever has it open sees it too.
edit() {
	jq --compact-output "$1" "$2" >"$2.less"
	cat "$2.less" >"$2"
	rm "$2.less"
}

# less FILE PATH takes it from the process at a path of a file.
less() {
	[ -z "$unraised" ] || edit "$2 |= (if .capabilities then .capabilities |= map_values(if . then . - [\"CAP_SYS_RESOURCE\"] else . end) else . end
		| if (.oomScoreAdj // 0) < 0 then .oomScoreAdj = 0 else . end | del(.rlimits))" "$1"
}

bundle=. process= command=
previous=
for argument in "$@"; do
	case $previous in
	--bundle | -b) bundle=$argument ;;
	--process | -p) process=$argument ;;
	esac
	case $argument in
	create | run | exec | update) command=${command:-$argument} ;;
	--bundle=*) bundle=${argument#*=} ;;
	--process=*) process=${argument#*=} ;;
	esac
	previous=$argument
done
case $command in
create | run)
	less "$bundle/config.json" .process
	[ -z "$unlimited" ] || edit 'if .linux.resources then .linux.resources |= {devices} else . end' "$bundle/config.json"
	;;
update) [ -z "$unlimited" ] || exit 0 ;;
exec) [ -z "$process" ] || less "$process" . ;;
esac
exec "$runc" "$@"
