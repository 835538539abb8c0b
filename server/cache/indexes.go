package cache

import (
	"slices"

	"nstance.dev/protos/identity"
	"nstance.dev/server/fleet"
)

// idSet is a set of ids in their order. Ids grow with time, so that a new one
// nearly always goes to the end.
type idSet []identity.ID

func (s idSet) with(id identity.ID) idSet {
	i, found := slices.BinarySearch(s, id)
	if found {
		return s
	}
	return slices.Insert(s, i, id)
}

func (s idSet) without(id identity.ID) idSet {
	i, found := slices.BinarySearch(s, id)
	if !found {
		return s
	}
	return slices.Delete(s, i, i+1)
}

// indexes find instances that are not deleted.
type indexes struct {
	byGroup  map[fleet.GroupID]idSet
	byTenant map[string]idSet
	byNonce  map[string]identity.ID
	byVM     map[string]identity.ID
	byPlace  map[string]idSet // by names, in lower case, and addresses
}

func newIndexes() indexes {
	return indexes{
		byGroup: make(map[fleet.GroupID]idSet), byTenant: make(map[string]idSet),
		byNonce: make(map[string]identity.ID), byVM: make(map[string]identity.ID),
		byPlace: make(map[string]idSet),
	}
}

// add makes the entries of an instance.
func (x *indexes) add(in *Instance) {
	x.byGroup[in.Group] = x.byGroup[in.Group].with(in.ID)
	x.byTenant[in.Group.Tenant] = x.byTenant[in.Group.Tenant].with(in.ID)
	if in.claimable() {
		x.byNonce[in.NonceSHA256] = in.ID
	}
	if in.ProviderID != "" {
		x.byVM[in.ProviderID] = in.ID
	}
	for _, at := range in.places() {
		if at != "" {
			x.byPlace[at] = x.byPlace[at].with(in.ID)
		}
	}
}

// remove removes the entries of an instance. A place that another one
// has taken meanwhile is that one's.
func (x *indexes) remove(in *Instance) {
	setOrDrop(x.byGroup, in.Group, x.byGroup[in.Group].without(in.ID))
	setOrDrop(x.byTenant, in.Group.Tenant, x.byTenant[in.Group.Tenant].without(in.ID))
	if x.byNonce[in.NonceSHA256] == in.ID {
		delete(x.byNonce, in.NonceSHA256)
	}
	if x.byVM[in.ProviderID] == in.ID {
		delete(x.byVM, in.ProviderID)
	}
	for _, at := range in.places() {
		if ids, ok := x.byPlace[at]; ok {
			setOrDrop(x.byPlace, at, ids.without(in.ID))
		}
	}
}

// setOrDrop keeps no empty entries, which would pile up.
func setOrDrop[K comparable, S ~[]E, E any](m map[K]S, k K, s S) {
	if len(s) == 0 {
		delete(m, k)
		return
	}
	m[k] = s
}
