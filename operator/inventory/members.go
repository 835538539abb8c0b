package inventory

import (
	"maps"
	"slices"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// members are instances by id, and by the group that each is of: a pass over one group must not cost
// as much as all instances of the shard.
type members struct {
	byID    map[string]*entry[*nstancev1.InstanceStatus]
	byGroup map[string]map[string]*entry[*nstancev1.InstanceStatus] // none is empty
}

func newMembers() members {
	return members{map[string]*entry[*nstancev1.InstanceStatus]{}, map[string]map[string]*entry[*nstancev1.InstanceStatus]{}}
}

// put takes in what is known of an instance now, in place of what was known before.
func (m members) put(id string, e *entry[*nstancev1.InstanceStatus]) {
	if was := m.byID[id]; was != nil && was.said.GetGroup() != e.said.GetGroup() {
		m.remove(id)
	}
	m.byID[id] = e
	group := m.byGroup[e.said.GetGroup()]
	if group == nil {
		group = map[string]*entry[*nstancev1.InstanceStatus]{}
		m.byGroup[e.said.GetGroup()] = group
	}
	group[id] = e
}

// remove takes out an instance that is there.
func (m members) remove(id string) {
	name := m.byID[id].said.GetGroup()
	delete(m.byID, id)
	if delete(m.byGroup[name], id); len(m.byGroup[name]) == 0 {
		delete(m.byGroup, name)
	}
}

// of returns the instances of a group, sorted by id; those of all groups for an empty key.
func (m members) of(group string) []*nstancev1.InstanceStatus {
	if group == "" {
		return sorted(m.byID)
	}
	return sorted(m.byGroup[group])
}

// sorted returns what was said, in the order of the keys.
func sorted[T any](all map[string]*entry[T]) []T {
	if len(all) == 0 {
		return nil
	}
	said := make([]T, 0, len(all))
	for _, key := range slices.Sorted(maps.Keys(all)) {
		said = append(said, all[key].said)
	}
	return said
}
