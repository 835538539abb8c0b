package serve

import (
	"net"
	"testing"

	"nstance.dev/server/config"
	"nstance.dev/server/config/document"
)

func TestAdvertise(t *testing.T) {
	for _, tt := range []struct {
		name, bind, configured, actual, leader, want string
	}{
		{"the bound address, if nothing else is said", "10.0.0.1:8993", ":8993", "10.0.0.1:8993", "", "10.0.0.1:8993"},
		{"the port that was free, where the bound one was taken", "127.0.0.1:8993", "127.0.0.1:8993", "127.0.0.1:40001", "", "127.0.0.1:40001"},
		{"the configured port, where it differs from the bound one", "10.0.0.1:8993", "10.0.0.1:443", "10.0.0.1:8993", "", "10.0.0.1:443"},
		{"the leader's address beats the bound one", "0.0.0.0:8993", ":8993", "0.0.0.0:8993", "10.0.0.100", "10.0.0.100:8993"},
		{"the configured host beats the leader's", "0.0.0.0:8993", "shard.example.com:8993", "0.0.0.0:8993", "10.0.0.100", "shard.example.com:8993"},
		{"an unspecified IPv6 host counts as none", "[::1]:8993", "[::]:8993", "[::1]:8993", "", "[::1]:8993"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			actual, err := net.ResolveTCPAddr("tcp", tt.actual)
			if err != nil {
				t.Fatal(err)
			}
			got, err := advertise(tt.bind, tt.configured, actual, tt.leader)
			if err != nil || got != tt.want {
				t.Errorf("advertise() = %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

func loopback() document.Server {
	addr := "127.0.0.1:0"
	a := document.Addresses{Health: addr, Election: addr, Registration: addr, Operator: addr, Agent: addr}
	b := document.Bind{Health: addr, Election: addr, Registration: addr, Operator: addr, Agent: addr, Metrics: addr}
	return document.Server{Bind: b, Advertise: a}
}

func TestListen_takesAFreePortWhereAllowed(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	s := loopback()
	s.Bind.Operator, s.Advertise.Operator = taken.Addr().String(), taken.Addr().String()

	if _, err := listen(t.Context(), s, "", false); err == nil {
		t.Error("a taken port was no error")
	}
	ls, err := listen(t.Context(), s, "", true)
	if err != nil {
		t.Fatal(err)
	}
	defer ls.close()
	if got := ls.advertised.Operator; got != ls.operator.Addr().String() || got == taken.Addr().String() {
		t.Errorf("operators are told %s, the socket is at %s, taken was %s", got, ls.operator.Addr(), taken.Addr())
	}
}

func TestListen_overridesTheHostOfTheServersOwnAddresses(t *testing.T) {
	ls, err := listen(t.Context(), loopback(), "10.1.2.3", false)
	if err != nil {
		t.Fatal(err)
	}
	defer ls.close()
	host, _, _ := net.SplitHostPort(ls.advertised.Health)
	agent, _, _ := net.SplitHostPort(ls.advertised.Agent)
	election, _, _ := net.SplitHostPort(ls.peers)
	if host != "10.1.2.3" || election != "10.1.2.3" || agent != "127.0.0.1" {
		t.Errorf("health is advertised at %s, elections at %s, agents at %s", host, election, agent)
	}
}

func TestBoundTo(t *testing.T) {
	for host, want := range map[string]string{"": "127.0.0.1:0", "127.0.1.2": "127.0.1.2:0", "::1": "[::1]:0"} {
		got := boundTo(loopback(), host)
		if all := (document.Bind{Health: want, Election: want, Registration: want, Operator: want, Agent: want, Metrics: want}); got.Bind != all {
			t.Errorf("host %q: bound to %+v, want %s", host, got.Bind, want)
		}
		if got.Advertise != loopback().Advertise {
			t.Errorf("host %q: advertised %+v", host, got.Advertise)
		}
	}
}

// TestMetricsHaveAnAddressOfTheirOwn: they name all tenants and groups, so that the port of the
// probes, which machines reach, does not serve them unless it is told to.
func TestMetricsHaveAnAddressOfTheirOwn(t *testing.T) {
	cfg, err := config.Load("min.jsonc", []byte(`{"server": {"cluster_id": "c", "shard": "s", "provider": {"kind": "local", "zone": "z"}, "subnet_pools": {"p": ["n"]}}}`), config.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if host, _, err := net.SplitHostPort(cfg.Server.Bind.Metrics); err != nil || host != "127.0.0.1" {
		t.Errorf("by default metrics are served on %q", cfg.Server.Bind.Metrics)
	}
	for name, tt := range map[string]struct {
		health, metrics, host string
		want                  string // where metrics are bound to
	}{
		"another server of one box":        {"0.0.0.0:8990", "127.0.0.1:8995", "127.0.0.2", "127.0.0.2:8995"},
		"a server with an address":         {"0.0.0.0:8990", "127.0.0.1:8995", "10.0.0.1", "127.0.0.1:8995"},
		"both on one port":                 {"0.0.0.0:8990", "0.0.0.0:8990", "10.0.0.1", "10.0.0.1:8990"},
		"none":                             {"0.0.0.0:8990", "", "127.0.0.2", ""},
		"a server without another address": {"0.0.0.0:8990", "127.0.0.1:8995", "", "127.0.0.1:8995"},
	} {
		s := loopback()
		s.Bind.Health, s.Bind.Metrics = tt.health, tt.metrics
		if got := boundTo(s, tt.host).Bind.Metrics; got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
	for metrics, own := range map[string]bool{"127.0.0.1:0": false, "127.0.0.2:0": true, "": false} { // health is 127.0.0.1:0
		s := loopback()
		s.Bind.Metrics = metrics
		ls, err := listen(t.Context(), s, "", false)
		if err != nil {
			t.Fatal(err)
		}
		if (ls.metrics != nil) != own {
			t.Errorf("metrics_addr %q: a socket of its own: %t", metrics, ls.metrics != nil)
		}
		ls.close()
	}
}
