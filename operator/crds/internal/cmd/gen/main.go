// Command gen writes the pages about the operator's kinds, docs/kubernetes/reference.md,
// docs/demand/kinds.md and docs/hosts/reference.md, from their definitions.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"nstance.dev/operator/crds"
	"nstance.dev/operator/crds/internal/reference"
)

func main() {
	out := flag.String("out", ".", "root of the repository, or a directory to compare it with")
	flag.Parse()
	if err := run(*out); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(out string) error {
	for _, of := range []struct {
		page reference.Page
		read func() ([]*apiextensionsv1.CustomResourceDefinition, error)
	}{
		{reference.ClusterAPI, crds.All},
		{reference.Demand, crds.Demand},
		{reference.Hosts, crds.Hosts},
	} {
		all, err := of.read()
		if err != nil {
			return err
		}
		text, err := of.page.Text(all)
		if err != nil {
			return err
		}
		path := filepath.Join(out, filepath.FromSlash(of.page.Path))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("make the directory of the page: %w", err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
