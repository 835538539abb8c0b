package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// reader walks a YAML document and collects what is wrong with it.
type reader struct {
	source   string // what people call the document
	problems []Problem
}

// note records a problem at a node; path is the node's key from the top.
func (r *reader) note(n *yaml.Node, path, format string, args ...any) {
	place := r.source
	if n != nil && n.Line > 0 {
		place = fmt.Sprintf("%s line %d", r.source, n.Line)
	}
	if path != "" {
		place += ": " + path
	}
	r.problems = append(r.problems, Problem{place, fmt.Sprintf(format, args...)})
}

// document returns the top node of a text, nil if there is none: it is empty, or not
// YAML, which is noted.
func (r *reader) document(text []byte) *yaml.Node {
	var doc, more yaml.Node
	documents := yaml.NewDecoder(bytes.NewReader(text))
	err := documents.Decode(&doc)
	switch {
	case errors.Is(err, io.EOF), err == nil && len(doc.Content) == 0:
		r.note(nil, "", "it is empty")
		return nil
	case err != nil:
		r.note(nil, "", "it is not YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
		return nil
	}
	if err := documents.Decode(&more); !errors.Is(err, io.EOF) {
		r.note(&more, "", "what follows --- would be overlooked; write one document")
	}
	return doc.Content[0]
}

// entry is one key of a mapping and what it holds.
type entry struct {
	key   string
	path  string
	value *yaml.Node
}

// mapping returns the entries of a node in order, each key once.
func (r *reader) mapping(n *yaml.Node, path string) []entry {
	n = target(n)
	if n.Kind != yaml.MappingNode {
		r.note(n, path, "it must be a mapping of keys to values")
		return nil
	}
	var entries []entry
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := target(n.Content[i])
		at := key.Value
		if path != "" {
			at = path + "." + key.Value
		}
		if slices.ContainsFunc(entries, func(e entry) bool { return e.key == key.Value }) {
			r.note(key, at, "the key is there twice; remove one")
			continue
		}
		entries = append(entries, entry{key.Value, at, n.Content[i+1]})
	}
	return entries
}

// fields hands the entries of a mapping to the functions of their keys and refuses
// other keys.
func (r *reader) fields(n *yaml.Node, path string, known map[string]func(entry)) {
	for _, e := range r.mapping(n, path) {
		if read := known[e.key]; read != nil {
			read(e)
			continue
		}
		names := make([]string, 0, len(known))
		for name := range known {
			names = append(names, name)
		}
		slices.Sort(names)
		r.note(e.value, e.path, "unknown key; known here are %s", strings.Join(names, ", "))
	}
}

// text reads a string; a number or a truth value without quotes is none.
func (r *reader) text(e entry) string {
	n := target(e.value)
	switch {
	case n.Kind == yaml.ScalarNode && n.Tag == "!!null":
		return ""
	case n.Kind != yaml.ScalarNode || n.Tag != "!!str":
		r.note(n, e.path, "it must be a string; put it in quotes")
		return ""
	}
	return n.Value
}

// truth reads true or false.
func (r *reader) truth(e entry) bool {
	n := target(e.value)
	var value bool
	if n.Kind != yaml.ScalarNode || n.Tag != "!!bool" || n.Decode(&value) != nil {
		r.note(n, e.path, "it must be true or false")
	}
	return value
}

// list reads a list of strings.
func (r *reader) list(e entry) []entry {
	n := target(e.value)
	if n.Kind != yaml.SequenceNode {
		r.note(n, e.path, "it must be a list")
		return nil
	}
	var items []entry
	for i, item := range n.Content {
		items = append(items, entry{path: fmt.Sprintf("%s[%d]", e.path, i), value: item})
	}
	return items
}

// target follows an alias.
func target(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		return n.Alias
	}
	return n
}
