package attest_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/protos/identity"
	"nstance.dev/server/attest"
)

const source = "10.0.0.7"

func newID(t testing.TB) identity.ID {
	t.Helper()
	id, err := identity.NewID("wrk")
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// TestS25_WhatAMachineMayClaim judges each part of a claim alone. The machine connects from
// 10.0.0.7; web-1, 10.0.0.9 and fd00::9 are another live instance's, srv-1, 10.0.0.2 and
// fd00::2 a server's.
func TestS25_WhatAMachineMayClaim(t *testing.T) {
	id, other := newID(t), newID(t)
	for _, tt := range []struct {
		name     string
		claim    attest.Claim
		provider attest.Place
		source   string // default 10.0.0.7
		want     attest.Place
		why      string // a part of the one refusal; empty: none
	}{
		{name: "nothing", want: attest.Place{Hostname: id.String()}},
		{name: "a free name", claim: attest.Claim{Hostname: "Web-2"}, want: attest.Place{Hostname: "web-2"}},
		{name: "its id", claim: attest.Claim{Hostname: id.String()}, want: attest.Place{Hostname: id.String()}},
		{name: "another's name", claim: attest.Claim{Hostname: "WEB-1"}, want: attest.Place{Hostname: id.String()}, why: "another instance"},
		{name: "another's id", claim: attest.Claim{Hostname: other.String()}, want: attest.Place{Hostname: id.String()}, why: "another instance"},
		{name: "another's id with a domain", claim: attest.Claim{Hostname: other.String() + ".internal"}, want: attest.Place{Hostname: id.String()}, why: "another instance"},
		{name: "a server's name", claim: attest.Claim{Hostname: "srv-1"}, want: attest.Place{Hostname: id.String()}, why: "a server"},
		{name: "localhost", claim: attest.Claim{Hostname: "localhost"}, want: attest.Place{Hostname: id.String()}, why: "meaning"},
		{name: "below localhost", claim: attest.Claim{Hostname: "a.localhost"}, want: attest.Place{Hostname: id.String()}, why: "meaning"},
		{name: "the API server", claim: attest.Claim{Hostname: "kubernetes"}, want: attest.Place{Hostname: id.String()}, why: "meaning"},
		{name: "a service", claim: attest.Claim{Hostname: "kubernetes.default.svc"}, want: attest.Place{Hostname: id.String()}, why: "meaning"},
		{name: "a service in full", claim: attest.Claim{Hostname: "db.shop.svc.cluster.local"}, want: attest.Place{Hostname: id.String()}, why: "meaning"},
		{name: "all servers", claim: attest.Claim{Hostname: "nstance-server"}, want: attest.Place{Hostname: id.String()}, why: "meaning"},
		{name: "a server of a shard", claim: attest.Claim{Hostname: "s1.c1.nstance"}, want: attest.Place{Hostname: id.String()}, why: "meaning"},
		{name: "an address as a name", claim: attest.Claim{Hostname: "10.0.0.9"}, want: attest.Place{Hostname: id.String()}, why: "meaning"},
		{name: "a number as a name", claim: attest.Claim{Hostname: "2130706433"}, want: attest.Place{Hostname: id.String()}, why: "meaning"},
		{name: "no name", claim: attest.Claim{Hostname: "no name\n"}, want: attest.Place{Hostname: id.String()}, why: "not a host name"},
		{name: "the root dot", claim: attest.Claim{Hostname: "web-1."}, want: attest.Place{Hostname: id.String()}, why: "not a host name"},
		{name: "a long one", claim: attest.Claim{Hostname: strings.Repeat("a", 300)}, want: attest.Place{Hostname: id.String()}, why: "not a host name"},

		{name: "the source", claim: attest.Claim{IPv4: source}, want: attest.Place{Hostname: id.String(), IPv4: source}},
		{name: "the source, mapped", source: "::ffff:10.0.0.7", claim: attest.Claim{IPv4: source}, want: attest.Place{Hostname: id.String(), IPv4: source}},
		{name: "the source, IPv6", source: "fd00::7", claim: attest.Claim{IPv6: "FD00:0::7"}, want: attest.Place{Hostname: id.String(), IPv6: "fd00::7"}},
		{name: "not the source", claim: attest.Claim{IPv4: "10.0.0.8"}, want: attest.Place{Hostname: id.String()}, why: "did not connect from it"},
		{name: "the other family", claim: attest.Claim{IPv6: "fd00::7"}, want: attest.Place{Hostname: id.String()}, why: "did not connect from it"},
		{name: "another's, from there", source: "10.0.0.9", claim: attest.Claim{IPv4: "10.0.0.9"}, want: attest.Place{Hostname: id.String()}, why: "another instance"},
		{name: "another's, from there, IPv6", source: "fd00::9", claim: attest.Claim{IPv6: "fd00::9"}, want: attest.Place{Hostname: id.String()}, why: "another instance"},
		{name: "a server's, from there", source: "10.0.0.2", claim: attest.Claim{IPv4: "10.0.0.2"}, want: attest.Place{Hostname: id.String()}, why: "a server"},
		{name: "a server's, from there, IPv6", source: "fd00::2", claim: attest.Claim{IPv6: "fd00::2"}, want: attest.Place{Hostname: id.String()}, why: "a server"},
		{name: "loopback", source: "127.0.0.1", claim: attest.Claim{IPv4: "127.0.0.1"}, want: attest.Place{Hostname: id.String()}, why: "one machine"},
		{name: "loopback, IPv6", source: "::1", claim: attest.Claim{IPv6: "::1"}, want: attest.Place{Hostname: id.String()}, why: "one machine"},
		{name: "link-local", source: "169.254.1.1", claim: attest.Claim{IPv4: "169.254.1.1"}, want: attest.Place{Hostname: id.String()}, why: "one machine"},
		{name: "link-local, IPv6", source: "fe80::1", claim: attest.Claim{IPv6: "fe80::1"}, want: attest.Place{Hostname: id.String()}, why: "one machine"},
		{name: "with a zone", source: "fe80::1", claim: attest.Claim{IPv6: "fd00::7%eth0"}, want: attest.Place{Hostname: id.String()}, why: "this family"},
		{name: "unspecified", source: "0.0.0.0", claim: attest.Claim{IPv4: "0.0.0.0"}, want: attest.Place{Hostname: id.String()}, why: "one machine"},
		{name: "broadcast", source: "255.255.255.255", claim: attest.Claim{IPv4: "255.255.255.255"}, want: attest.Place{Hostname: id.String()}, why: "one machine"},
		{name: "multicast", source: "224.0.0.1", claim: attest.Claim{IPv4: "224.0.0.1"}, want: attest.Place{Hostname: id.String()}, why: "one machine"},
		{name: "multicast, IPv6", source: "ff02::1", claim: attest.Claim{IPv6: "ff02::1"}, want: attest.Place{Hostname: id.String()}, why: "one machine"},
		{name: "IPv4 as IPv6", claim: attest.Claim{IPv6: "::ffff:10.0.0.7"}, want: attest.Place{Hostname: id.String()}, why: "this family"},
		{name: "IPv6 as IPv4", source: "fd00::7", claim: attest.Claim{IPv4: "fd00::7"}, want: attest.Place{Hostname: id.String()}, why: "this family"},
		{name: "no address", claim: attest.Claim{IPv4: "10.0.0"}, want: attest.Place{Hostname: id.String()}, why: "this family"},

		{
			name: "the provider knows better", claim: attest.Claim{Hostname: "control-plane", IPv4: source, IPv6: "fd00::1"},
			provider: attest.Place{Hostname: "ip-10-0-0-8", IPv4: "10.0.0.8"},
			want:     attest.Place{Hostname: "ip-10-0-0-8", IPv4: "10.0.0.8"}, why: "the provider reports another",
		},
		{
			name: "the provider agrees", claim: attest.Claim{Hostname: "IP-10-0-0-8", IPv6: "FD00::8"},
			provider: attest.Place{Hostname: "ip-10-0-0-8", IPv6: "fd00::8"}, want: attest.Place{Hostname: "ip-10-0-0-8", IPv6: "fd00::8"},
		},
		{
			name: "the provider alone", provider: attest.Place{Hostname: "web-1", IPv4: "10.0.0.9"},
			want: attest.Place{Hostname: "web-1", IPv4: "10.0.0.9"},
		},
		{
			name: "on a server's own host", source: "127.0.0.1", claim: attest.Claim{Hostname: "srv-1", IPv4: "10.0.0.2", IPv6: "fd00::2"},
			want: attest.Place{Hostname: id.String()},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			from := source
			if tt.source != "" {
				from = tt.source
			}
			got, unproved := attest.Decide(tt.claim, attest.Evidence{
				ID: id, Provider: tt.provider, Source: netip.MustParseAddr(from),
				Taken:  func(s string) bool { return slices.Contains([]string{"web-1", "10.0.0.9", "fd00::9"}, s) },
				Server: func(s string) bool { return slices.Contains([]string{"srv-1", "10.0.0.2", "fd00::2"}, s) },
			})
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("proved (-want +got):\n%s", diff)
			}
			said := strings.Join(unproved, "; ")
			if tt.why == "" && said != "" || !strings.Contains(said, tt.why) {
				t.Errorf("unproved: %q, want %q", said, tt.why)
			}
			if strings.ContainsAny(said, "\n\x1b") || len(said) > 1200 {
				t.Errorf("the claim is passed on as it came: %q", said)
			}
		})
	}
}

// FuzzS25_NothingUnprovedIsGranted: whatever is claimed, what comes out is the provider's,
// the source, or a name that is free.
func FuzzS25_NothingUnprovedIsGranted(f *testing.F) {
	f.Add("web-1", "10.0.0.7", "fd00::7")
	f.Add("kubernetes.default.svc", "127.0.0.1", "::ffff:10.0.0.7")
	id := newID(f)
	f.Fuzz(func(t *testing.T, hostname, v4, v6 string) {
		got, _ := attest.Decide(attest.Claim{Hostname: hostname, IPv4: v4, IPv6: v6}, attest.Evidence{
			ID: id, Source: netip.MustParseAddr(source),
			Taken:  func(s string) bool { return s == "web-1" },
			Server: func(s string) bool { return s == "srv-1" },
		})
		if got.IPv4 != "" && got.IPv4 != source || got.IPv6 != "" {
			t.Errorf("addresses %q and %q are granted", got.IPv4, got.IPv6)
		}
		if got.Hostname == "web-1" || got.Hostname == "srv-1" || !identity.ValidHostname(got.Hostname) {
			t.Errorf("name %q is granted", got.Hostname)
		}
	})
}
