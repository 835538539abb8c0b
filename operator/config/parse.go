package config

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"nstance.dev/protos/identity"
)

// Names of the two sources in problems, and the key under which a ConfigMap may hold the
// shards as they stand in the file.
const (
	fileSource      = "configuration file"
	configMapSource = "shards ConfigMap"
	shardsKey       = "shards.yaml"
)

// Sources are the texts that a configuration is made of.
type Sources struct {
	// File is the content of the configuration file, YAML.
	File []byte
	// Shards is the data of the ConfigMap that lists the shards; nil: there is none. It
	// replaces `shards` of the file, and holds either the key `shards.yaml` with such a
	// mapping, or one key for each shard whose value is the operator address.
	Shards map[string]string
}

// Parse reads a configuration. The error is an [*InvalidError].
func Parse(src Sources) (Config, error) {
	r := &reader{source: fileSource}
	c := Config{Tenant: identity.DefaultTenant, Import: Import{Enabled: true, Pools: Aggregate}}
	var shards *entry
	readable, named := false, false // a text that is no mapping lacks more than its keys
	if top := r.document(src.File); top != nil {
		readable = target(top).Kind == yaml.MappingNode
		r.fields(top, "", map[string]func(entry){
			"cluster_id": func(e entry) { c.ClusterID, named = r.name(e), true },
			"tenant":     func(e entry) { c.Tenant = r.name(e) },
			"shards":     func(e entry) { shards = &e },
			"import":     func(e entry) { c.Import = r.imports(e) },
		})
	}
	if readable && !named {
		r.note(nil, "cluster_id", "it is missing; it is the id in the servers' configuration")
	}
	switch {
	case src.Shards != nil:
		r.source = configMapSource
		c.Shards = r.configMap(src.Shards)
	case shards != nil:
		c.Shards = r.shards(shards.value, "shards")
	case readable:
		r.note(nil, "shards", "it is missing; list at least one shard")
	}
	if len(r.problems) > 0 {
		return Config{}, &InvalidError{r.problems}
	}
	return c, nil
}

// name reads an identifier.
func (r *reader) name(e entry) string {
	before := len(r.problems)
	name := r.text(e)
	if len(r.problems) == before {
		if err := identity.ValidateName(name); err != nil {
			r.note(e.value, e.path, "%v", err)
		}
	}
	return name
}

// label reads the value of a label of Nodes.
func (r *reader) label(e entry) string {
	value := r.text(e)
	if err := labelValue(value); err != nil {
		r.note(e.value, e.path, "%v", err)
	}
	return value
}

func (r *reader) imports(e entry) Import {
	out := Import{Enabled: true, Pools: Aggregate}
	r.fields(e.value, e.path, map[string]func(entry){
		"enabled": func(e entry) { out.Enabled = r.truth(e) },
		"pools": func(e entry) {
			out.Pools = PoolShape(r.text(e))
			if out.Pools != Aggregate && out.Pools != PerShard {
				r.note(e.value, e.path, "%q is neither %q nor %q", out.Pools, Aggregate, PerShard)
			}
		},
		"exclude": func(e entry) {
			for _, item := range r.list(e) {
				out.Exclude = append(out.Exclude, r.name(item))
			}
		},
	})
	return out
}

// configMap reads the shards from the data of a ConfigMap.
func (r *reader) configMap(data map[string]string) []Shard {
	if text, ok := data[shardsKey]; ok {
		if len(data) > 1 {
			r.note(nil, shardsKey, "the other keys beside it would be overlooked; remove them or this one")
		}
		r.source += " " + shardsKey
		if top := r.document([]byte(text)); top != nil {
			return r.shards(top, "")
		}
		return nil
	}
	var out []Shard
	seen := addressBook{}
	for _, name := range slices.Sorted(maps.Keys(data)) {
		if err := identity.ValidateName(name); err != nil {
			r.note(nil, name, "%v", err)
		}
		out = append(out, r.shard(name, address{path: name, text: data[name]}, address{}, seen))
	}
	if len(out) == 0 {
		r.note(nil, "", "it is empty; list at least one shard")
	}
	return out
}

// shards reads a mapping of names to addresses.
func (r *reader) shards(n *yaml.Node, path string) []Shard {
	before := len(r.problems)
	var out []Shard
	seen := addressBook{}
	for _, e := range r.mapping(n, path) {
		if err := identity.ValidateName(e.key); err != nil {
			r.note(e.value, e.path, "%v", err)
		}
		operator := address{node: e.value, path: e.path + ".operator_addr"}
		var registration address
		var zone, region string
		r.fields(e.value, e.path, map[string]func(entry){
			"zone":              func(e entry) { zone = r.label(e) },
			"region":            func(e entry) { region = r.label(e) },
			"operator_addr":     func(e entry) { operator = address{e.value, e.path, r.text(e)} },
			"registration_addr": func(e entry) { registration = address{e.value, e.path, r.text(e)} },
		})
		shard := r.shard(e.key, operator, registration, seen)
		shard.Zone, shard.Region = zone, region
		out = append(out, shard)
	}
	if len(out) == 0 && len(r.problems) == before {
		r.note(n, path, "it is empty; list at least one shard")
	}
	return out
}

// address is a list of addresses as it was written, and where.
type address struct {
	node *yaml.Node
	path string
	text string
}

// addressBook knows where each address was written.
type addressBook map[string]string

// shard makes a shard of its addresses. An address may stand once for each service:
// two shards behind one address cannot both be right.
func (r *reader) shard(name string, operator, registration address, seen addressBook) Shard {
	s := Shard{Name: name, Operator: r.addresses(operator)}
	r.unique(seen, "operator", operator, s.Operator)
	if registration.text != "" {
		s.Registration = r.addresses(registration)
		r.unique(seen, "registration", registration, s.Registration)
		return s
	}
	for _, addr := range s.Operator {
		host, _, err := net.SplitHostPort(addr)
		if beside := net.JoinHostPort(host, DefaultRegistrationPort); err == nil && !slices.Contains(s.Registration, beside) {
			s.Registration = append(s.Registration, beside)
		}
	}
	return s
}

// addresses splits a list with commas and checks each of them.
func (r *reader) addresses(a address) []string {
	if a.text == "" {
		r.note(a.node, a.path, "the address is missing; write host:port, such as 10.0.0.1:8993")
		return nil
	}
	var out []string
	for item := range strings.SplitSeq(a.text, ",") {
		item = strings.TrimSpace(item)
		if err := CheckAddress(item); err != nil {
			r.note(a.node, a.path, "%v", err)
			continue
		}
		out = append(out, item)
	}
	return out
}

func (r *reader) unique(seen addressBook, service string, a address, addrs []string) {
	for _, addr := range addrs {
		key := service + " " + addr
		if where, ok := seen[key]; ok {
			r.note(a.node, a.path, "address %s is there already, in %s; each shard has servers of its own", addr, where)
			continue
		}
		seen[key] = a.path
	}
}

// CheckAddress returns what is wrong with an address, which must be host:port with a host
// name or an IP address, IPv6 in brackets, and a port from 1 to 65535.
func CheckAddress(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || host == "" {
		return fmt.Errorf("address %.100q is not host:port, such as 10.0.0.1:8993 or [2001:db8::1]:8993", addr)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("address %.100q: its port is not a number from 1 to 65535", addr)
	}
	if strings.ContainsFunc(host, notHostRune) {
		return fmt.Errorf("address %.100q: its host is neither a name nor an IP address", addr)
	}
	return nil
}

func notHostRune(r rune) bool {
	return r <= ' ' || r > '~' || strings.ContainsRune("/@?#\\\"'<>", r)
}
