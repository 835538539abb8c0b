#!/usr/bin/env bash
# Runs every fuzzer below the given directories for a while, one after another, since
# `go test -fuzz` takes one at a time.
set -euo pipefail

time=${1:?usage: tools/fuzz.sh DURATION DIRECTORY...}
shift

found=0
while IFS=: read -r file declaration; do
	name=${declaration#func }
	name=${name%%(*}
	found=$((found + 1))
	echo "== $name in $(dirname "$file")"
	# Go minimizes each new input for up to a minute, which a short run would spend on little else.
	go test -run '^$' -fuzz "^$name\$" -fuzztime "$time" -fuzzminimizetime 5x "./$(dirname "$file")"
done < <(grep -r --include='*_test.go' '^func Fuzz' "$@" | sort)

[ "$found" -gt 0 ] || { echo "no fuzzers found in $*" >&2; exit 1; }
