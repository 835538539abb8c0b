package config

import (
	"nstance.dev/server/config/checks"
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
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
// "google", and Warnings say what is likely a mistake; or [jsonc.Problems]. The name is that
// of the file in messages.
func Load(name string, data []byte, opts LoadOptions) (*effective.Config, error) {
	doc, places, problems := document.Decode(name, data)
	if places.Empty() {
		return nil, problems
	}
	cfg := effective.New(doc, opts.rulesFor(doc.Server.Provider.Kind))
	problems, cfg.Warnings = checks.Document(cfg, places, checks.Options{Shard: opts.Shard, Storage: opts.Storage, Program: opts.Rules, RulesOf: opts.rulesOf}, problems)
	if err := problems.Err(); err != nil {
		return nil, err
	}
	return cfg, nil
}
