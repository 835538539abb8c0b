package shard

import (
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/bucket"
	"nstance.dev/server/cache"
	"nstance.dev/server/refusal"
)

// claim registers an instance from an address, with what its agent says of itself.
func claim(t *testing.T, w *world, nonce, source string, req *nstancev1.RegisterClientRequest) error {
	t.Helper()
	key := newKey(t)
	req.RegistrationNonceJwt, req.PublicKeyPem, req.Proof = nonce, publicPEM(t, key), identity.SignProof(key, nonce)
	_, err := w.reign().RegisterAgent(w.ctx, netip.MustParseAddr(source), req)
	return err
}

// errorsOf are the error events of an instance that begin with a class.
func errorsOf(w *world, id identity.ID, class string) (out []string) {
	for _, e := range w.reign().cache.Errors("default") {
		if text, ok := strings.CutPrefix(e.Error, class+": "); ok && e.Instance == id {
			out = append(out, text)
		}
	}
	return out
}

func recordOf(t *testing.T, w *world, id identity.ID) bucket.InstanceRecord {
	t.Helper()
	for _, rec := range w.records() {
		if rec.ID == id {
			return rec
		}
	}
	t.Fatalf("no record of %s", id)
	return bucket.InstanceRecord{}
}

// TestS25_AClaimIsNotAProof: what an agent says of itself does not get into its record,
// and so not into its certificates, unless it is proved.
func TestS25_AClaimIsNotAProof(t *testing.T) {
	for name, tt := range map[string]struct {
		source         string
		claim          *nstancev1.RegisterClientRequest
		host, ip4, ip6 string // of the record; host "": the instance's id
		event          bool
	}{
		"of what is true": {
			source: "10.0.0.7", claim: &nstancev1.RegisterClientRequest{Hostname: "web-1", PrivateIpv4: "10.0.0.7"},
			host: "web-1", ip4: "10.0.0.7",
		},
		"of another machine's addresses, from this box": {
			source: "127.0.0.1", claim: &nstancev1.RegisterClientRequest{PrivateIpv4: "10.0.0.1", PrivateIpv6: "fd00::1"}, event: true,
		},
		"of loopback": {
			source: "127.0.0.1", claim: &nstancev1.RegisterClientRequest{PrivateIpv4: "127.0.0.1", PrivateIpv6: "::1"}, event: true,
		},
		"of the name of the API server": {
			source: "10.0.0.7", claim: &nstancev1.RegisterClientRequest{Hostname: "kubernetes.default.svc"}, event: true,
		},
		"of a server's name and address": {
			source: "10.9.9.9", claim: &nstancev1.RegisterClientRequest{Hostname: "Server-1", PrivateIpv4: "10.9.9.9"}, event: true,
		},
		"of what is malformed": {
			source: "10.0.0.7", claim: &nstancev1.RegisterClientRequest{Hostname: "not a host name", PrivateIpv6: "fe80::1%eth0"}, event: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			withMachine(t, func(t *testing.T, w *world, id identity.ID, nonce string) {
				w.reign().opts.ServerHosts = func() []string { return []string{"server-1", "10.9.9.9"} }
				if err := claim(t, w, nonce, tt.source, tt.claim); err != nil {
					t.Fatal(err)
				}
				if tt.host == "" {
					tt.host = id.String()
				}
				rec := recordOf(t, w, id)
				if rec.Hostname != tt.host || rec.IPv4 != tt.ip4 || rec.IPv6 != tt.ip6 {
					t.Errorf("recorded %q, %q, %q; want %q, %q, %q", rec.Hostname, rec.IPv4, rec.IPv6, tt.host, tt.ip4, tt.ip6)
				}
				if got := errorsOf(w, id, "invalid"); (len(got) > 0) != tt.event {
					t.Errorf("error events: %q", got)
				}
				if kept := rec.Reported != nil; kept != tt.event || kept && rec.Reported.Hostname != tt.claim.Hostname {
					t.Errorf("the record keeps the claim as %+v", rec.Reported)
				}
			})
		})
	}
}

// TestS25_ANameHasOneOwner: of machines that claim one name at once, one gets it; another's
// id is nobody's; and so it stays after a take-over.
func TestS25_ANameHasOneOwner(t *testing.T) {
	inWorld(t, worldOptions{DeadAgents: true}, func(t *testing.T, w *world) {
		w.scale(web, 4)
		w.settle(time.Second)
		vms := w.vms(web)
		var tries sync.WaitGroup
		for _, vm := range vms[:3] {
			tries.Go(func() {
				if err := claim(t, w, string(vm.Request.UserData), "10.0.0.7", &nstancev1.RegisterClientRequest{
					Hostname: "node-1", PrivateIpv4: "10.0.0.7",
				}); err != nil {
					t.Error(err)
				}
			})
		}
		tries.Wait()
		var names, addrs []string
		for _, vm := range vms[:3] {
			rec := recordOf(t, w, vm.InstanceID)
			if rec.Hostname == "node-1" {
				names = append(names, vm.InstanceID.String())
			} else if rec.Hostname != vm.InstanceID.String() {
				t.Errorf("%s is called %q", vm.InstanceID, rec.Hostname)
			}
			if rec.IPv4 != "" {
				addrs = append(addrs, vm.InstanceID.String())
			}
		}
		if len(names) != 1 || len(addrs) != 1 {
			t.Errorf("node-1 are %v, 10.0.0.7 have %v", names, addrs)
		}
		last := vms[3]
		if err := claim(t, w, string(last.Request.UserData), "10.0.0.8", &nstancev1.RegisterClientRequest{
			Hostname: strings.ToUpper(vms[0].InstanceID.String()),
		}); err != nil {
			t.Fatal(err)
		}
		if rec := recordOf(t, w, last.InstanceID); rec.Hostname != last.InstanceID.String() {
			t.Errorf("%s is called %q", last.InstanceID, rec.Hostname)
		}
		w.stop()
		w.lead()
		if !w.reign().cache.PlaceTaken("node-1", last.InstanceID) || !w.reign().cache.PlaceTaken("10.0.0.7", last.InstanceID) {
			t.Error("after a take-over the name or the address is free")
		}
	})
}

// TestF40_RegistrationFromElsewhere: a nonce that is used from an address that the provider
// does not report for the machine.
func TestF40_RegistrationFromElsewhere(t *testing.T) {
	for check, want := range map[string]struct {
		code  refusal.Code
		event bool
	}{
		`"require"`: {refusal.PermissionDenied, false},
		`true`:      {refusal.PermissionDenied, false},
		`"warn"`:    {"", true},
		`"off"`:     {"", false},
		`false`:     {"", false},
	} {
		t.Run(check, func(t *testing.T) {
			opts := worldOptions{DeadAgents: true, Server: `"registration": {"check_source": ` + check + `},`}
			inWorld(t, opts, func(t *testing.T, w *world) {
				w.scale(web, 1)
				w.settle(time.Second)
				vm := w.vms(web)[0]
				if _, err := w.reign().instances.Note(vm.InstanceID, func(in *cache.Instance) error {
					in.IPv4 = "10.0.0.9"
					return nil
				}); err != nil {
					t.Fatal(err)
				}
				nonce := string(vm.Request.UserData)
				err := claim(t, w, nonce, "10.0.0.1", &nstancev1.RegisterClientRequest{})
				if want.code == "" && err != nil || want.code != "" && !refusedWith(err, want.code) {
					t.Errorf("from another machine: %v, want %v", err, want.code)
				}
				said := slices.ContainsFunc(errorsOf(w, vm.InstanceID, "auth"), func(s string) bool {
					return strings.Contains(s, "10.0.0.1") && strings.Contains(s, "10.0.0.9")
				})
				if said != want.event {
					t.Errorf("error events: %q", errorsOf(w, vm.InstanceID, "auth"))
				}
				if want.code == "" {
					return
				}
				if err := claim(t, w, nonce, "::ffff:10.0.0.9", &nstancev1.RegisterClientRequest{}); err != nil {
					t.Errorf("from its own address: %v", err)
				}
			})
		})
	}
}
