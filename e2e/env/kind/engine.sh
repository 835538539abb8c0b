#!/usr/bin/env bash
# usage: engine.sh COMMAND [ARGUMENT...]
#
# Runs a command with a Docker engine: with the one that answers already, else, as root, with
# one of its own. That one lives in namespaces of its own, so that it has no network but its
# bridges, and ends with the command, as do all its containers, however the command ends: the
# kernel sees to it. What it keeps between runs is in CACHE, by default ~/.cache/nstance.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
cache=${CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/nstance}

# Its containers are below this control group, by which they are found when all has ended.
group=nstance-docker-${NSTANCE_ENGINE:-$$}

if [ -z "${NSTANCE_ENGINE:-}" ]; then
	! docker info >/dev/null 2>&1 || exec "$@"
	for program in docker dockerd iptables jq runc; do
		command -v "$program" >/dev/null || {
			echo "no Docker engine answers, and to start one $program is missing: apt-get install docker.io iptables jq" >&2
			exit 1
		}
	done
	[ "$(id -u)" = 0 ] || { echo "no Docker engine answers, and only root can start one" >&2; exit 1; }
	NSTANCE_ENGINE=$$ setpriv --pdeathsig KILL unshare --net --mount --pid --fork --kill-child --mount-proc "$0" "$@" &
	child=$!
	trap 'kill -KILL "$child" || true' INT TERM HUP # and with it the first process of the namespaces, and all others
	status=0
	wait "$child" || status=$?
	for _ in $(seq 50); do # who was killed takes a moment to go
		find /sys/fs/cgroup -depth -type d -path "*/$group*" -exec rmdir {} + 2>/dev/null || true
		[ -n "$(find /sys/fs/cgroup -maxdepth 2 -name "$group" -print -quit)" ] || break
		sleep 0.1
	done
	exit "$status"
fi

# Here is the first process of the namespaces: when it ends, so do all others.
ip link set lo up
mkdir -p "$cache/docker"
exec 9>"$cache/docker/lock"
flock --nonblock 9 || { echo "$cache/docker is in use by another run" >&2; exit 1; }
run=$(mktemp -d)
trap 'rm -rf "$run"' EXIT

cp "$here/runc-less.sh" "$run/runc-less" # whatever becomes of the work tree meanwhile
export DOCKER_HOST=unix://$run/docker.sock
dockerd --data-root "$cache/docker/data" --exec-root "$run/exec" --pidfile "$run/pid" --host "$DOCKER_HOST" \
	--add-runtime "runc-less=$run/runc-less" --default-runtime runc-less --cgroup-parent "/$group" \
	>"$run/log" 2>&1 9>&- &
engine=$!
until docker info >/dev/null 2>&1; do
	kill -0 "$engine" 2>/dev/null || { echo "the Docker engine has ended:" >&2; tail -20 "$run/log" >&2; exit 1; }
	sleep 0.2
done
# What a run that was killed has left.
docker ps --all --quiet | xargs --no-run-if-empty docker rm --force --volumes >/dev/null

status=0
"$@" 9>&- || status=$?
kill "$engine" && wait "$engine" || true
exit "$status"
