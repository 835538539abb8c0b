// Package output prints what the API answered: as a table for people, as JSON or
// YAML for programs, or as bare names for other commands.
//
// Programs get the messages of the servers' API, with the field names of the protocol
// and unset fields shown, and objects of Kubernetes as its API has them; a list is an
// array. Nothing here talks to a server, and equal input gives equal bytes.
package output

import (
	"fmt"
	"slices"
	"strings"
)

// Format is how something is printed. As a flag it refuses unknown values.
type Format string

// The formats.
const (
	Table Format = "table"
	Wide  Format = "wide" // a table with more columns
	JSON  Format = "json"
	YAML  Format = "yaml"
	Name  Format = "name"
)

// Formats lists all formats, for completion and messages.
func Formats() []string {
	return []string{string(Table), string(Wide), string(JSON), string(YAML), string(Name)}
}

// String implements pflag.Value.
func (f *Format) String() string { return string(*f) }

// Type implements pflag.Value.
func (f *Format) Type() string { return "format" }

// Set implements pflag.Value.
func (f *Format) Set(s string) error {
	if !slices.Contains(Formats(), s) {
		return fmt.Errorf("must be one of %s", strings.Join(Formats(), ", "))
	}
	*f = Format(s)
	return nil
}
