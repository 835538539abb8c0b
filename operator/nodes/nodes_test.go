package nodes

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseProviderID(t *testing.T) {
	for s, want := range map[string]ProviderID{
		"aws:///us-west-2a/i-0123": {"aws", "/us-west-2a", "i-0123"},
		"aws:///i-0123":            {"aws", "", "i-0123"},
		"gce://p/us-central1-a/n":  {"gce", "p/us-central1-a", "n"},
		"proxmox://east/100":       {"proxmox", "east", "100"},
		"nstance://a/knd01":        {"nstance", "a", "knd01"},
		"kind://node":              {"kind", "", "node"},
		"a://b://c":                {"a", "b:/", "c"},
	} {
		if got, ok := ParseProviderID(s); got != want || !ok {
			t.Errorf("%q: %+v, %t", s, got, ok)
		}
	}
	for _, s := range []string{"", "i-0123", "://x", "aws://", "aws:///zone/", "a/b://c", "a:b://c"} {
		if got, ok := ParseProviderID(s); ok {
			t.Errorf("%q: %+v", s, got)
		}
	}
}

func TestSame(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"aws:///us-west-2a/i-1", "aws:///us-west-2a/i-1", true},
		{"aws:///us-west-2a/i-1", "aws:///i-1", true},
		{"aws:///us-west-2a/i-1", "aws:///us-west-2a/i-2", false},
		{"aws:///us-west-2a/i-1", "gce:///us-west-2a/i-1", false},
		{"gce://p/z/n", "gce:///z/n", true},
		{"proxmox://east/100", "proxmox://east/100", true},
		{"proxmox://east/100", "proxmox:///100", true},
		{"proxmox://east/100", "proxmox://west/100", false},
	} {
		a, _ := ParseProviderID(tt.a)
		b, _ := ParseProviderID(tt.b)
		if Same(a, b) != tt.want || Same(b, a) != tt.want {
			t.Errorf("%s and %s: %t", tt.a, tt.b, !tt.want)
		}
	}
}

func TestO13_Match(t *testing.T) {
	in := Instance{ID: "knd01", ProviderURI: "aws:///us-west-2a/i-1", Hostname: "host1", Addresses: []string{"10.0.0.1", "fd00::1"}}
	with := func(change func(*Instance)) Instance { i := in; change(&i); return i }
	says := func(n Node) Node { n.InstanceLabel = "knd01"; return n }
	for _, tt := range []struct {
		name     string
		instance Instance
		nodes    []Node
		want     Found
	}{
		{"no node", in, nil, Found{}},
		{"nothing in common", in, []Node{{Name: "n", ProviderID: "aws:///us-west-2a/i-2", InternalIPs: []string{"10.0.0.1"}}}, Found{}},
		{"aws", in, []Node{{Name: "n", ProviderID: "aws:///us-west-2a/i-1"}}, Found{Node: "n", How: ByProviderID}},
		{"aws without a zone", in, []Node{{Name: "n", ProviderID: "aws:///i-1"}}, Found{Node: "n", How: ByTail}},
		{
			"gce", Instance{ID: "knd01", ProviderURI: "gce://p/z/knd01"}, []Node{{Name: "n", ProviderID: "gce://p/z/knd01"}},
			Found{Node: "n", How: ByProviderID},
		},
		{
			"proxmox of another region", Instance{ID: "knd01", ProviderURI: "proxmox://east/100"},
			[]Node{{Name: "n", ProviderID: "proxmox://west/100"}}, Found{},
		},
		{
			"nstance", Instance{ID: "knd01", ProviderURI: "nstance://a/knd01"}, []Node{{Name: "n", ProviderID: "nstance://a/knd01"}},
			Found{Node: "n", How: ByProviderID},
		},
		{
			"the exact one before the one that ends alike", in,
			[]Node{{Name: "a", ProviderID: "aws:///i-1"}, {Name: "b", ProviderID: "aws:///us-west-2a/i-1"}}, Found{Node: "b", How: ByProviderID},
		},
		{
			"two with the same provider id", in,
			[]Node{{Name: "b", ProviderID: "aws:///us-west-2a/i-1"}, {Name: "a", ProviderID: "aws:///us-west-2a/i-1"}},
			Found{Why: "provider id of more than one node: a, b"},
		},
		{
			"two that end alike", in, []Node{{Name: "a", ProviderID: "aws:///x/i-1"}, {Name: "b", ProviderID: "aws:///i-1"}},
			Found{Why: "tail of the provider id of more than one node: a, b"},
		},
		{
			"the label and an address", in, []Node{says(Node{Name: "n", InternalIPs: []string{"192.168.0.1", "10.0.0.1"}})},
			Found{Node: "n", How: ByLabel, SetProviderID: true},
		},
		{
			"the label and an address in another spelling", in, []Node{says(Node{Name: "n", InternalIPs: []string{"fd00:0::0001"}})},
			Found{Node: "n", How: ByLabel, SetProviderID: true},
		},
		{
			"a label that lies", in, []Node{says(Node{Name: "n", InternalIPs: []string{"10.0.0.2", "x"}})},
			Found{Why: "n has none of the addresses 10.0.0.1, fd00::1, which the server knows"},
		},
		{
			"a label, and the server knows no address", with(func(i *Instance) { i.Addresses = nil }),
			[]Node{says(Node{Name: "n", InternalIPs: []string{"10.0.0.1"}})},
			Found{Why: "n has none of the addresses , which the server knows"},
		},
		{
			"of two labels the one with the address", in,
			[]Node{says(Node{Name: "a", InternalIPs: []string{"10.0.0.2"}}), says(Node{Name: "b", InternalIPs: []string{"10.0.0.1"}})},
			Found{Node: "b", How: ByLabel, SetProviderID: true},
		},
		{
			"two labels with the address", in,
			[]Node{says(Node{Name: "a", InternalIPs: []string{"10.0.0.1"}}), says(Node{Name: "b", InternalIPs: []string{"10.0.0.1"}})},
			Found{Why: "instance label and address of more than one node: a, b"},
		},
		{
			"the label and an address of a node with another provider id", in,
			[]Node{says(Node{Name: "n", ProviderID: "aws:///us-west-2a/i-2", InternalIPs: []string{"10.0.0.1"}})},
			Found{Mismatch: true, Claims: "n", Why: "n has the provider id aws:///us-west-2a/i-2, not aws:///us-west-2a/i-1"},
		},
		{
			"the provider's id is not known yet", with(func(i *Instance) { i.ProviderURI = "" }),
			[]Node{says(Node{Name: "n", ProviderID: "aws:///us-west-2a/i-1", InternalIPs: []string{"10.0.0.1"}})},
			Found{Node: "n", How: ByLabel},
		},
		{
			"the name and an address", in, []Node{{Name: "host1", InternalIPs: []string{"10.0.0.1"}}},
			Found{Node: "host1", How: ByName, SetProviderID: true},
		},
		{
			"the name alone", in, []Node{{Name: "host1", InternalIPs: []string{"10.0.0.9"}}},
			Found{Why: "host1 has none of the addresses 10.0.0.1, fd00::1, which the server knows"},
		},
		{
			"a label that lies, and the right name", in,
			[]Node{says(Node{Name: "liar", InternalIPs: []string{"10.0.0.9"}}), {Name: "host1", InternalIPs: []string{"10.0.0.1"}}},
			Found{Node: "host1", How: ByName, SetProviderID: true},
		},
		{
			"a server that knows nothing matches nothing", Instance{ID: "knd01"}, []Node{{}, {Name: "n"}}, Found{},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, NewIndex(tt.nodes).Match(tt.instance)); diff != "" {
				t.Error(diff)
			}
			slices.Reverse(tt.nodes)
			if diff := cmp.Diff(tt.want, NewIndex(tt.nodes).Match(tt.instance)); diff != "" {
				t.Errorf("in another order: %s", diff)
			}
		})
	}
}

// Whatever a Node says of itself, it is taken for an instance only by a provider id that
// means the same machine, or by an address of the instance.
func FuzzMatch(f *testing.F) {
	f.Add("aws:///us-west-2a/i-1", "knd01", "10.0.0.1", "host1", "aws:///i-1", "knd01", "10.0.0.1")
	f.Add("proxmox://east/100", "knd01", "10.0.0.1", "", "proxmox://west/100", "knd01", "::ffff:10.0.0.1")
	f.Add("", "", "", "", "", "", "")
	f.Fuzz(func(t *testing.T, nodeID, label, nodeIP, name, uri, id, ip string) {
		found := NewIndex([]Node{{name, nodeID, label, []string{nodeIP}}}).Match(Instance{id, uri, name, []string{ip}})
		if found.Node == "" {
			return
		}
		a, okA := ParseProviderID(nodeID)
		b, okB := ParseProviderID(uri)
		same := nodeID == uri && uri != "" || okA && okB && Same(a, b)
		if !same && (!share([]string{nodeIP}, []string{ip}) || nodeID != "" && uri != "") {
			t.Fatalf("%+v", found)
		}
		if found.SetProviderID && (nodeID != "" || uri == "") {
			t.Fatalf("%q is to replace %q", uri, nodeID)
		}
	})
}

func FuzzParseProviderID(f *testing.F) {
	for _, seed := range []string{"aws:///us-west-2a/i-1", "gce://p/z/n", "a://b", "://", "x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		id, ok := ParseProviderID(s)
		if !ok {
			return
		}
		if id.Tail != Tail(s) && strings.Contains(strings.TrimPrefix(s, id.Scheme+"://"), "/") {
			t.Fatalf("%q ends in %q and in %q", s, id.Tail, Tail(s))
		}
		if !strings.HasPrefix(s, id.Scheme+"://"+id.Location) || !strings.HasSuffix(s, id.Tail) || !Same(id, id) {
			t.Fatalf("%q is not made of %+v", s, id)
		}
	})
}
