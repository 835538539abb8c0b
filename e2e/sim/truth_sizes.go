package sim

import (
	"slices"
	"time"

	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/objectstore/memory"
)

// sizeSince is what a group's size was from a moment on.
type sizeSince struct {
	at   time.Time
	size int
	gone bool // deleted, or never there
}

// groups takes note of the sizes that groups have from now on.
func (t *truth) groups(write memory.Write) {
	var file *groupfile.File
	if !write.Deleted {
		var err error
		if file, err = groupfile.Decode(write.Key, write.Data); err != nil {
			return // somebody damaged it: the last known sizes hold
		}
	}
	t.mu.Lock()
	before := t.file
	t.file = file
	t.mu.Unlock()
	t.w.forgetPauses(before, file)
	t.resize()
}

// resize works the sizes out from the configuration and the group file.
func (t *truth) resize() {
	cfg := t.w.static().Config
	t.mu.Lock()
	defer t.mu.Unlock()
	merged, _ := effective.Groups(cfg, t.file)
	now := time.Now()
	seen := map[groupID]bool{}
	for key, eff := range merged {
		g := groupID{key.Tenant, key.Group}
		seen[g] = true
		t.infra[g] = eff.InfraHash
		t.note(g, sizeSince{now, eff.Size, eff.Deleted})
	}
	for g := range t.sizes {
		if !seen[g] {
			t.note(g, sizeSince{at: now, gone: true})
		}
	}
}

func (t *truth) note(g groupID, s sizeSince) {
	if all := t.sizes[g]; len(all) > 0 {
		if last := all[len(all)-1]; last.size == s.size && last.gone == s.gone {
			return
		}
	}
	t.sizes[g] = append(t.sizes[g], s)
}

// largest is the largest size that a group had at any time since a moment.
func (t *truth) largest(g groupID, since time.Time) int {
	most := 0
	for _, s := range t.sizesSince(g, since) {
		most = max(most, s.size)
	}
	return most
}

// smallest is the smallest size that a group had at any time since a moment.
func (t *truth) smallest(g groupID, since time.Time) int {
	least := -1
	for _, s := range t.sizesSince(g, since) {
		if least < 0 || s.size < least {
			least = s.size
		}
	}
	return max(least, 0)
}

// wasGone reports whether a group was not there at some time since a moment.
func (t *truth) wasGone(g groupID, since time.Time) bool {
	sizes := t.sizesSince(g, since)
	return len(sizes) == 0 || slices.ContainsFunc(sizes, func(s sizeSince) bool { return s.gone })
}

// sizesSince are the sizes that a group had since a moment, the one that it had then
// first.
func (t *truth) sizesSince(g groupID, since time.Time) []sizeSince {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.sizes[g]
	for i := len(all) - 1; i > 0; i-- {
		if all[i].at.Before(since) {
			return slices.Clone(all[i:])
		}
	}
	return slices.Clone(all)
}

// size is what a group's size is now.
func (t *truth) size(g groupID) sizeSince {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.sizes[g]
	if len(all) == 0 {
		return sizeSince{gone: true}
	}
	return all[len(all)-1]
}

// groupsNow are all groups that ever were.
func (t *truth) groupsNow() []groupID {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []groupID
	for g := range t.sizes {
		all = append(all, g)
	}
	return all
}
