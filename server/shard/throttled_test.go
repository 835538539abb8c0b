package shard

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"nstance.dev/server/config/requests"
	"nstance.dev/server/fleet"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/memory"
)

// onceASecond is a store that takes one write per second and object.
func onceASecond() memory.Faults {
	last := map[string]time.Time{}
	return func(c memory.Call) memory.Fault {
		if c.Op != memory.OpPut {
			return memory.Fault{}
		}
		if time.Since(last[c.Key]) < time.Second {
			return memory.Fault{Before: objectstore.ErrThrottled}
		}
		last[c.Key] = time.Now()
		return memory.Fault{}
	}
}

// setVar changes a group without a machine.
func (w *world) setVar(group fleet.GroupID, value string) error {
	change := requests.GroupChange{Template: "plain", Vars: map[string]string{"x": value}}
	_, err := w.term().requests.UpsertGroup(w.ctx, group.Tenant, group.Name, change, nil)
	return err
}

// Changes of groups come at 250 a second, and the store takes one write a second:
// the changes that wait share a write, and each is durable when it is answered.
func TestP11_ChangesOfGroupsShareAWrite(t *testing.T) {
	const perSecond, seconds, groups = 250, 8, 40
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.store.SetFaults(onceASecond())
		var mu sync.Mutex
		var took []time.Duration
		var callers sync.WaitGroup
		for n := range perSecond * seconds {
			callers.Go(func() {
				began := time.Now()
				err := w.setVar(fleet.GroupID{Tenant: "default", Name: fmt.Sprintf("g%d", n%groups)}, fmt.Sprint(n))
				mu.Lock()
				defer mu.Unlock()
				took = append(took, time.Since(began))
				if err != nil {
					t.Errorf("change %d: %v", n, err)
				}
			})
			w.settle(time.Second / perSecond)
		}
		began := time.Now()
		callers.Wait()
		slices.Sort(took)
		p50, p99, most := took[len(took)/2], took[len(took)*99/100], took[len(took)-1]
		t.Logf("%d changes at %d a second: p50 %v, p99 %v, at most %v", len(took), perSecond, p50, p99, most)
		if p99 > 2500*time.Millisecond || time.Since(began) > 2500*time.Millisecond {
			t.Errorf("P11: p99 %v, the last one after %v; want 2.5s", p99, time.Since(began))
		}
	})
}
