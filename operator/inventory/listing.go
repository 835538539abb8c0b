package inventory

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// A complete listing that lacks more than BrakeFloor and more than a fourth of what a
// shard had has to be confirmed by another one, at least BrakeWait later, that lacks the same.
const (
	BrakeFloor = 3
	BrakeWait  = 30 * time.Second
)

// Brake reports whether so many absences at once need a second listing.
func Brake(absent, known int) bool { return absent > BrakeFloor && absent*4 > known }

// GroupList is the answer to one question for all groups.
type GroupList struct {
	Groups []*nstancev1.GroupStatus
	// Asked is when the question was sent: what was heard of later is not missing.
	Asked time.Time
}

// InstanceList is the answer to one question for all instances, its pages put together.
type InstanceList struct {
	Instances []*nstancev1.InstanceStatus
	// Complete: every page said so. What an incomplete list lacks means nothing.
	Complete bool
	// Asked is when the question for the first page was sent.
	Asked time.Time
}

// ListedGroups takes in a listing of the groups, which is believed under the same
// conditions as a complete one of the instances.
func (s *Shard) ListedGroups(list GroupList, now time.Time) []Change {
	s.prune(now)
	before := s.State()
	var changes []Change
	listed := map[string]bool{}
	for _, g := range list.Groups {
		if ended, ok := s.ended[g.GetKey()]; ok && !ended.Before(list.Asked) {
			continue // it may have been deleted after it was listed
		}
		if list.Asked.Before(s.listedAt.groups) && s.groups[g.GetKey()] == nil {
			continue // it was gone when the newer listing was made
		}
		listed[g.GetKey()] = true
		changes = append(changes, s.group(g, list.Asked)...)
	}
	if !s.believes(list.Asked) {
		return append(changes, s.changed(before)...)
	}
	for _, key := range slices.Sorted(maps.Keys(s.groups)) {
		if !listed[key] && s.groups[key].heard.Before(list.Asked) {
			delete(s.groups, key)
			changes = append(changes, Change{Kind: GroupGone, Group: key})
		}
	}
	s.state.GroupsSynced, s.state.GroupsAt = true, now
	s.listedAt.groups = later(s.listedAt.groups, list.Asked)
	return append(changes, s.changed(before)...)
}

// ListedInstances takes in a listing of the instances. A listing that is not complete, or
// was asked for on an earlier connection, adds and updates, and removes nothing. One that
// was asked for before another that was believed updates what that one left.
func (s *Shard) ListedInstances(list InstanceList, now time.Time) []Change {
	s.prune(now)
	before := s.State()
	known := len(s.instances.byID)
	var changes []Change
	listed := map[string]bool{}
	for _, i := range list.Instances {
		id := i.GetInstanceId()
		if list.Asked.Before(s.listedAt.instances) && s.instances.byID[id] == nil {
			continue // it was gone when the newer listing was made
		}
		listed[id] = true
		changes = append(changes, s.instance(i, list.Asked)...)
	}
	if list.Complete && s.believes(list.Asked) {
		changes = append(changes, s.absent(listed, known, list.Asked, now)...)
		s.state.InstancesSynced, s.state.InstancesAt = true, now
		s.listedAt.instances = later(s.listedAt.instances, list.Asked)
	}
	return append(changes, s.changed(before)...)
}

// absent removes what a complete listing lacks, or holds it if it is too much.
func (s *Shard) absent(listed map[string]bool, known int, asked, now time.Time) []Change {
	var lacking []string
	for _, id := range slices.Sorted(maps.Keys(s.instances.byID)) {
		if !listed[id] && s.instances.byID[id].heard.Before(asked) {
			lacking = append(lacking, id)
		}
	}
	hold := Brake(len(lacking), known)
	var changes []Change
	news := false
	for _, id := range lacking {
		since, noticed := s.missing[id]
		switch {
		case hold && !noticed:
			s.missing[id] = now
			news = true
		case !hold || asked.Sub(since) >= BrakeWait:
			s.unlisted[id] = tombstone{at: now, why: cmp.Or(s.instances.byID[id].said.GetCondemned().GetReason(), Unlisted)}
			changes = append(changes, s.remove(id, Unlisted)...)
		}
	}
	if news {
		changes = append(changes, Change{
			Kind: Shrunken,
			Why:  fmt.Sprintf("%d of %d instances are missing at once; they count until a listing %v later lacks them too", len(lacking), known, BrakeWait),
		})
	}
	return changes
}

// group takes in what was said about one group.
func (s *Shard) group(g *nstancev1.GroupStatus, heard time.Time) []Change {
	if foreign := s.foreign(g.GetTenant(), "a group"); foreign != nil {
		return foreign
	}
	old := s.groups[g.GetKey()]
	if old != nil && g.GetRevision() < old.said.GetRevision() {
		return nil
	}
	s.groups[g.GetKey()] = &entry[*nstancev1.GroupStatus]{said: g, heard: latest(old, heard)}
	if old != nil && same(old.said, g) {
		return nil
	}
	return []Change{{Kind: GroupChanged, Group: g.GetKey()}}
}

// same reports whether nothing but the revision differs: servers give every description
// of a group a new one.
func same(a, b *nstancev1.GroupStatus) bool {
	b = proto.CloneOf(b)
	b.Revision = a.GetRevision()
	return proto.Equal(a, b)
}

// instance takes in what was said about one instance.
func (s *Shard) instance(i *nstancev1.InstanceStatus, heard time.Time) []Change {
	if foreign := s.foreign(i.GetTenant(), "an instance"); foreign != nil {
		return foreign
	}
	id := i.GetInstanceId()
	if _, deleted := s.tombstones[id]; deleted {
		return nil
	}
	delete(s.missing, id)
	delete(s.unlisted, id)
	old := s.instances.byID[id]
	if old != nil && i.GetRevision() < old.said.GetRevision() {
		old.heard = latest(old, heard)
		return nil
	}
	if old != nil {
		i = stillNamed(i, old.said)
	}
	s.instances.put(id, &entry[*nstancev1.InstanceStatus]{said: i, heard: latest(old, heard)})
	if old != nil && proto.Equal(old.said, i) {
		return nil
	}
	return []Change{{Kind: InstanceChanged, Group: i.GetGroup(), Instance: id}}
}

// stillNamed returns what is said now of an instance, with what its provider called it before
// where that is left out: an instance keeps its machine for life, and a leader that does not
// say which it is has yet to be told by the provider.
func stillNamed(now, before *nstancev1.InstanceStatus) *nstancev1.InstanceStatus {
	if now.GetProviderUri() != "" || before.GetProviderUri() == "" {
		return now
	}
	now = proto.CloneOf(now)
	now.ProviderUri = before.GetProviderUri()
	now.ProviderInstanceId = cmp.Or(now.GetProviderInstanceId(), before.GetProviderInstanceId())
	return now
}

// latest returns the later of when something was heard of before and now.
func latest[T any](old *entry[T], heard time.Time) time.Time {
	if old == nil {
		return heard
	}
	return later(old.heard, heard)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// remove takes an instance out.
func (s *Shard) remove(id, why string) []Change {
	delete(s.missing, id)
	old := s.instances.byID[id]
	if old == nil {
		return nil
	}
	s.instances.remove(id)
	return []Change{{Kind: InstanceGone, Group: old.said.GetGroup(), Instance: id, Why: why}}
}
