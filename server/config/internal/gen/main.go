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
	docs := flag.String("docs", "", "the folder of the documentation")
	flag.Parse()
	if err := run(*docs); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(docs string) error {
	schema, err := schemagen.Schema()
	if err != nil {
		return err
	}
	reference, err := schemagen.Reference(schema)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(docs, "reference"), 0o755); err != nil {
		return err
	}
	for path, data := range map[string][]byte{
		"config.schema.json":                                 schema,
		filepath.Join(docs, "config.schema.json"):            schema,
		filepath.Join(docs, "reference", "configuration.md"): reference,
	} {
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
