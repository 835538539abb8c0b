package planner

import (
	"slices"
	"time"
)

// MaxRetiring is how many instances of a group may be retiring at once. A pool that
// shrinks by more does it in turns.
const MaxRetiring = 1000

// Group is what is written down of a pool on one shard.
type Group struct {
	// Size is the wanted number of instances, those that are retiring left out.
	Size int
	// Retiring are the instances that go on purpose, sorted.
	Retiring []string
}

// Forget returns the group without the retiring instances that are known to be gone.
func Forget(g Group, gone func(id string) bool) Group {
	return Group{Size: g.Size, Retiring: slices.DeleteFunc(slices.Clone(g.Retiring), gone)}
}

// Shrunk is what becomes of a group. Group is to be written whole, before any victim is
// deleted.
type Shrunk struct {
	Group
	// Victims are the instances that start retiring now, in the order of their choice.
	Victims []Victim
	// Vacant is by how much the size is lowered without a victim, because so many
	// instances are not there yet: the server makes fewer.
	Vacant int
	// Left is how much of the change has to wait for room among the retiring.
	Left int
}

// Shrink carries out one shard's part of a plan. Candidates are the instances of the
// shard's group that are not gone; those in other shards are passed over.
//
// Requested instances go whatever their condition, save those that are being deleted: what the
// server has condemned or somebody has deleted it replaces. Where the group has fewer
// instances than its size, because they are still to be made or replaced, the size alone
// is lowered by so much. Only what then remains is chosen.
func Shrink(g Group, change Change, candidates []Candidate, choice Choice, now time.Time) Shrunk {
	live := slices.DeleteFunc(slices.Clone(candidates), func(c Candidate) bool {
		return c.Shard != change.Shard || c.Deleting || slices.Contains(g.Retiring, c.ID)
	})
	size, missing := max(g.Size, 0), max(g.Size-len(live), 0)
	wanted := min(size, len(change.Requested)+change.Pick)
	var out Shrunk
	for _, id := range change.Requested {
		i := slices.IndexFunc(live, func(c Candidate) bool { return c.ID == id })
		if i < 0 || len(out.Victims) == wanted {
			continue
		}
		out.Victims = append(out.Victims, Victim{id, choice.why(live[i], now)})
		live = slices.Delete(live, i, i+1)
	}
	rest := wanted - len(out.Victims)
	out.Vacant = min(rest, missing)
	out.Victims = append(out.Victims, choice.pick(live, rest-out.Vacant, now)...)

	if room := max(0, MaxRetiring-len(g.Retiring)); len(out.Victims) > room {
		out.Left = len(out.Victims) - room
		out.Victims = out.Victims[:room]
	}
	out.Group = Group{Size: size - len(out.Victims) - out.Vacant, Retiring: slices.Clone(g.Retiring)}
	for _, v := range out.Victims {
		out.Retiring = append(out.Retiring, v.ID)
	}
	slices.Sort(out.Retiring)
	return out
}
