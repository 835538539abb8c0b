// Command gen writes the page about the operator's kinds, docs/kubernetes/reference.md,
// from their definitions.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

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
	all, err := crds.All()
	if err != nil {
		return err
	}
	page, err := reference.Page(all)
	if err != nil {
		return err
	}
	path := filepath.Join(out, "docs", "kubernetes", "reference.md")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("make the directory of the page: %w", err)
	}
	return os.WriteFile(path, []byte(page), 0o644)
}
