// Package attest decides which of the names and addresses that a machine claims for
// itself are proved (S25). They end up in certificates and in the answers of the API, so
// the machine's word alone proves nothing: root on one machine must not become another
// machine, a server, or a name that all machines trust.
//
// [Decide] is pure. Who else has a name or an address, and which are the servers', the
// caller finds out; two decisions that could grant the same name are made one after the
// other by the caller.
package attest

import (
	"fmt"
	"net/netip"
	"strings"

	"nstance.dev/protos/identity"
)

// Claim is what an agent says of its machine, as it was received. Empty fields are no
// claim.
type Claim struct {
	Hostname, IPv4, IPv6 string
}

// Place is where a machine is, as far as it is proved. Addresses are in their canonical
// form, names in lower case; empty: not known.
type Place struct {
	Hostname, IPv4, IPv6 string
}

// Evidence is what the server knows apart from the claim.
type Evidence struct {
	ID       identity.ID
	Provider Place      // the provider's word; empty fields: it has not said
	Source   netip.Addr // of the connection that the claim came by; zero: not known

	// Taken reports whether another live instance has the name or address.
	Taken func(nameOrAddress string) bool
	// Server reports whether the name or address is one of a server.
	Server func(nameOrAddress string) bool
}

// Decide returns the proved place, and for each part of the claim that is not in it a
// sentence that says why. The parts are judged alone:
//
//   - What the provider says stands, whatever the claim is.
//   - An address is proved by the connection that came from it. One that every machine
//     has (loopback, link-local, …), a server's, and one of another live instance are
//     never granted.
//   - A name is proved where no other live instance and no server has it, it is not the
//     form of an instance id, and it means nothing else to those who resolve it. Without
//     such a name the instance id is the name.
func Decide(c Claim, e Evidence) (Place, []string) {
	d := decision{Evidence: e}
	p := Place{
		Hostname: d.hostname(c.Hostname),
		IPv4:     d.address("private_ipv4", c.IPv4, e.Provider.IPv4, netip.Addr.Is4),
		IPv6:     d.address("private_ipv6", c.IPv6, e.Provider.IPv6, isIPv6),
	}
	return p, d.unproved
}

type decision struct {
	Evidence
	unproved []string
}

func (d *decision) refuse(field, claim, why string) {
	if len(claim) > identity.MaxHostname {
		claim = claim[:identity.MaxHostname]
	}
	d.unproved = append(d.unproved, fmt.Sprintf("%s %q is not proved: %s", field, claim, why))
}

func (d *decision) hostname(claim string) string {
	name := strings.ToLower(claim)
	if told := d.Provider.Hostname; told != "" {
		if name != "" && name != strings.ToLower(told) {
			d.refuse("hostname", claim, "the provider reports another")
		}
		return told
	}
	own := d.ID.String()
	switch {
	case name == "" || name == own:
	case !identity.ValidHostname(name):
		d.refuse("hostname", claim, "it is not a host name")
	case d.Server(name):
		if !d.Source.IsLoopback() { // a machine on a server's own host has its name
			d.refuse("hostname", claim, "it is the name of a server")
		}
	case special(name):
		d.refuse("hostname", claim, "the name has a meaning of its own")
	case isID(name), d.Taken(name):
		d.refuse("hostname", claim, "it is the name of another instance")
	default:
		return name
	}
	return own
}

// isID reports whether a name could be taken for an instance's id: its first label is one.
func isID(name string) bool {
	label, _, _ := strings.Cut(name, ".")
	_, err := identity.ParseID(label)
	return err == nil
}

func (d *decision) address(field, claim, told string, family func(netip.Addr) bool) string {
	addr, err := netip.ParseAddr(claim)
	if told != "" {
		if claim != "" && (err != nil || addr.String() != told) {
			d.refuse(field, claim, "the provider reports another")
		}
		return told
	}
	switch {
	case claim == "":
		return ""
	case err != nil || !family(addr) || addr.Zone() != "":
		d.refuse(field, claim, "it is not an address of this family")
	case !addr.IsGlobalUnicast() || addr.Is4In6():
		d.refuse(field, claim, "it is not an address of one machine")
	case d.Server(addr.String()):
		if !d.Source.IsLoopback() { // a machine on a server's own host has its addresses
			d.refuse(field, claim, "it is the address of a server")
		}
	case addr != d.Source.Unmap().WithZone(""):
		d.refuse(field, claim, "the provider does not report it, and the machine did not connect from it")
	case d.Taken(addr.String()):
		d.refuse(field, claim, "it is the address of another instance")
	default:
		return addr.String()
	}
	return ""
}

func isIPv6(a netip.Addr) bool { return a.Is6() && !a.Is4In6() }
