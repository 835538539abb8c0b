package nodes

import (
	"maps"
	"slices"
	"strings"
)

// ProviderID is a provider id in its parts:
//
//	aws:///us-west-2a/i-0123        aws      /us-west-2a   i-0123
//	gce://project/zone/name         gce      project/zone  name
//	proxmox://region/100            proxmox  region        100
//	nstance://us-west-2a/knd01…     nstance  us-west-2a    knd01…
type ProviderID struct {
	Scheme string
	// Place is what stands between the scheme and the last slash; it may be empty.
	Place string
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
	place, tail := "", rest
	if i := strings.LastIndexByte(rest, '/'); i >= 0 {
		place, tail = rest[:i], rest[i+1:]
	}
	return ProviderID{scheme, place, tail}, tail != ""
}

// Tail returns what stands after the last slash of a provider id, all of it without one.
func Tail(providerID string) string { return providerID[strings.LastIndexByte(providerID, '/')+1:] }

// Same reports whether two provider ids mean the same machine: the same scheme and tail.
// A tail that is only a number names a machine of one place, so there the places must not
// differ, as far as both are known.
func Same(a, b ProviderID) bool {
	if a.Scheme != b.Scheme || a.Tail != b.Tail || a.Tail == "" {
		return false
	}
	placed := a.place() != "" && b.place() != ""
	return !a.number() || !placed || a.place() == b.place()
}

func (p ProviderID) place() string { return strings.Trim(p.Place, "/") }

func (p ProviderID) number() bool { return strings.Trim(p.Tail, "0123456789") == "" }

// Duplicate is a tail that several machines have.
type Duplicate struct {
	Tail string
	// IDs are their provider ids, sorted; a machine that is listed twice stands twice.
	IDs []string
}

// Duplicates returns the tails that occur more than once, sorted: the cluster autoscaler
// stops at the first of them.
func Duplicates(providerIDs []string) []Duplicate {
	byTail := map[string][]string{}
	for _, id := range providerIDs {
		byTail[Tail(id)] = append(byTail[Tail(id)], id)
	}
	var duplicates []Duplicate
	for _, tail := range slices.Sorted(maps.Keys(byTail)) {
		if ids := byTail[tail]; len(ids) > 1 {
			slices.Sort(ids)
			duplicates = append(duplicates, Duplicate{tail, ids})
		}
	}
	return duplicates
}
