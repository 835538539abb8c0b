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
	// Rules are those of the provider that the program is built for; the document must
	// be for it. Nil: those among Providers that are the document's provider's, or none.
	Rules *driver.Rules
	// Providers are the rules of several providers, for a program that serves none.
	Providers []*driver.Rules
}

// rulesFor are the rules for a document whose provider is of a kind; nil: there are none.
func (o LoadOptions) rulesFor(kind string) *driver.Rules {
	if o.Rules != nil {
		return o.Rules
	}
	return o.rulesOf(kind)
}

// rulesOf are the rules of the provider of a kind; nil: there are none.
func (o LoadOptions) rulesOf(kind string) *driver.Rules {
	if o.Rules != nil && o.Rules.Kind == kind {
		return o.Rules
	}
	for _, r := range o.Providers {
		if r.Kind == kind {
			return r
		}
	}
	return nil
}

// Load reads a static configuration. It gives either the configuration, checked
// and complete: every field that has a default holds it, "gcp" has become
// "google", and Warnings say what is doubtful; or [Problems]. The name is that
// of the file in messages.
func Load(name string, data []byte, opts LoadOptions) (*Config, error) {
	cfg := defaults()
	doc, problems := jsonc.Decode(name, data, cfg)
	if doc.Empty() {
		return nil, problems
	}
	cfg.complete()
	cfg.rules = rules{opts.rulesFor(cfg.Server.Provider.Kind)}
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
