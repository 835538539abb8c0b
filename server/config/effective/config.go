package effective

import (
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/jsonc"
	"nstance.dev/server/config/rules"
	"nstance.dev/server/driver"
)

// Config is a document that may be acted on, with the rules of its provider. Nothing of it is
// changed once it is made: it may be shared between goroutines.
type Config struct {
	*document.Config
	// Warnings are what was found likely to be a mistake but not wrong, in order of place.
	Warnings jsonc.Problems
	// Rules are those of the provider.
	Rules rules.Rules

	templateUsers, balancerUsers map[string]tenantSet // by key; see indexUsers
}

// New gives the configuration of a document. Without rules of the provider (nil) nothing is
// known of its arguments and types.
func New(doc *document.Config, provider *driver.Rules) *Config {
	c := &Config{Config: doc, Rules: rules.Of(provider)}
	c.indexUsers()
	return c
}

// MaxUserdata is how many bytes of rendered user data the provider takes.
func (c *Config) MaxUserdata() int { return c.Rules.MaxUserdata() }
