package removal

import (
	"maps"
	"slices"
	"sync"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/fleet"
)

// window counts what happened within the last span. It is safe for concurrent use.
type window struct {
	span time.Duration

	mu    sync.Mutex
	times []time.Time
	shut  time.Time // there is no room before
}

// room returns how many more may happen under the bound now, and when there
// will be more room than that (zero: nothing is counted).
func (w *window) room(bound int, now time.Time) (int, time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trim(now)
	switch {
	case now.Before(w.shut):
		return 0, w.shut
	case len(w.times) == 0:
		return bound, time.Time{}
	}
	return max(bound-len(w.times), 0), w.times[0].Add(w.span)
}

// take counts something that begins now if there is room for it.
func (w *window) take(bound int, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trim(now)
	if now.Before(w.shut) || len(w.times) >= bound {
		return false
	}
	w.times = append(w.times, now)
	return true
}

// ended counts from now on what took room when it began: nobody knows when in
// between it happened.
func (w *window) ended(begun, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if i := slices.IndexFunc(w.times, begun.Equal); i >= 0 {
		w.times = append(slices.Delete(w.times, i, i+1), now)
	}
}

// shutFor leaves no room for a span.
func (w *window) shutFor(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shut = now.Add(w.span)
}

func (w *window) add(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trim(now)
	w.times = append(w.times, now)
}

func (w *window) trim(now time.Time) {
	keep := 0
	for keep < len(w.times) && !now.Before(w.times[keep].Add(w.span)) {
		keep++
	}
	w.times = w.times[keep:]
}

// deletions count what the deletion of groups alone asks for (S8): in the shard, and in each
// group that has a bound of its own. Who deletes all objects of a cluster names machines and deletes their
// group in one go (F37); so those that were named, which wait for nothing, leave less room to the deletion of
// their own group. They are safe for concurrent use.
type deletions struct {
	mu    sync.Mutex // before those of the windows
	shard *window
	own   windows // of groups that lost machines within the span
	named windows // of groups of which machines were named within the span
}

func newDeletions() *deletions {
	return &deletions{shard: &window{span: deletionSpan}, own: windows{}, named: windows{}}
}

// deletionSpan is the time in which deletions are bound.
const deletionSpan = time.Minute

// room is [window.room] of the shard for a group, and the budget of the group by its own bound; that is
// negative if it has none.
func (d *deletions) room(group fleet.GroupID, shard, own int, now time.Time) (left int, next time.Time, budget fleet.Budget) {
	d.mu.Lock()
	defer d.mu.Unlock()
	left, next = d.shard.room(shard, now)
	if beside, later := d.beside(group, shard, now); beside < left {
		left, next = beside, later
	}
	if own >= 0 {
		budget.Limited = true
		budget.Left, budget.Next = d.own.of(group, now).room(own, now)
	}
	return left, next, budget
}

// beside is the room that a bound leaves a group next to those of it that were named, and when there will be more.
// The caller holds mu.
func (d *deletions) beside(group fleet.GroupID, bound int, now time.Time) (int, time.Time) {
	own, next := d.own.of(group, now).room(bound, now)
	named, later := d.named.of(group, now).room(bound, now)
	if next.IsZero() || !later.IsZero() && later.Before(next) {
		next = later
	}
	return max(own+named-bound, 0), next
}

// name counts a machine that a caller has named.
func (d *deletions) name(group fleet.GroupID, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.named.of(group, now).add(now)
}

// take counts a removal that begins now if the bounds of the shard and of the group leave
// room for it; a negative one of the group's does.
func (d *deletions) take(group fleet.GroupID, shard, own int, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	w := d.own.of(group, now)
	if left, _ := w.room(own, now); own >= 0 && left == 0 {
		return false
	}
	if left, _ := d.beside(group, shard, now); left == 0 || !d.shard.take(shard, now) {
		return false
	}
	w.add(now)
	return true
}

// ended is [window.ended] of both counts.
func (d *deletions) ended(group fleet.GroupID, begun, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.shard.ended(begun, now)
	d.own.of(group, now).ended(begun, now)
}

// windows are counts of groups.
type windows map[fleet.GroupID]*window

// of is the count of a group. Those of which nothing is counted any more are dropped.
func (c windows) of(group fleet.GroupID, now time.Time) *window {
	maps.DeleteFunc(c, func(other fleet.GroupID, w *window) bool {
		_, counts := w.room(0, now)
		return other != group && counts.IsZero()
	})
	if c[group] == nil {
		c[group] = &window{span: deletionSpan}
	}
	return c[group]
}

// ownDeletionBound is how many machines of a deleted group may go in a minute by its own
// rails.max_delete_share; negative: it has none. A nil group has none.
func ownDeletionBound(group *effective.Group, members []fleet.Instance) int {
	if group == nil {
		return -1
	}
	share, has := group.DeleteShare()
	if !has {
		return -1
	}
	n := 0
	for _, in := range members {
		if in.MayRun() && !in.OnDemand { // those that leave too, so that the bound does not shrink under the plan
			n++
		}
	}
	return max(1, share.Of(n))
}

// bound is how many instances may go in a minute that no caller named: those of deleted
// groups, and those lost at once in great numbers (S8).
func (r *Remover) bound() int {
	live := 0
	for _, in := range r.opts.Cache.All() {
		if in.State.Live() {
			live++
		}
	}
	share := r.opts.Groups.Config().Server.Rails.MaxDeleteShare
	return max(10, share.Of(live))
}

// AfterAnother leaves no room for a minute: nobody knows what the last leader did in its last
// one.
func (r *Remover) AfterAnother() { r.bounds.shard.shutFor(r.opts.Now()) }

// Budget is how many instances of a deleted group may be condemned now: what the bound of the
// shard leaves and when it leaves more, and the budget of the group by its own bound.
func (r *Remover) Budget(group fleet.GroupID, members []fleet.Instance, now time.Time) (left int, next time.Time, own fleet.Budget) {
	eff, _ := r.opts.Groups.Find(group)
	return r.bounds.room(group, r.bound(), ownDeletionBound(eff, members), now)
}

// takeDeletion takes one of [Remover.Budget], if there is one.
func (r *Remover) takeDeletion(group fleet.GroupID, now time.Time) bool {
	eff, _ := r.opts.Groups.Find(group)
	return r.bounds.take(group, r.bound(), ownDeletionBound(eff, r.opts.Instances.Of(group)), now)
}

// Losses is how many lost machines may be replaced now; after a mass loss alone it is limited.
func (r *Remover) Losses(now time.Time) fleet.Budget {
	if !r.opts.Recovering() {
		return fleet.Budget{}
	}
	left, next := r.losses.room(r.bound(), now)
	return fleet.Budget{Limited: true, Left: left, Next: next}
}

// MayReplace takes the replacement of a lost machine out of what a mass loss leaves for
// a minute (S8). Groups are planned at the same time: the plan has looked at
// [Remover.Losses], and this keeps it.
func (r *Remover) MayReplace(id identity.ID) bool {
	row, ok := r.opts.Instances.Known(id)
	if !ok || row.Power != fleet.Gone {
		return true
	}
	if r.opts.Recovering() {
		return r.losses.take(r.bound(), r.opts.Now())
	}
	r.losses.add(r.opts.Now())
	return true
}
