package agents

import (
	"cmp"
	"context"
	"strings"
	"sync"
	"testing"

	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/cache"
	"nstance.dev/server/config/document"
	"nstance.dev/server/refusal"
)

// shows notes the address that the provider reports for a machine.
func (a *term) shows(m *machine, ip4 string) {
	a.p.t.Helper()
	if _, err := a.instances.Note(m.id, func(in *cache.Instance) error { in.IPv4 = ip4; return nil }); err != nil {
		a.p.t.Fatal(err)
	}
}

// TestS25_AClaimIsNotAProof: what an agent says of itself gets into its record where it is
// proved; the rest stands beside it, and the tenant is told.
func TestS25_AClaimIsNotAProof(t *testing.T) {
	for name, c := range map[string]struct {
		claim     *nstancev1.RegisterClientRequest
		host, ip4 string // "" for the host: the instance's id
		told      bool
		from      string // "": 10.0.0.7
	}{
		"what is true":             {&nstancev1.RegisterClientRequest{Hostname: "web-1", PrivateIpv4: "10.0.0.7"}, "web-1", "10.0.0.7", false, ""},
		"somebody else's address":  {&nstancev1.RegisterClientRequest{Hostname: "web-1", PrivateIpv4: "10.0.0.8"}, "web-1", "", true, ""},
		"a server's name":          {&nstancev1.RegisterClientRequest{Hostname: "Server-1", PrivateIpv4: "10.0.0.7"}, "", "10.0.0.7", true, ""},
		"a name that another has":  {&nstancev1.RegisterClientRequest{Hostname: "taken", PrivateIpv4: "10.0.0.7"}, "", "10.0.0.7", true, ""},
		"what is no name nor text": {&nstancev1.RegisterClientRequest{Hostname: "no\nname", PrivateIpv4: "10.0.0.7"}, "", "10.0.0.7", true, ""},
		"an address of another machine, from this box": {
			&nstancev1.RegisterClientRequest{PrivateIpv4: "10.0.0.1", PrivateIpv6: "fd00::1"}, "", "", true, "127.0.0.1",
		},
		"loopback":                   {&nstancev1.RegisterClientRequest{PrivateIpv4: "127.0.0.1", PrivateIpv6: "::1"}, "", "", true, "127.0.0.1"},
		"the name of the API server": {&nstancev1.RegisterClientRequest{Hostname: "kubernetes.default.svc"}, "", "", true, ""},
		"a server's address":         {&nstancev1.RegisterClientRequest{PrivateIpv4: "10.9.9.9"}, "", "", true, "10.9.9.9"},
		"an address with a zone":     {&nstancev1.RegisterClientRequest{PrivateIpv6: "fe80::1%eth0"}, "", "", true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			atPost(t, func(t *testing.T, _ *post, a *term) {
				a.opts.ServerHosts = func() []string { return []string{"server-1", "10.9.9.9"} }
				other, m := a.machine(), a.machine()
				if err := a.claims(other, "10.0.0.6", &nstancev1.RegisterClientRequest{Hostname: "taken"}); err != nil {
					t.Fatal(err)
				}
				if err := a.claims(m, cmp.Or(c.from, "10.0.0.7"), c.claim); err != nil {
					t.Fatal(err)
				}
				if c.host == "" {
					c.host = m.id.String()
				}
				rec := a.record(m.id)
				if rec.Hostname != c.host || rec.IPv4 != c.ip4 || rec.IPv6 != "" {
					t.Errorf("recorded %q, %q and %q, want %q and %q", rec.Hostname, rec.IPv4, rec.IPv6, c.host, c.ip4)
				}
				if failed := a.failed(); (len(failed) > 0) != c.told || c.told && !strings.HasPrefix(failed[0], "invalid: ") {
					t.Errorf("the tenant was told %q", failed)
				}
				if (rec.Reported != nil) != c.told || rec.Reported != nil && strings.Contains(rec.Reported.Hostname, "\n") {
					t.Errorf("the claim is kept as %+v", rec.Reported)
				}
			})
		})
	}
}

// TestS25_ANameHasOneOwner: of machines that claim one name or address at once, one gets it;
// another's id is nobody's; and so it stays for the next leader.
func TestS25_ANameHasOneOwner(t *testing.T) {
	atPost(t, func(t *testing.T, p *post, a *term) {
		var all []*machine
		var tries sync.WaitGroup
		for range 3 {
			m := a.machine()
			all = append(all, m)
			tries.Go(func() {
				if err := a.claims(m, "10.0.0.7", &nstancev1.RegisterClientRequest{Hostname: "node-1", PrivateIpv4: "10.0.0.7"}); err != nil {
					t.Error(err)
				}
			})
		}
		tries.Wait()
		names, addrs := 0, 0
		for _, m := range all {
			switch rec := a.record(m.id); rec.Hostname {
			case "node-1":
				names++
			case m.id.String():
			default:
				t.Errorf("%s is called %q", m.id, rec.Hostname)
			}
			if a.record(m.id).IPv4 != "" {
				addrs++
			}
		}
		if names != 1 || addrs != 1 {
			t.Errorf("%d are node-1, and %d have its address; want one each", names, addrs)
		}
		last := a.machine()
		if err := a.claims(last, "10.0.0.8", &nstancev1.RegisterClientRequest{Hostname: strings.ToUpper(all[0].id.String())}); err != nil {
			t.Fatal(err)
		}
		if rec := a.record(last.id); rec.Hostname != last.id.String() {
			t.Errorf("%s is called %q", last.id, rec.Hostname)
		}
		a.stop(context.Canceled)
		b := p.lead()
		if !p.cache.PlaceTaken("node-1", last.id) || !p.cache.PlaceTaken("10.0.0.7", last.id) {
			t.Error("to the next leader the name or the address is free")
		}
		b.stop(context.Canceled)
	})
}

// TestS25_AMachineKeepsItsPlace: another registration changes nothing of it.
func TestS25_AMachineKeepsItsPlace(t *testing.T) {
	atPost(t, func(t *testing.T, _ *post, a *term) {
		m := a.machine()
		for _, host := range []string{"first", "second"} {
			if err := a.claims(m, "10.0.0.7", &nstancev1.RegisterClientRequest{Hostname: host, PrivateIpv4: "10.0.0.7"}); err != nil {
				t.Fatal(err)
			}
		}
		if rec := a.record(m.id); rec.Hostname != "first" || len(a.failed()) > 0 {
			t.Errorf("recorded as %q, and the tenant was told %q", rec.Hostname, a.failed())
		}
	})
}

// TestF40_RegistrationFromElsewhere: than where the provider says that the machine is.
func TestF40_RegistrationFromElsewhere(t *testing.T) {
	for check, c := range map[document.SourceCheck]struct {
		code refusal.Code
		told bool
	}{
		document.SourceCheckRequire: {refusal.PermissionDenied, false},
		document.SourceCheckWarn:    {"", true},
		document.SourceCheckOff:     {"", false},
	} {
		atPost(t, func(t *testing.T, p *post, a *term) {
			p.config.Server.Registration.CheckSource = check
			m := a.machine()
			a.shows(m, "10.0.0.9")
			err := a.claims(m, "10.0.0.1", &nstancev1.RegisterClientRequest{})
			if c.code == "" && err != nil || c.code != "" && !refusedWith(err, c.code) {
				t.Errorf("%s: %v, want %q", check, err, c.code)
			}
			if failed := a.failed(); (len(failed) > 0) != c.told {
				t.Errorf("%s: the tenant was told %q", check, failed)
			}
			if err := a.claims(m, "::ffff:10.0.0.9", &nstancev1.RegisterClientRequest{}); err != nil {
				t.Errorf("%s: from its own address: %v", check, err)
			}
		})
	}
}
