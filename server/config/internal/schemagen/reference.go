package schemagen

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/invopop/jsonschema"
)

//go:embed reference_head.md
var head string

// Reference gives the page for readers, from the schema: a table for each
// object, in the order of the types.
func Reference(schema []byte) ([]byte, error) {
	var root jsonschema.Schema
	if err := json.Unmarshal(schema, &root); err != nil {
		return nil, fmt.Errorf("read the schema: %w", err)
	}
	r := reference{defs: root.Definitions, seen: map[string]bool{}}
	r.out.WriteString(head)
	r.object("", &root)
	return []byte(r.out.String()), nil
}

type reference struct {
	out  strings.Builder
	defs jsonschema.Definitions
	seen map[string]bool // types that have their table already
}

// object writes the table of one object, and those of the objects in it.
func (r *reference) object(path string, s *jsonschema.Schema) {
	title := "The document"
	if path != "" {
		title = "`" + path + "`"
	}
	fmt.Fprintf(&r.out, "\n## %s\n\n", title)
	if s.Description != "" {
		fmt.Fprintf(&r.out, "%s\n\n", s.Description)
	}
	r.out.WriteString("| Field | Type | Meaning |\n|---|---|---|\n")
	for p := s.Properties.Oldest(); p != nil; p = p.Next() {
		name := "`" + p.Key + "`"
		if slices.Contains(s.Required, p.Key) {
			name += " (required)"
		}
		fmt.Fprintf(&r.out, "| %s | %s | %s |\n", name, r.typeOf(p.Value), cell(p.Value.Description))
	}
	for p := s.Properties.Oldest(); p != nil; p = p.Next() {
		r.inside(join(path, p.Key), p.Value)
	}
}

// inside writes the tables of what a field holds.
func (r *reference) inside(path string, s *jsonschema.Schema) {
	switch {
	case s.Ref != "":
		name := strings.TrimPrefix(s.Ref, "#/$defs/")
		def := r.defs[name]
		if r.seen[name] || def == nil || def.Properties == nil || def.Properties.Len() == 0 {
			return
		}
		r.seen[name] = true
		r.object(path, def)
	case s.Items != nil:
		r.inside(path+"[]", s.Items)
	case s.AdditionalProperties != nil:
		r.inside(path+".*", s.AdditionalProperties)
	}
}

// typeOf gives the type in words, with a link to the table of an object.
func (r *reference) typeOf(s *jsonschema.Schema) string {
	switch {
	case s.Ref != "":
		return "object"
	case s.Title != "":
		return s.Title
	case len(s.Enum) > 0:
		var values []string
		for _, v := range s.Enum {
			values = append(values, fmt.Sprintf("`%v`", v))
		}
		return strings.Join(values, ", ")
	case s.Type == "array" && s.Items != nil:
		return "list of " + plural(r.typeOf(s.Items))
	case s.Type == "object" && s.AdditionalProperties != nil && s.AdditionalProperties.Type+s.AdditionalProperties.Ref != "":
		return "object of " + plural(r.typeOf(s.AdditionalProperties))
	case s.Type == "":
		return "any"
	}
	return s.Type
}

func plural(what string) string {
	if strings.HasPrefix(what, "`") {
		return what // the values themselves
	}
	if before, rest, ok := strings.Cut(what, " "); ok && before == "object" || before == "list" {
		return before + "s " + rest
	}
	return what + "s"
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
