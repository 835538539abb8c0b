package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

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
	own, err := os.ReadFile("LICENSE")
	if err != nil {
		return nil, err
	}
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("find Go: %w", err)
	}
	golang, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "LICENSE"))
	if err != nil {
		return nil, err
	}
	wanted := slices.DeleteFunc(slices.Clone(commands), func(name string) bool {
		return len(o.only) > 0 && !o.wants(filepath.Base(name))
	})
	modules, err := licences.Of(ctx, wanted, []string{"-tags", o.tags}, []string{"GOOS=linux", "GOARCH=" + arch, "CGO_ENABLED=0"})
	if err != nil {
		return nil, err
	}
	return func(programs ...string) release.File {
		text := licences.Texts(programs, string(own), string(golang), modules)
		return release.File{Data: []byte(text), To: "usr/share/doc/" + programs[0] + "/copyright", Mode: 0o644}
	}, nil
}
