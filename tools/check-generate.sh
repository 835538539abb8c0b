#!/usr/bin/env bash
# Fails, with the difference, if a generated file in the repository is not what
# tools/generate.sh makes of its source. Changes nothing.
set -euo pipefail

fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT

tools/generate.sh "$fresh"

stale=0
while read -r file; do
	diff -u "$file" "$fresh/$file" || stale=1
done < <(cd "$fresh" && find . -type f | sort)

# What is generated no more: code whose .proto file is gone, a kind that is gone.
while read -r file; do
	[ -e "$fresh/$file" ] || { echo "$file: no longer generated"; stale=1; }
done < <(find protos operator/crds admin/gateway -name '*.pb.go' -o -name '*.pb.gw.go' -o -name '*.cluster.x-k8s.io_*.yaml' -o -name 'demand.nstance.dev_*.yaml' -o -name 'hosts.nstance.dev_*.yaml')

# The pages of the console are built with Node, which is not needed here: their sources are
# compared by a digest.
go run ./admin/console/internal/cmd/webdigest || stale=1

if [ "$stale" -ne 0 ]; then
	echo "generated files are out of date: run make generate and commit the result" >&2
	exit 1
fi
