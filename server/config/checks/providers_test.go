package checks_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"nstance.dev/server/config"
	"nstance.dev/server/config/configtest"
	"nstance.dev/server/driver"
)

// TestF50_LoadBalancersOfAnyProvider: every server knows which members there are, and of
// which types, and what they mean its own provider's rules say.
func TestF50_LoadBalancersOfAnyProvider(t *testing.T) {
	asked := 0
	rules := &driver.Rules{Kind: "aws", CheckLoadBalancer: func(args map[string]any) []driver.Finding {
		asked++
		if args["target_group_arns"] == nil {
			return []driver.Finding{{Message: "is odd", Remedy: "mend it"}, {Path: []any{"target_groups", 0, "target_port"}, Message: "is high", Remedy: "lower it"}}
		}
		return nil
	}}
	for _, tt := range []struct{ balancer, want string }{
		{`{ "provider": "aws", "target_group_arns": ["a"] }`, ""},
		{`{ "provider": "aws", "target_groups": [{ "target_port": 7 }] }`, `load_balancers.b: is odd; mend it`},
		{`{ "provider": "aws", "target_groups": [{ "target_port": 7 }] }`, `f:3:82: load_balancers.b.target_groups[0].target_port: is high; lower it`},
		{`{ "provider": "aws", "target_groups": [{ "target_prot": 7 }] }`, `unknown key; did you mean "target_port"?`},
		{`{ "provider": "aws", "target_group_arn": [] }`, `unknown key; did you mean "target_group_arns"?`},
		{`{ "provider": "aws", "zzzzzzzzzzzzz": [] }`, `known here: provider, target_group_arns, target_groups, instance_group_name, network_endpoint_groups, frontends, tenants`},
		{`{ "provider": "aws", "frontends": [] }`, `load_balancers.b.frontends: has no meaning with provider aws; take it out`},
		{`{ "provider": "google", "network_endpoint_groups": ["a"] }`, ""},
		{`{ "provider": "gcp", "instance_group_name": 7 }`, `load_balancers.b.instance_group_name: expected a string, found a number`},
		{`{ "provider": "google", "target_groups": [] }`, `load_balancers.b.target_groups: has no meaning with provider google; take it out`},
		{`{ "provider": "proxmox" }`, `load_balancers.b.provider: "proxmox" is not known; known are aws, google, local`},
		{`{ }`, `load_balancers.b.provider: required; aws, google or local`},
	} {
		text := "{\n" + `"server": { "cluster_id": "c", "shard": "s", "provider": { "kind": "aws", "zone": "z" }, "subnet_pools": { "p": ["n"] } },` +
			"\n" + `"load_balancers": { "b": ` + tt.balancer + " } }"
		_, err := config.Load("f", []byte(text), config.LoadOptions{Rules: rules})
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.balancer, err, tt.want)
		}
	}
	if asked != 7 {
		t.Errorf("the rules were asked %d times, want 7: about each of their own provider's", asked)
	}
}

// What a document says of a provider's own is kept as it stands.
func TestArgsOfLoadBalancersAndLeaderNetwork(t *testing.T) {
	cfg, err := config.Load("f", []byte(shop), config.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	groups, _ := cfg.LoadBalancers["www"].Args["target_groups"].([]any)
	if len(groups) != 1 || groups[0].(map[string]any)["arn"] != "arn:1" || cfg.LoadBalancers["neg"].Args["instance_group_name"] != "g" {
		t.Errorf("load balancers: %+v", cfg.LoadBalancers)
	}
	if n := cfg.Server.LeaderNetwork; n.IP != "10.0.0.9" || n.Args["interface_id"] != "eni-1" {
		t.Errorf("leader network: %+v", n)
	}
}

// A provider that cannot move an address says so, one that can has its own say.
func TestF50_LeaderNetworkOfAnyProvider(t *testing.T) {
	for kind, want := range map[string]string{
		"aws": "", "google": "", "local": "server.leader_network: not supported on local; leave it out",
		"proxmox": "server.leader_network: not supported on proxmox; leave it out",
	} {
		text := `{ "server": { "cluster_id": "c", "shard": "s", "provider": { "kind": "` + kind + `", "zone": "z" }, "subnet_pools": { "p": ["n"] },
			"leader_network": { "ip": "10.0.0.9" } } }`
		_, err := config.Load("f", []byte(text), config.LoadOptions{})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", kind, err, want)
		}
	}
}

// TestF50_ReservedMembersAreSaid: a member whose meaning is to come loads, with a warning at
// its place.
func TestF50_ReservedMembersAreSaid(t *testing.T) {
	text := strings.Replace(configtest.Minimal, `"server"`, `"load_balancers": { "b": { "provider": "aws", "target_groups": [{ "arn": "a", "proxy_port": 1 }] } }, "server"`, 1)
	aws := &driver.Rules{Kind: "aws", CheckLoadBalancer: func(map[string]any) []driver.Finding {
		return []driver.Finding{
			{Path: []any{"target_groups", 0, "proxy_port"}, Reserved: true},
			{Path: []any{"target_groups", 0, "listener_port"}, Reserved: true}, // is not there
		}
	}}
	cfg, err := config.Load("f", []byte(text), config.LoadOptions{Providers: []*driver.Rules{aws}})
	if err != nil {
		t.Fatal(err)
	}
	const want = "load_balancers.b.target_groups[0].proxy_port: reserved: no effect before tenant sleep; take it out until then"
	var said []string
	for _, w := range cfg.Warnings {
		if w.Path != "server.secrets" {
			said = append(said, fmt.Sprintf("%s: %s; %s", w.Path, w.Message, w.Remedy))
		}
		if w.Line == 0 {
			t.Errorf("no place: %v", w)
		}
	}
	if !slices.Equal(said, []string{want}) {
		t.Errorf("%q\nwant %q", said, want)
	}
}
