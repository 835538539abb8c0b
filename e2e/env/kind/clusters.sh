#!/usr/bin/env bash
# usage: clusters.sh COMMAND [ARGUMENT...]
#
# Runs tests whose clusters are made by kind: package kube does that, and this says how. The
# node image is KIND_NODE_IMAGE, or else made of the archive NODE_ROOT (see node-root.sh). IMAGES
# is the folder with what every cluster gets besides. It takes a Docker engine, and kind in
# bin/tools.
set -euo pipefail

if [ -z "${KIND_NODE_IMAGE:-}" ]; then
	KIND_NODE_IMAGE=nstance.test/kind-node:$(basename "$(dirname "$NODE_ROOT")")
	docker image inspect "$KIND_NODE_IMAGE" >/dev/null 2>&1 || docker import \
		--change 'ENTRYPOINT ["/usr/local/bin/entrypoint", "/sbin/init"]' --change 'ENV container=docker' \
		"$NODE_ROOT" "$KIND_NODE_IMAGE"
fi

# kind would make it with its first cluster; shards listen at its gateway before that.
docker network inspect kind >/dev/null 2>&1 || docker network create --driver bridge kind >/dev/null
gateway=$(docker network inspect kind --format '{{range .IPAM.Config}}{{.Gateway}} {{end}}' | tr ' ' '\n' | grep -m 1 '[.]')

export NSTANCE_TEST_PLACE=kind NSTANCE_TEST_NODE_IMAGE=$KIND_NODE_IMAGE
export NSTANCE_TEST_IMAGES=$IMAGES NSTANCE_TEST_ADDRESS=$gateway
exec "$@"
