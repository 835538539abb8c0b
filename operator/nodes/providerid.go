package nodes

import "strings"

// ProviderID is a provider id in its parts:
//
//	aws:///us-west-2a/i-0123        aws      /us-west-2a   i-0123
//	gce://project/zone/name         gce      project/zone  name
//	proxmox://region/100            proxmox  region        100
//	nstance://us-west-2a/knd01…     nstance  us-west-2a    knd01…
type ProviderID struct {
	Scheme string
	// Location is what stands between the scheme and the last slash; it may be empty.
	Location string
	// Tail is what stands after the last slash. The cluster autoscaler knows machines by
	// it alone.
	Tail string
}

// ParseProviderID takes a provider id apart; false: it has no scheme, or no tail.
func ParseProviderID(s string) (ProviderID, bool) {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok || scheme == "" || strings.ContainsAny(scheme, "/:") {
		return ProviderID{}, false
	}
	location, tail := "", rest
	if i := strings.LastIndexByte(rest, '/'); i >= 0 {
		location, tail = rest[:i], rest[i+1:]
	}
	return ProviderID{scheme, location, tail}, tail != ""
}

// Tail returns what stands after the last slash of a provider id, all of it without one.
func Tail(providerID string) string { return providerID[strings.LastIndexByte(providerID, '/')+1:] }

// Same reports whether two provider ids mean the same machine: the same scheme and tail.
// A tail that is only a number names a machine of one location, so there the locations must not
// differ, as far as both are known.
func Same(a, b ProviderID) bool {
	if a.Scheme != b.Scheme || a.Tail != b.Tail || a.Tail == "" {
		return false
	}
	located := a.location() != "" && b.location() != ""
	return !a.number() || !located || a.location() == b.location()
}

func (p ProviderID) location() string { return strings.Trim(p.Location, "/") }

func (p ProviderID) number() bool { return strings.Trim(p.Tail, "0123456789") == "" }
