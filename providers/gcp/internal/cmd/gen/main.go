// Gen writes the description of the API's messages by which package rules checks arguments
// without the SDK. Run it by go generate in package gcp.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"nstance.dev/providers/gcp/internal/messages"
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
	file, err := messages.File()
	if err != nil {
		return err
	}
	path := filepath.Join(out, "providers/gcp/rules/instance.json")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, file, 0o644)
}
