// Gen writes the table of the parameters of RunInstances, by which package rules checks
// arguments without the SDK. Run it by go generate in package aws.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"nstance.dev/providers/aws/internal/parameters"
)

func main() {
	out := flag.String("out", "", "the root of the repository, or another directory to compare with it")
	flag.Parse()
	if err := run(*out); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(out string) error {
	table, err := parameters.Table()
	if err != nil {
		return err
	}
	path := filepath.Join(out, "providers/aws/rules/parameters.json")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, table, 0o644)
}
