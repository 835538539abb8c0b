package config

import (
	"nstance.dev/server/config/jsonc"
	"nstance.dev/server/driver"
)

// LoadOptions are what Load needs to know besides the text. The zero value
// checks what can be checked without knowing more.
type LoadOptions struct {
	// Shard is what server.shard must be; empty is any.
	Shard string
	// Storage is the kind of the store, s3, gcs or file, where it sets limits to
	// the intervals of elections; empty sets none.
	Storage string
	// Rules are the provider's own; nil: none.
	Rules *driver.Rules
}

// Load reads a static configuration. It gives either the configuration, checked
// and complete: every field that has a default holds it, "gcp" has become
// "google", and Warnings say what is doubtful; or [Problems]. The name is that
// of the file in messages.
func Load(name string, data []byte, opts LoadOptions) (*Config, error) {
	cfg := defaults()
	cfg.rules = rules{opts.Rules}
	doc, problems := jsonc.Decode(name, data, cfg)
	if doc.Empty() {
		return nil, problems
	}
	cfg.complete()
	c := newChecker(cfg, doc, opts, problems)
	c.config()
	c.problems.Sort()
	if err := c.problems.Err(); err != nil {
		return nil, err
	}
	cfg.Warnings = append(doc.Warnings(), c.warnings...)
	cfg.Warnings.Sort()
	return cfg, nil
}
