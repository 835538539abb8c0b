// Package output prints what the API answered: as a table for people, as JSON or
// YAML for programs, through a template, or as bare names for other commands.
//
// Programs get the messages of the servers' API, with the field names of the protocol
// and unset fields shown, and objects of Kubernetes as its API has them; a list is an
// array. Templates see the same fields, and a list as an object whose only field is
// items. Nothing here talks to a server, and equal input gives equal bytes.
package output

import (
	"fmt"
	"slices"
	"strings"
)

// Kind is how something is printed.
type Kind string

// The kinds. Each of the last three takes a template: KIND=TEMPLATE.
const (
	Table         Kind = "table"
	Wide          Kind = "wide" // a table with more columns
	JSON          Kind = "json"
	YAML          Kind = "yaml"
	Name          Kind = "name"
	JSONPath      Kind = "jsonpath"
	GoTemplate    Kind = "go-template"
	CustomColumns Kind = "custom-columns"
)

// templates are the kinds that take one.
var templates = []Kind{JSONPath, GoTemplate, CustomColumns}

// Formats lists the kinds without a template, for completion and messages.
func Formats() []string {
	return []string{string(Table), string(Wide), string(JSON), string(YAML), string(Name)}
}

// Format is how something is printed, and in which order. The zero value is a table.
// As a flag it refuses unknown values and templates that are wrong.
type Format struct {
	// NoHeaders leaves the headers of tables and custom columns out.
	NoHeaders bool
	// SortBy is the path of the field that lists are sorted by; empty: as they come.
	SortBy string

	kind     Kind // empty: the first of offered
	template printer
	text     string // as it was set
	offered  []Kind // empty: all
}

// Offering returns a format that takes these kinds alone, the first by default. YAML
// brings along the kinds with a template.
func Offering(kinds ...Kind) Format {
	if slices.Contains(kinds, YAML) {
		kinds = slices.Concat(kinds, templates)
	}
	return Format{offered: kinds}
}

// As returns a format of a kind that takes no template.
func As(kind Kind) Format { return Format{kind: kind} }

// Kind is how something is printed.
func (f *Format) Kind() Kind {
	switch {
	case f.kind != "":
		return f.kind
	case len(f.offered) > 0:
		return f.offered[0]
	}
	return Table
}

// Shape is Table, Wide or Name, or else JSON: everything that is made from the fields of an object.
func (f *Format) Shape() Kind {
	switch kind := f.Kind(); kind {
	case Table, Wide, Name:
		return kind
	default:
		return JSON
	}
}

// Offers lists what the format may be set to, for help and messages.
func (f *Format) Offers() []string {
	kinds := f.offered
	if len(kinds) == 0 {
		kinds = []Kind{Table, Wide, JSON, YAML, Name, JSONPath, GoTemplate, CustomColumns}
	}
	var names []string
	for _, kind := range kinds {
		name := string(kind)
		if slices.Contains(templates, kind) {
			name += "="
		}
		names = append(names, name)
	}
	return names
}

// String implements pflag.Value.
func (f *Format) String() string {
	if f.text != "" {
		return f.text
	}
	return string(f.Kind())
}

// Type implements pflag.Value.
func (f *Format) Type() string { return "format" }

// Set implements pflag.Value.
func (f *Format) Set(s string) error {
	name, template, hasTemplate := strings.Cut(s, "=")
	kind := Kind(name)
	wants := slices.Contains(templates, kind)
	offer := name
	if wants {
		offer += "="
	}
	if !slices.Contains(f.Offers(), offer) || hasTemplate && !wants {
		return fmt.Errorf("must be one of %s", strings.Join(f.Offers(), ", "))
	}
	if wants {
		p, err := parseTemplate(kind, template)
		if err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
		f.template = p
	}
	f.kind, f.text = kind, s
	return nil
}
