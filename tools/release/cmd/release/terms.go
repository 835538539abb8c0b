package main

import (
	"context"
	"path/filepath"
	"slices"

	"nstance.dev/tools/release"
	"nstance.dev/tools/release/licences"
)

// commands are the packages of the programs of a release.
var commands = []string{
	"./admin/cmd/nstance-admin", "./agent/cmd/nstance-agent", "./agent/cmd/nstance-paver",
	"./operator/cmd/nstance-operator", "./operator/cmd/nstance-pod-demand",
	"./providers/aws/cmd/nstance-server-aws", "./providers/gcp/cmd/nstance-server-gcp",
	"./providers/local/cmd/nstance-server-local", "./providers/proxmox/cmd/nstance-server-proxmox",
}

// termsFor returns what makes, for programs of one processor, the file with the licences under which they are
// given away, where Debian's packages have it.
func (o order) termsFor(ctx context.Context, arch string) (func(programs ...string) release.File, error) {
	wanted := slices.DeleteFunc(slices.Clone(commands), func(name string) bool {
		return len(o.only) > 0 && !o.wants(filepath.Base(name))
	})
	modules, err := licences.Of(ctx, wanted, []string{"-tags", o.tags}, []string{"GOOS=linux", "GOARCH=" + arch, "CGO_ENABLED=0"})
	if err != nil {
		return nil, err
	}
	terms, err := licences.ReadTerms(ctx, modules)
	if err != nil {
		return nil, err
	}
	return func(programs ...string) release.File {
		return release.File{Data: []byte(terms.Of(programs...)), To: "usr/share/doc/" + programs[0] + "/copyright", Mode: 0o644}
	}, nil
}
