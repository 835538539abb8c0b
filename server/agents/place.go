package agents

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/attest"
	"nstance.dev/server/cache"
	"nstance.dev/server/config/document"
	"nstance.dev/server/layout"
)

var errForeignSource = errors.New("the source is not an address that the provider reports for the machine")

// checkSource refuses or reports a first registration that does not come from where the
// provider says the machine is (F40); nothing can be said wherever that is not known.
func (a *Service) checkSource(row cache.Instance, source netip.Addr) error {
	check := a.opts.Config().Server.Registration.CheckSource
	known := slices.DeleteFunc([]string{row.IPv4, row.IPv6}, func(s string) bool { return s == "" })
	switch {
	case !row.RegisteredAt.IsZero(), check == document.SourceCheckOff, len(known) == 0, slices.Contains(known, source.Unmap().String()):
		return nil
	case check == document.SourceCheckRequire:
		return refuseRegistration(fmt.Errorf("instance %s: %w: %s", row.ID, errForeignSource, strings.Join(known, ", ")))
	}
	a.opts.Metrics.registered("elsewhere")
	a.opts.Log.Warn("registration comes from elsewhere", "instance", row.ID, "tenant", row.Group.Tenant, "group", row.Group.Name,
		"source", source, "provider_reports", known)
	a.opts.Failed(row, "auth", fmt.Sprintf("the agent registers from %s, and the provider reports %s", source, strings.Join(known, ", ")))
	return nil
}

// provenPlace is what came of an agent's claim.
type provenPlace struct {
	attest.Place
	claim    attest.Claim
	unproved []string // why parts of the claim were not granted; nil: all were
}

// provePlace decides which of the names and addresses that an agent claims are proved,
// and takes them for the instance in the same step, so that no other gets them (S25).
// One that has registered keeps what it has.
func (a *Service) provePlace(row cache.Instance, source netip.Addr, req *nstancev1.RegisterClientRequest) provenPlace {
	out := provenPlace{claim: attest.Claim{Hostname: req.Hostname, IPv4: req.PrivateIpv4, IPv6: req.PrivateIpv6}}
	if !row.RegisteredAt.IsZero() {
		out.Place = attest.Place{Hostname: row.Hostname, IPv4: row.IPv4, IPv6: row.IPv6}
		return out
	}
	servers := a.serverHosts()
	a.placing.Lock()
	defer a.placing.Unlock()
	out.Place, out.unproved = attest.Decide(out.claim, attest.Evidence{
		ID: row.ID, Source: source,
		Provider: attest.Place{Hostname: row.Hostname, IPv4: row.IPv4, IPv6: row.IPv6},
		Taken:    func(s string) bool { return a.opts.Cache.PlaceTaken(s, row.ID) },
		Server:   func(s string) bool { return servers[s] },
	})
	_, err := a.opts.Instances.Note(row.ID, func(in *cache.Instance) error {
		in.Hostname, in.IPv4, in.IPv6 = out.Hostname, out.IPv4, out.IPv6
		return nil
	})
	if err != nil { // the instance has gone; so says the record, too
		a.opts.Log.Debug("host name and addresses of an instance not noted", "instance", row.ID, "error", err)
	}
	return out
}

// serverHosts are the names and addresses that no machine gets, because clients reach
// servers there. Names are in lower case.
func (a *Service) serverHosts() map[string]bool {
	out := map[string]bool{}
	if a.opts.ServerHosts != nil {
		for _, host := range a.opts.ServerHosts() {
			if addr, err := netip.ParseAddr(host); err == nil {
				host = addr.Unmap().String()
			}
			out[strings.ToLower(host)] = true
		}
	}
	return out
}

// note writes the place into the record, and what was claimed beside it.
func (p provenPlace) note(rec *layout.InstanceRecord) {
	rec.Hostname, rec.IPv4, rec.IPv6 = p.Hostname, p.IPv4, p.IPv6
	if len(p.unproved) > 0 {
		rec.Reported = &layout.ReportedPlace{
			Hostname: printableHost(p.claim.Hostname), IPv4: printable(p.claim.IPv4), IPv6: printable(p.claim.IPv6),
		}
	}
}

// printableHost cuts a claimed name down to the length that a name may have.
func printableHost(s string) string {
	if !identity.ValidHostname(s) {
		return printable(s)
	}
	return s
}

// reportUnprovenPlace says that an agent claimed what it was not granted.
func (a *Service) reportUnprovenPlace(row cache.Instance, source netip.Addr, p provenPlace) {
	if len(p.unproved) == 0 {
		return
	}
	why := strings.Join(p.unproved, "; ")
	a.opts.Log.Warn("agent claims a name or address that is not proved", "instance", row.ID, "tenant", row.Group.Tenant,
		"group", row.Group.Name, "source", source, "reason", why, "hostname", p.Hostname, "ipv4", p.IPv4, "ipv6", p.IPv6)
	a.opts.Failed(row, "invalid", why)
}
