package schema

import (
	_ "embed"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// providersJSON is made of the schema of each provider's package rules: what a document may
// say about the provider, by names and types. What it means the provider's own rules check.
//
//go:embed providers.json
var providersJSON []byte

// Provider is a kind of provider, as documents name it.
type Provider struct {
	Kind    string
	Aliases []string
	Program string // of nstance-server-PROGRAM

	// LoadBalancer and LeaderNetwork are the members that the provider adds to these
	// objects, each as "NAME TYPE"; nil: it has no such thing. A type is one of JSON
	// Schema's, a name of Objects, or "[]" and one of these.
	LoadBalancer  []string `json:"load_balancer"`
	LeaderNetwork []string `json:"leader_network"`
	Objects       map[string][]string
}

// Providers are all kinds that there are.
type Providers struct {
	All []Provider
	// LoadBalancer and LeaderNetwork are structs of all that any of them adds to these
	// objects. The fields are pointers, nil for what is absent.
	LoadBalancer, LeaderNetwork reflect.Type
}

// Known are the providers that documents may name. They are not to be changed.
func Known() Providers { return known() }

var known = sync.OnceValue(func() Providers {
	var p Providers
	if err := json.Unmarshal(providersJSON, &p.All); err != nil {
		panic("providers.json: " + err.Error())
	}
	objects := map[string][]string{}
	var balancer, network []string
	for _, one := range p.All {
		balancer, network = append(balancer, one.LoadBalancer...), append(network, one.LeaderNetwork...)
		for name, members := range one.Objects {
			objects[name] = members
		}
	}
	p.LoadBalancer, p.LeaderNetwork = structOf(balancer, objects), structOf(network, objects)
	return p
})

// Of is the provider of a kind.
func (p Providers) Of(kind string) (Provider, bool) {
	i := slices.IndexFunc(p.All, func(one Provider) bool { return one.Kind == kind })
	if i < 0 {
		return Provider{}, false
	}
	return p.All[i], true
}

// Kinds are those of the providers that one thing or another is true of.
func (p Providers) Kinds(where func(Provider) bool) []string {
	var kinds []string
	for _, one := range p.All {
		if where(one) {
			kinds = append(kinds, one.Kind)
		}
	}
	return kinds
}

// Canonical is the kind that a word stands for.
func (p Providers) Canonical(word string) string {
	for _, one := range p.All {
		if slices.Contains(one.Aliases, word) {
			return one.Kind
		}
	}
	return word
}

// structOf is a struct of optional fields.
func structOf(members []string, objects map[string][]string) reflect.Type {
	var fields []reflect.StructField
	for _, member := range members {
		name, typ, _ := strings.Cut(member, " ")
		fields = append(fields, reflect.StructField{
			Name: "F_" + name, Type: reflect.PointerTo(typeOf(typ, objects)), Tag: reflect.StructTag(`json:"` + name + `,omitempty"`),
		})
	}
	return reflect.StructOf(fields)
}

func typeOf(name string, objects map[string][]string) reflect.Type {
	if of, list := strings.CutPrefix(name, "[]"); list {
		return reflect.SliceOf(typeOf(of, objects))
	}
	switch name {
	case "string":
		return reflect.TypeFor[string]()
	case "integer":
		return reflect.TypeFor[int]()
	case "boolean":
		return reflect.TypeFor[bool]()
	case "number":
		return reflect.TypeFor[float64]()
	}
	return structOf(objects[name], objects)
}

// Names are the names of members.
func Names(members []string) []string {
	list := make([]string, len(members))
	for i, member := range members {
		list[i], _, _ = strings.Cut(member, " ")
	}
	return list
}
