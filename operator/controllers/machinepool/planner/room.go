package planner

import (
	"fmt"
	"time"

	"nstance.dev/operator/inventory"
)

// UnfilledTimeout is how long a shard whose provider has no room keeps the size that it does not
// fill. Then other shards are given it.
const UnfilledTimeout = 60 * time.Second

// Filling is a shard with what it has, for Unfilled.
type Filling struct {
	Shard
	CoolOff inventory.CoolOff
	// Present are its running and pending instances without those that are deleted on
	// purpose.
	Present int
}

// Lowered is a size that is given up because it cannot be filled.
type Lowered struct {
	Shard    string
	From, To int
	Reason   string
}

// Unfilled returns the sizes to be lowered to what the shards have, because their
// providers have refused more for a while. No instance goes by that; the plan that
// follows gives the rest to the other shards. Nothing is lowered while no other shard can
// grow, or the shard is not fully known.
func Unfilled(shards []Filling, now time.Time) []Lowered {
	room := false
	for _, s := range shards {
		room = room || !s.RedirectGrowth && !s.CoolOff.Refuses(now)
	}
	if !room {
		return nil
	}
	var lowered []Lowered
	for _, s := range shards {
		if s.onlyRequested() || !s.CoolOff.Refuses(now) || s.Present >= s.Size || now.Before(s.CoolOff.Since.Add(UnfilledTimeout)) {
			continue
		}
		lowered = append(lowered, Lowered{
			Shard: s.Name, From: s.Size, To: max(s.Present, 0),
			Reason: fmt.Sprintf("%s has %d of %d and no room for more: %s", s.Name, s.Present, s.Size, s.CoolOff.Why),
		})
	}
	return lowered
}

// Most is the greatest size that the pool wants of one of its shards: what the other shards leave of
// the pool's size, or the equal part, whichever is more, and the instance of an open move on top. A
// shard may have more than that: a size that is not wanted any more stays in the spec while the shard
// is not fully known.
func (p Pool) Most(shard string) int {
	rest, part, surge := max(p.Replicas, 0), 0, 0
	for i, s := range p.Shards {
		extra := 0
		if s.Surge {
			extra = 1
		}
		if s.Name == shard {
			part, surge = EqualSplit(p.Replicas, len(p.Shards))[i], extra
			continue
		}
		rest -= max(s.Size-extra, 0)
	}
	return max(rest, part) + surge
}
