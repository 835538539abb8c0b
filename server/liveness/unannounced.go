package liveness

import (
	"sync"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/fleet"
)

// unannounced are the instances that are being found sick: their rows may show it already, and
// [Options.FoundSick] has not been told. They are safe for concurrent use.
type unannounced struct {
	rows *cache.Cache

	mu   sync.Mutex
	byID map[identity.ID]*announcement
}

// announcement is an instance that is being found sick, possibly by several goroutines of which one
// will be first.
type announcement struct {
	by     int            // how many goroutines
	before fleet.Instance // as it was judged
}

// begin has the instance shown as it was judged for as long as FoundSick is not told. False:
// its row is another one by now, and there is nothing to find.
func (f *unannounced) begin(judged cache.Instance) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if row, ok := f.rows.Instance(judged.ID); !ok || row.State != judged.State {
		return false
	}
	one := f.byID[judged.ID]
	if one == nil {
		one = &announcement{before: judged.Instance}
		f.byID[judged.ID] = one
	}
	one.by++
	return true
}

// end has the instance shown as its row stands, once FoundSick was told or there was nothing
// to tell.
func (f *unannounced) end(id identity.ID, told bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	one := f.byID[id]
	if one == nil {
		return // somebody else was first
	}
	if one.by--; told || one.by == 0 {
		delete(f.byID, id)
	}
}

// hide puts what an instance was before in the place of what its row shows, where FoundSick is
// yet to be told.
func (f *unannounced) hide(in *fleet.Instance) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if one := f.byID[in.ID]; one != nil && in.State.Sick() {
		condemning, writing := in.Condemning, in.Writing // told by its record, not by its row
		*in = one.before
		in.Condemning, in.Writing = condemning, writing
	}
}
