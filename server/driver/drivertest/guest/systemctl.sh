#!/bin/sh
# The service manager of a machine: of a service it reads Type, ExecStart, Environment,
# EnvironmentFile, Restart and RestartSec, of a path PathExistsGlob, and of those only plain
# forms. A service prints into the machine's log. One of type oneshot is started once at a time
# and waited for, and not restarted.
set -eu
units=$GUEST_DIR/root/etc/systemd/system

fail() { echo "systemctl: $*" >&2; exit 1; }

# The values of a setting of a unit, one a line.
setting() { sed -n "s/^$2=//p" "$units/$1.service"; }

# Sets the variables that stand on standard input, one a line.
environment() {
	while IFS= read -r line; do
		case $line in
		'' | '#'*) ;;
		*) export "${line?}" ;;
		esac
	done
}

# Becomes the program of a unit.
program() {
	setting "$1" Environment | sed 's/^"\(.*\)"$/\1/' >"$GUEST_DIR/run/$1.env"
	setting "$1" EnvironmentFile | while IFS= read -r file; do
		case $file in
		-*) [ ! -e "${file#-}" ] || cat "${file#-}" ;;
		*) cat "$file" ;;
		esac
		echo # the file may end without
	done >>"$GUEST_DIR/run/$1.env"
	environment <"$GUEST_DIR/run/$1.env"
	# shellcheck disable=SC2046 # words are what is wanted
	exec $(setting "$1" ExecStart)
}

# Runs the program of a unit again and again, as its Restart says, until told to end.
serve() {
	ended= child=
	trap 'ended=1; [ -z "$child" ] || kill "$child" 2>/dev/null || :' TERM
	restart=$(setting "$1" Restart) pause=$(setting "$1" RestartSec)
	while [ -z "$ended" ]; do
		(trap - TERM; program "$1") &
		child=$! code=0
		wait "$child" || code=$?
		if [ -n "$ended" ]; then
			wait "$child" || :
			break
		fi
		echo "$1: exit code $code"
		case $restart in
		always) ;;
		on-failure) [ "$code" -ne 0 ] || break ;;
		*) break ;;
		esac
		sleep "${pause:-0.1}" &
		child=$!
		wait "$child" || :
	done
	rm -f "$GUEST_DIR/run/$1.pid"
}

# Runs the program of a unit of type oneshot.
once() { (program "$1") </dev/null >>"$GUEST_DIR/log" 2>&1; }

# Runs the service of a path unit as long as a file of its pattern exists, until told to end.
watch() {
	ended=
	trap 'ended=1' TERM
	pattern=$(sed -n 's/^PathExistsGlob=//p' "$units/$1")
	while [ -z "$ended" ]; do
		for file in $pattern; do
			[ ! -e "$file" ] || { once "${1%.path}" || :; break; }
		done
		sleep 0.05 &
		wait $! || :
	done
	rm -f "$GUEST_DIR/run/$1.pid"
}

start() {
	case $1 in
	*.path)
		[ -e "$units/$1" ] || fail "there is no unit $1"
		watch "$1" </dev/null >>"$GUEST_DIR/log" 2>&1 &
		echo $! >"$GUEST_DIR/run/$1.pid"
		return
		;;
	esac
	[ -e "$units/$1.service" ] || fail "there is no unit $1.service"
	if [ "$(setting "$1" Type)" = oneshot ]; then
		once "$1"
		return
	fi
	if [ -e "$GUEST_DIR/run/$1.pid" ] && kill -0 "$(cat "$GUEST_DIR/run/$1.pid")" 2>/dev/null; then
		return
	fi
	serve "$1" </dev/null >>"$GUEST_DIR/log" 2>&1 &
	echo $! >"$GUEST_DIR/run/$1.pid"
}

stop() {
	[ -e "$GUEST_DIR/run/$1.pid" ] || return 0
	pid=$(cat "$GUEST_DIR/run/$1.pid")
	kill "$pid" 2>/dev/null || :
	while [ -e "$GUEST_DIR/run/$1.pid" ] && kill -0 "$pid" 2>/dev/null; do sleep 0.05; done
}

action='' now='' names=''
for arg in "$@"; do
	case $arg in
	--now) now=1 ;;
	--quiet | -q | --no-block) ;;
	-*) fail "$arg is not known to this machine" ;;
	*) if [ -z "$action" ]; then action=$arg; else names="$names ${arg%.service}"; fi ;;
	esac
done

case $action in
daemon-reload) exit ;;
enable | start | stop | restart) ;;
*) fail "$action is not known to this machine" ;;
esac
for name in $names; do
	case $action in
	enable)
		[ -e "$units/$name.service" ] || [ -e "$units/$name" ] || fail "there is no unit $name.service"
		: >"$GUEST_DIR/enabled/$name"
		[ -z "$now" ] || start "$name"
		;;
	start) start "$name" ;;
	stop) stop "$name" ;;
	restart) stop "$name"; start "$name" ;;
	esac
done
