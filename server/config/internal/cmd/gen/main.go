// Gen writes the JSON Schema of the configuration and its reference. Run it by
// go generate in package config.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"nstance.dev/server/config/internal/schemagen"
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
	schema, err := schemagen.Schema()
	if err != nil {
		return err
	}
	reference, err := schemagen.Reference(schema)
	if err != nil {
		return err
	}
	providers, err := schemagen.Providers()
	if err != nil {
		return err
	}
	for path, data := range map[string][]byte{
		"server/config/schema/providers.json":     providers,
		"server/config/schema/config.schema.json": schema,
		"docs/config.schema.json":                 schema,
		"docs/reference/configuration.md":         reference,
	} {
		path = filepath.Join(out, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
