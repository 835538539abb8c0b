#!/usr/bin/env bash
# runc for hosts whose root may not raise limits: a container that asks for that right does not
# start there. It takes from what is asked for what this host cannot give, and nothing else:
# the capability CAP_SYS_RESOURCE, and being killed later than others when memory runs out.
# Elsewhere it is runc. Engines call it on the host, and containerd in the node image.
set -euo pipefail

runc=/usr/sbin/runc
capabilities=$((16#$(sed -n 's/^CapBnd:[[:space:]]*//p' /proc/self/status)))
sys_resource=24 # its number in linux/capability.h
if ((capabilities >> sys_resource & 1)); then
	exec "$runc" "$@"
fi

# less FILE PATH takes it from the process at a path of a file.
less() {
	jq --compact-output "$2 |= (if .capabilities then .capabilities |= map_values(if . then . - [\"CAP_SYS_RESOURCE\"] else . end) else . end
		| if (.oomScoreAdj // 0) < 0 then .oomScoreAdj = 0 else . end | del(.rlimits))" "$1" >"$1.less"
	cat "$1.less" >"$1" # whoever has the file open sees it too
	rm "$1.less"
}

bundle=. process= command=
previous=
for argument in "$@"; do
	case $previous in
	--bundle | -b) bundle=$argument ;;
	--process | -p) process=$argument ;;
	esac
	case $argument in
	create | run | exec) command=${command:-$argument} ;;
	--bundle=*) bundle=${argument#*=} ;;
	--process=*) process=${argument#*=} ;;
	esac
	previous=$argument
done
case $command in
create | run) less "$bundle/config.json" .process ;;
exec) [ -z "$process" ] || less "$process" . ;;
esac
exec "$runc" "$@"
