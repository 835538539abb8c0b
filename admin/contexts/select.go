package contexts

import (
	"cmp"
	"strings"

	"nstance.dev/protos/identity"
)

// IsFile reports whether a value of --context is a file: it contains a slash or ends
// in .json. Any other value is a name in the configuration file.
func IsFile(value string) bool {
	return strings.Contains(value, "/") || strings.HasSuffix(value, ".json")
}

// Selected is the context of a command.
type Selected struct {
	Context
	// Name in the configuration file; empty: it stands in a file of its own, or
	// there is no context.
	Name string
	// File that the context was read from; empty: there is no context.
	File string
}

// Select returns the context that a flag names, else the variable
// NSTANCE_ADMIN_CONTEXT, else the current one of the configuration file. Without any
// of them the answer is empty. A current context that does not exist is an error.
func Select(config, context string, getenv func(string) string) (Selected, error) {
	value := cmp.Or(context, getenv(identity.EnvAdminContext))
	if IsFile(value) {
		c, err := ReadFile(value)
		return Selected{Context: c, File: value}, err
	}
	all, err := Load(config, getenv)
	if err != nil {
		return Selected{}, err
	}
	name := cmp.Or(value, all.CurrentContext)
	if name == "" {
		return Selected{}, nil
	}
	c, err := all.Get(name)
	return Selected{Context: c, Name: name, File: all.Path()}, err
}
