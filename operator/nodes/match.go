package nodes

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// Node is what a Node says of itself.
type Node struct {
	Name       string
	ProviderID string
	// InstanceLabel is the instance id in its label; empty: it has none.
	InstanceLabel string
	// InternalIPs are its addresses of that type.
	InternalIPs []string
}

// Instance is what a server says of an instance.
type Instance struct {
	ID string
	// ProviderURI is the provider id of its machine; empty until that is known.
	ProviderURI string
	Hostname    string
	Addresses   []string
}

// How says by what a Node was recognised.
type How string

// The ways, the surest first.
const (
	ByProviderID How = "provider id"
	ByTail       How = "tail of the provider id"
	ByLabel      How = "instance label and address"
	ByName       How = "host name and address"
)

// Found is the answer of Match.
type Found struct {
	// Node is the name of the instance's Node; empty: none is known.
	Node string
	How  How
	// SetProviderID: the Node has no provider id, and is to be given the instance's.
	SetProviderID bool
	// Mismatch: a Node says that it is this instance's, and its provider id is another
	// machine's. Users should know of it.
	Mismatch bool
	// Claims is the name of that Node.
	Claims string
	// Why says why there is no Node, where one seemed to fit; empty otherwise.
	Why string
}

// Index finds Nodes by what they say of themselves.
type Index struct {
	byID, byTail, byLabel, byName, byAddress map[string][]Node
}

// NewIndex returns an index of the Nodes.
func NewIndex(all []Node) *Index {
	x := &Index{map[string][]Node{}, map[string][]Node{}, map[string][]Node{}, map[string][]Node{}, map[string][]Node{}}
	for _, n := range slices.SortedFunc(slices.Values(all), func(a, b Node) int { return cmp.Compare(a.Name, b.Name) }) {
		add(x.byID, n.ProviderID, n)
		add(x.byTail, Tail(n.ProviderID), n)
		add(x.byLabel, n.InstanceLabel, n)
		add(x.byName, n.Name, n)
		for _, ip := range n.InternalIPs {
			add(x.byAddress, Address(ip), n)
		}
	}
	return x
}

func add(to map[string][]Node, key string, n Node) {
	if key != "" {
		to[key] = append(to[key], n)
	}
}

// Match returns the Node of an instance: the one with its provider id; else the one whose
// provider id ends alike; else the one that carries its id or its host name and has one
// of its addresses.
func (x *Index) Match(in Instance) Found {
	if in.ProviderURI != "" {
		if f, ok := one(x.byID[in.ProviderURI], ByProviderID); ok {
			return f
		}
		if f, ok := one(x.alike(in.ProviderURI), ByTail); ok {
			return f
		}
	}
	var doubt Found
	for _, say := range []struct {
		nodes []Node
		how   How
	}{{x.byLabel[in.ID], ByLabel}, {x.byName[in.Hostname], ByName}} {
		f, ok := own(say.nodes, say.how, in)
		if ok {
			return f
		}
		doubt = cmp.Or(doubt, f)
	}
	return doubt
}

// alike returns the Nodes whose provider id means the same machine.
func (x *Index) alike(uri string) []Node {
	id, ok := ParseProviderID(uri)
	if !ok {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(x.byTail[id.Tail]), func(n Node) bool {
		other, ok := ParseProviderID(n.ProviderID)
		return !ok || !Same(id, other)
	})
}

// one returns the only Node of a list; false for an empty one.
func one(fit []Node, how How) (Found, bool) {
	switch len(fit) {
	case 0:
		return Found{}, false
	case 1:
		return Found{Node: fit[0].Name, How: how}, true
	default:
		return Found{Why: fmt.Sprintf("%s of more than one node: %s", how, names(fit))}, true
	}
}

// own looks at Nodes that say of themselves that they are the instance's. It returns true
// where that settles the matter, else what speaks against it.
func own(say []Node, how How, in Instance) (Found, bool) {
	if len(say) == 0 {
		return Found{}, false
	}
	fit := slices.DeleteFunc(slices.Clone(say), func(n Node) bool { return !share(n.InternalIPs, in.Addresses) })
	if len(fit) == 0 {
		return Found{Why: fmt.Sprintf("%s has none of the addresses %s, which the server knows", names(say), strings.Join(in.Addresses, ", "))}, false
	}
	f, _ := one(fit, how)
	if f.Node == "" {
		return f, true
	}
	switch id := fit[0].ProviderID; {
	case id != "" && in.ProviderURI != "":
		return Found{Mismatch: true, Claims: f.Node, Why: fmt.Sprintf("%s has the provider id %s, not %s", f.Node, id, in.ProviderURI)}, true
	case id == "" && in.ProviderURI != "":
		f.SetProviderID = true
	}
	return f, true
}

// Candidate is a Node that may be an instance's, though Match does not recognise it.
type Candidate struct {
	Node string
	// HasAddress: one of its internal addresses is the instance's.
	HasAddress bool
}

// Candidates returns the Nodes that have anything in common with an instance, by name:
// its provider id or the tail of it, its id in their label, its host name, or one of its
// addresses. An address alone ties only a Node without a provider id: networks of several
// shards may overlap, and an address is used again.
func (x *Index) Candidates(in Instance) []Candidate {
	found := map[string]Candidate{}
	note := func(fit []Node) {
		for _, n := range fit {
			found[n.Name] = Candidate{n.Name, share(n.InternalIPs, in.Addresses)}
		}
	}
	if in.ProviderURI != "" {
		note(x.byID[in.ProviderURI])
		note(x.alike(in.ProviderURI))
	}
	note(x.byLabel[in.ID])
	note(x.byName[in.Hostname])
	for _, address := range in.Addresses {
		note(slices.DeleteFunc(slices.Clone(x.byAddress[Address(address)]), func(n Node) bool { return n.ProviderID != "" }))
	}
	return slices.SortedFunc(maps.Values(found), func(a, b Candidate) int { return cmp.Compare(a.Node, b.Node) })
}

// Address returns the one way of writing an IP address by which two are compared; empty
// for what is none.
func Address(s string) string {
	ip, err := netip.ParseAddr(s)
	if err != nil {
		return ""
	}
	return ip.Unmap().String()
}

// share reports whether two lists have an address in common, however it is written.
func share(a, b []string) bool {
	return slices.ContainsFunc(a, func(one string) bool {
		ip := Address(one)
		return ip != "" && slices.ContainsFunc(b, func(other string) bool { return ip == Address(other) })
	})
}

func names(nodes []Node) string {
	var all []string
	for _, n := range nodes {
		all = append(all, n.Name)
	}
	return strings.Join(all, ", ")
}
