package config

import (
	_ "embed"
	"slices"
)

//go:embed config.schema.json
var schema []byte

// Schema gives the JSON Schema (2020-12) of the configuration. It says less
// than [Load] checks: no references, no templates, nothing about the provider.
func Schema() []byte { return slices.Clone(schema) }
