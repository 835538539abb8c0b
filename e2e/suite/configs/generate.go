package configs

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
)

// object is a JSON object.
type object = map[string]any

// Document is a configuration that was made at random.
type Document struct {
	Text string
	How  string // "fresh", or the name of the mutation
	Kind string // of the provider
}

// Generator makes documents. Dir is the directory of the machines of local shards, Key
// a file with an encryption key.
type Generator struct {
	Dir, Key string

	rnd   *rand.Rand
	valid []Document // that were found so; mutations start from them
}

// New makes a generator that makes the same documents for the same seed.
func New(seed uint64, dir, key string) *Generator {
	return &Generator{Dir: dir, Key: key, rnd: rand.New(rand.NewPCG(seed, seed+1))}
}

// Next makes a document: in turns a new one, and a mutation of one that is valid.
func (g *Generator) Next(n int) Document {
	if n%2 == 1 && len(g.valid) > 0 {
		return g.mutate(g.valid[g.rnd.IntN(len(g.valid))])
	}
	return g.fresh()
}

// maxKept is how many valid documents mutations start from.
const maxKept = 500

// Keep tells the generator that a document is valid.
func (g *Generator) Keep(d Document) {
	if len(g.valid) < maxKept {
		g.valid = append(g.valid, d)
	} else {
		g.valid[g.rnd.IntN(maxKept)] = d
	}
}

func text(o any) string {
	out, err := json.MarshalIndent(o, "", "  ")
	if err != nil {
		panic(err) // it is made of maps and lists
	}
	return string(out)
}

// one takes one of the values.
func one[T any](g *Generator, values ...T) T { return values[g.rnd.IntN(len(values))] }

// maybe sets a member in one of n cases.
func (g *Generator) maybe(n int, o object, name string, value func() any) {
	if g.rnd.IntN(n) == 0 {
		o[name] = value()
	}
}

// mostly takes one of the good values, and in one of thirty cases the bad one.
func mostly[T any](g *Generator, bad T, good ...T) T {
	if g.rnd.IntN(30) == 0 {
		return bad
	}
	return one(g, good...)
}

// duration is one that fits in most places.
func (g *Generator) duration() any {
	return mostly[any](g, one(g, "0s", "1ns", "999h", "365d"), "1s", "5s", "15s", "90s", "5m", "20m", "1h", "1.5s")
}

func (g *Generator) fresh() Document {
	kind := one(g, "local", "local", "aws", "google", "proxmox")
	doc := object{
		"server": g.server(kind), "templates": g.templates(kind),
		"groups": object{"default": g.groups()},
	}
	g.maybe(3, doc, "tenants", func() any { return object{"prod": object{}} })
	g.maybe(4, doc, "certificates", func() any {
		return object{"node": object{"kind": one(g, "client", "server", "peer"), "cn": "{{ .Instance.ID }}", "dns": []any{mostly(g, "x.nstance", "example.com", "{{ .Vars.role }}.example.com")}}}
	})
	return Document{Text: text(doc), How: "fresh", Kind: kind}
}

func (g *Generator) server(kind string) object {
	s := object{
		"cluster_id": "c", "shard": "s", "provider": g.provider(kind),
		"subnet_pools": object{"p": []any{one(g, "net-1", "vmbr0", "subnet-0a1b2c3d")}, "q": []any{"vmbr1"}},
		"secrets":      object{"encryption_key": object{"provider": "file", "source": g.Key}},
	}
	g.maybe(3, s, "request_timeout", g.duration)
	g.maybe(3, s, "health_check_interval", g.duration)
	g.maybe(3, s, "drain_timeout", g.duration)
	g.maybe(6, s, "image_refresh_interval", func() any { return mostly(g, "1s", "1m", "6h", "1d") })
	g.maybe(6, s, "shutdown_timeout", g.duration)
	g.maybe(4, s, "garbage_collection", func() any {
		return object{"interval": g.duration(), "registration_timeout": g.duration()}
	})
	g.maybe(4, s, "expiry", func() any { return object{"eligible_age": mostly(g, "90d", "1h", "30d"), "forced_age": "60d"} })
	for _, lock := range []string{"shard_election", "cluster_election"} {
		g.maybe(2, s, lock, func() any {
			e := object{"leader_timeout": mostly(g, one(g, "2h", "5500ms", "61m", "4s"), "5s", "7s", "15s", "59m", "1h")}
			g.maybe(6, e, "frequent_interval", func() any { return mostly(g, "1h", "100ms", "1s", "1.5s") })
			g.maybe(4, e, "infrequent_interval", g.duration)
			g.maybe(4, e, "peer_interval", func() any { return mostly(g, "7m", "10ms", "100ms", "500ms") })
			g.maybe(8, e, "enabled", func() any { return false })
			return e
		})
	}
	g.maybe(4, s, "rails", func() any {
		return object{"max_unavailable": mostly(g, "101%", "0%", "10%", "100%"), "never_registered_per_hour": mostly(g, 0, 1, 5, 1000)}
	})
	g.maybe(5, s, "error_exit_jitter", func() any { return object{"min_delay": "0s", "max_delay": mostly(g, "2h", "0s", "1s")} })
	g.maybe(6, s, "registration", func() any { return object{"check_source": one(g, true, false)} })
	bind, free := object{}, "127.0.0.1:0"
	for _, name := range []string{"health_addr", "election_addr", "registration_addr", "operator_addr", "agent_addr"} {
		bind[name] = free
	}
	s["bind"], s["advertise"] = bind, bind
	return s
}

func (g *Generator) provider(kind string) object {
	p := object{"kind": kind, "zone": "z", "region": "r"}
	if kind == "local" {
		p["options"] = object{"dir": g.Dir}
	}
	g.maybe(3, p, "limits", func() any {
		return object{one(g, "calls", "instances", "deletes", "reads"): object{"rate": mostly(g, one(g, 0, 1e-300, 1e30), 0.5, 2, 1000), "burst": mostly(g, 0, 1, 5)}}
	})
	return p
}

func (g *Generator) templates(kind string) object {
	all := object{}
	for _, key := range []string{"t", "u"} {
		t := object{
			"kind": "knc", "arch": one(g, "amd64", "arm64"), "instance_type": one[any](g, "small", []any{"small", "large"}), "subnet_pool": one(g, "p", "q"),
			"vars": object{"role": "worker", "n": g.rnd.IntN(10)}, "userdata": object{"content": "#!/bin/sh\n# {{ .Nonce }} {{ .Vars.role }}\n"},
		}
		g.maybe(3, t, "size", func() any { return g.rnd.IntN(4) })
		g.maybe(3, t, "files", func() any {
			return object{
				"motd": object{"kind": "string", "template": mostly(g, "{{ .Vars.missing }}", "hello {{ .Vars.role }}", "{{ .Instance.ID }}")},
				"env":  object{"kind": "env", "template": object{"ROLE": "{{ .Vars.role }}"}},
				"key":  object{"kind": "secret", "source": mostly(g, "a/b", "name", "token.key")},
				"data": object{"kind": "storage", "source": mostly(g, "name", "files/x", "files/{{ .Vars.role }}")},
			}
		})
		if kind != "local" {
			g.maybe(6, t, "args", func() any { return object{"Tags": object{"role": "{{ .Vars.role }}"}} })
		}
		all[key] = t
	}
	return all
}

func (g *Generator) groups() object {
	all := object{}
	for i := range g.rnd.IntN(4) {
		group := object{"template": mostly(g, "v", "t", "u"), "size": g.rnd.IntN(4)}
		g.maybe(4, group, "drain_timeout", g.duration)
		g.maybe(4, group, "vars", func() any { return object{"role": mostly(g, "../x", "a", "b")} })
		g.maybe(4, group, "instance_type", func() any { return "large" })
		all[fmt.Sprintf("g%d", i)] = group
	}
	return all
}

// place is one value in a document.
type place struct {
	in  object
	key string
}

// places are all members of all objects, in an order that depends on the text alone.
func places(v any) (all []place) {
	switch v := v.(type) {
	case object:
		for _, key := range sortedKeys(v) {
			all = append(append(all, place{v, key}), places(v[key])...)
		}
	case []any:
		for _, e := range v {
			all = append(all, places(e)...)
		}
	}
	return all
}

// mutation changes one member.
type mutation struct {
	name   string
	change func(g *Generator, at place, all []place)
}

var mutations = []mutation{
	{"take out", func(_ *Generator, at place, _ []place) { delete(at.in, at.key) }},
	{"null", func(_ *Generator, at place, _ []place) { at.in[at.key] = nil }},
	{"rename", func(g *Generator, at place, _ []place) {
		at.in[at.key+one(g, "s", "-x", "_", "é")] = at.in[at.key]
		delete(at.in, at.key)
	}},
	{"add unknown", func(g *Generator, at place, _ []place) { at.in[one(g, "x-note", "colour", "$schema")] = "x" }},
	{"other kind", func(g *Generator, at place, _ []place) {
		at.in[at.key] = one[any](g, "", "text", true, 0, 7, -1, []any{}, object{}, []any{"x"})
	}},
	{"value of another", func(g *Generator, at place, all []place) {
		from := all[g.rnd.IntN(len(all))]
		at.in[at.key] = clone(from.in[from.key])
	}},
	{"move a number", func(g *Generator, at place, all []place) {
		at = ofType[float64](g, at, all)
		if n, ok := at.in[at.key].(float64); ok {
			at.in[at.key] = one(g, n+1, n-1, -n, n*1000, n/3, 1e30)
		}
	}},
	{"move a time", func(g *Generator, at place, all []place) {
		for range 20 {
			if s, ok := at.in[at.key].(string); ok && strings.Trim(s, "0123456789.smhd") == "" && s != "" {
				at.in[at.key] = g.duration()
				return
			}
			at = all[g.rnd.IntN(len(all))]
		}
	}},
	{"odd text", func(g *Generator, at place, all []place) {
		at = ofType[string](g, at, all)
		if s, ok := at.in[at.key].(string); ok {
			at.in[at.key] = one(g, s+"\x01", s+" ", strings.ToUpper(s), s+"{{", "{{ .Vars.role }}", "../"+s, strings.Repeat(s, 40))
		}
	}},
	{"another group", func(g *Generator, at place, all []place) {
		for _, p := range all {
			if p.key == "groups" {
				if groups, ok := p.in[p.key].(object); ok {
					groups[one(g, "default", "prod", "nobody")] = object{"more": object{"template": one(g, "t", "u"), "size": g.rnd.IntN(4)}}
				}
			}
		}
	}},
	{"another size", func(g *Generator, at place, all []place) {
		for range 50 {
			if at.key == "size" {
				at.in[at.key] = g.rnd.IntN(6)
				return
			}
			at = all[g.rnd.IntN(len(all))]
		}
	}},
}

// ofType looks for a place whose value has a type.
func ofType[T any](g *Generator, at place, all []place) place {
	for range 50 {
		if _, ok := at.in[at.key].(T); ok {
			return at
		}
		at = all[g.rnd.IntN(len(all))]
	}
	return at
}

func (g *Generator) mutate(d Document) Document {
	var doc object
	if err := json.Unmarshal([]byte(d.Text), &doc); err != nil {
		panic(err) // it was made by text
	}
	all := places(doc)
	m := mutations[g.rnd.IntN(len(mutations))]
	m.change(g, all[g.rnd.IntN(len(all))], all)
	return Document{Text: text(doc), How: m.name, Kind: d.Kind}
}
