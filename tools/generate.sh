#!/usr/bin/env bash
# Writes every generated file of the repository below a directory: `.` to regenerate in
# place, another one to compare (tools/check-generate.sh). Run from the root of the
# repository, through make, which builds the tools.
#
# To add a generated file: write a function that puts it below $out, under the path it
# has in the repository, and call it at the end.
set -euo pipefail

out=${1:?usage: tools/generate.sh DIRECTORY}
PATH=$PWD/bin/tools:$PATH

wire_contract() {
	buf generate --output "$out"
}

# The handlers of the HTTP API in one file, and the document that describes it.
http_api() {
	local work there
	work=$(mktemp -d)
	buf generate --template admin/gateway/buf.gen.yaml --output "$work"
	mkdir -p "$out/admin/gateway/rest"
	cp "$work/rest/nstance/v1/operator.pb.gw.go" "$out/admin/gateway/rest/"
	there=$(realpath "$out/admin/gateway")
	(cd admin && go run ./gateway/internal/cmd/openapi -swagger "$work/swagger/nstance/v1/operator.swagger.json" -out "$there/openapi.json")
	rm -rf "$work"
}

config_schema() {
	mkdir -p "$out"
	local there
	there=$(realpath "$out")
	(cd server/config && go run ./internal/cmd/gen -out "$there")
}

# What a cloud's SDK takes, for checks that do without the SDK.
provider_arguments() {
	local there provider
	there=$(realpath "$out")
	for provider in aws gcp; do
		(cd "providers/$provider" && go run ./internal/cmd/gen -out "$there")
	done
}

kubernetes_kinds() {
	mkdir -p "$out/operator/crds/demand" "$out/operator/crds/hosts"
	local there group
	there=$(realpath "$out/operator")
	cd operator
	for group in infrastructure controlplane; do
		controller-gen object "paths=./api/$group/..." "output:object:dir=$there/api/$group/v1beta1"
	done
	controller-gen crd paths=./api/infrastructure/... paths=./api/controlplane/... "output:crd:dir=$there/crds"
	# Features of their own: the chart installs these only where they are on.
	for group in demand hosts; do
		controller-gen object "paths=./api/$group/..." "output:object:dir=$there/api/$group/v1alpha1"
		controller-gen crd "paths=./api/$group/..." "output:crd:dir=$there/crds/$group"
	done
	cd - >/dev/null
}

# The page is about the definitions that are committed: regenerate those first.
page_of_kinds() {
	local there
	there=$(realpath "$out")
	(cd operator && go run ./crds/internal/cmd/gen -out "$there")
}

# The chart carries copies, because a chart is packed without what lies beside it.
chart_files() {
	local files="$out/operator/charts/nstance-operator/files"
	mkdir -p "$files/crds/demand" "$files/crds/hosts" "$files/policies/demand" "$files/policies/hosts"
	cp "$out"/operator/crds/*.yaml "$files/crds/"
	cp "$out"/operator/crds/demand/*.yaml "$files/crds/demand/"
	cp "$out"/operator/crds/hosts/*.yaml "$files/crds/hosts/"
	cp operator/policies/*.yaml "$files/policies/"
	cp operator/policies/demand/*.yaml "$files/policies/demand/"
	cp operator/policies/hosts/*.yaml "$files/policies/hosts/"
}

# The texts of the source as it is committed.
texts() {
	mkdir -p "$out/docs/reference"
	go run ./e2e/cmd/texts -out "$out/docs/reference/texts.md"
}

# What the programs of a release are linked of.
licences() {
	mkdir -p "$out/docs/reference"
	go run ./tools/release/cmd/licences -tags disable_grpc_modules -out "$out/docs/reference/licences.md" \
		./admin/cmd/nstance-admin ./agent/cmd/nstance-agent ./agent/cmd/nstance-paver \
		./operator/cmd/nstance-operator ./operator/cmd/nstance-pod-demand \
		./providers/aws/cmd/nstance-server-aws ./providers/gcp/cmd/nstance-server-gcp \
		./providers/local/cmd/nstance-server-local ./providers/proxmox/cmd/nstance-server-proxmox
}

wire_contract
http_api
config_schema
provider_arguments
kubernetes_kinds
page_of_kinds
chart_files
texts
licences
