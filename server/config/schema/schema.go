// Package schema is what a configuration may contain, by names and types: the JSON Schema,
// for people's editors, and what each provider adds to a document, for the readers.
// Both are made by "make generate", of the types of package document and of
// providers/*/rules/schema.json.
package schema

import (
	_ "embed"
	"slices"
)

//go:embed config.schema.json
var text []byte

// JSON gives the JSON Schema (2020-12) of the configuration. It says less than
// package checks finds: no references, no templates, nothing of what a provider's
// members mean.
func JSON() []byte { return slices.Clone(text) }
