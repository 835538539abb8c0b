package config

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

// provider is a kind of provider, as documents name it.
type provider struct {
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

// providers are all kinds that there are, and the types of what they add.
type providers struct {
	all                         []provider
	loadBalancer, leaderNetwork reflect.Type // structs
}

// known are the providers that documents may name.
var known = sync.OnceValue(func() providers {
	var p providers
	if err := json.Unmarshal(providersJSON, &p.all); err != nil {
		panic("providers.json: " + err.Error())
	}
	objects := map[string][]string{}
	var balancer, network []string
	for _, one := range p.all {
		balancer, network = append(balancer, one.LoadBalancer...), append(network, one.LeaderNetwork...)
		for name, members := range one.Objects {
			objects[name] = members
		}
	}
	p.loadBalancer, p.leaderNetwork = structOf(balancer, objects), structOf(network, objects)
	return p
})

// of is the provider of a kind.
func (p providers) of(kind string) (provider, bool) {
	i := slices.IndexFunc(p.all, func(one provider) bool { return one.Kind == kind })
	if i < 0 {
		return provider{}, false
	}
	return p.all[i], true
}

// kinds are those of the providers that one thing or another is true of.
func (p providers) kinds(where func(provider) bool) []string {
	var kinds []string
	for _, one := range p.all {
		if where(one) {
			kinds = append(kinds, one.Kind)
		}
	}
	return kinds
}

func anyProvider(provider) bool          { return true }
func hasLoadBalancers(one provider) bool { return one.LoadBalancer != nil }

// canonicalProvider is the kind that a word stands for.
func canonicalProvider(word string) string {
	for _, one := range known().all {
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

// names are the names of members.
func names(members []string) []string {
	list := make([]string, len(members))
	for i, member := range members {
		list[i], _, _ = strings.Cut(member, " ")
	}
	return list
}

// either lists words of which one is wanted.
func either(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
