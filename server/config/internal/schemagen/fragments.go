package schemagen

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/invopop/jsonschema"
)

// fragment is the schema.json of a provider's package rules: what documents may say about
// the provider.
type fragment struct {
	Kind    string   `json:"kind"`    // as in server.provider.kind
	Aliases []string `json:"aliases"` // other words for it

	// The members that the provider adds to these objects; nil: it has no such thing.
	LoadBalancer  *jsonschema.Schema `json:"load_balancer"`
	LeaderNetwork *jsonschema.Schema `json:"leader_network"`
	// What the members refer to.
	Definitions jsonschema.Definitions `json:"$defs"`

	program string // the name of the provider's folder
}

// fragments reads those of all providers. The local one is the first: it is what people
// begin with.
func fragments() ([]fragment, error) {
	paths, err := filepath.Glob("../../providers/*/rules/schema.json")
	if err != nil {
		return nil, err
	}
	var all []fragment
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		f := fragment{program: filepath.Base(filepath.Dir(filepath.Dir(path)))}
		if err := json.Unmarshal(text, &f); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, f)
	}
	slices.SortStableFunc(all, func(a, b fragment) int {
		return cmp.Compare(strings.Count(b.Kind, "local"), strings.Count(a.Kind, "local"))
	})
	return all, nil
}

// compose puts what the providers say of themselves into the schema.
func compose(s *jsonschema.Schema, all []fragment) {
	var kinds, balancing []any
	balancer, network := s.Definitions["LoadBalancer"], s.Definitions["LeaderNetwork"]
	for _, f := range all {
		kinds = append(kinds, f.words()...)
		if f.LoadBalancer != nil {
			balancing = append(balancing, f.words()...)
			add(balancer, f.LoadBalancer, "tenants")
		}
		if f.LeaderNetwork != nil {
			add(network, f.LeaderNetwork, "")
		}
		for name, def := range f.Definitions {
			s.Definitions[name] = def
		}
	}
	enumerate := func(definition, field string, words []any) {
		value, _ := s.Definitions[definition].Properties.Get(field)
		value.Enum = words
	}
	enumerate("Provider", "kind", kinds)
	enumerate("Image", "provider", kinds)
	enumerate("LoadBalancer", "provider", balancing)
}

func (f fragment) words() []any {
	words := []any{f.Kind}
	for _, alias := range f.Aliases {
		words = append(words, alias)
	}
	return words
}

// add adds the members of one object to another one, before a member that it has; "": behind all.
func add(to, from *jsonschema.Schema, before string) {
	for p := from.Properties.Oldest(); p != nil; p = p.Next() {
		to.Properties.Set(p.Key, p.Value)
		if before != "" {
			_ = to.Properties.MoveToBack(before) // it is there
		}
	}
}

// Providers gives what has to be known of the providers when a document is read.
func Providers() ([]byte, error) {
	all, err := fragments()
	if err != nil {
		return nil, err
	}
	type provider struct {
		Kind          string              `json:"kind"`
		Aliases       []string            `json:"aliases,omitempty"`
		Program       string              `json:"program"`
		LoadBalancer  []string            `json:"load_balancer,omitzero"`
		LeaderNetwork []string            `json:"leader_network,omitzero"`
		Objects       map[string][]string `json:"objects,omitempty"`
	}
	var list []provider
	for _, f := range all {
		p := provider{
			Kind: f.Kind, Aliases: f.Aliases, Program: f.program,
			LoadBalancer: membersOf(f.LoadBalancer), LeaderNetwork: membersOf(f.LeaderNetwork), Objects: map[string][]string{},
		}
		for name, def := range f.Definitions {
			p.Objects[name] = membersOf(def)
		}
		list = append(list, p)
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetIndent("", "  ")
	err = e.Encode(list)
	return out.Bytes(), err
}

// membersOf are the members of an object, each as "NAME TYPE"; nil if there is no object.
func membersOf(s *jsonschema.Schema) []string {
	if s == nil {
		return nil
	}
	members := []string{}
	for p := s.Properties.Oldest(); p != nil; p = p.Next() {
		members = append(members, p.Key+" "+typeName(p.Value))
	}
	return members
}

func typeName(s *jsonschema.Schema) string {
	switch {
	case s.Ref != "":
		return strings.TrimPrefix(s.Ref, "#/$defs/")
	case s.Type == "array":
		return "[]" + typeName(s.Items)
	}
	return s.Type
}
