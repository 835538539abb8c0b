package shard

import (
	"testing"
	"time"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/bucket"
	"nstance.dev/server/objectstore/memory"
)

// hangWrites has the nth write of each record that does not stand yet take so long.
func (w *world) hangWrites(n int, d time.Duration) {
	old, writes := map[identity.ID]bool{}, map[identity.ID]int{}
	for _, rec := range w.records() {
		old[rec.ID] = true
	}
	w.store.SetFaults(func(c memory.Call) memory.Fault {
		_, _, id, err := bucket.ParseInstanceKey(c.Key)
		if c.Op != memory.OpPut || err != nil || old[id] {
			return memory.Fault{}
		}
		if writes[id]++; writes[id] == n {
			return memory.Fault{Latency: d}
		}
		return memory.Fault{}
	})
}

// TestS6_SizeThatWaitedIsLookedAtAgain: the condemnation of a machine that is one too
// many waits for an earlier write of its record, and by then another one has gone, as its
// owner asked for.
func TestS6_SizeThatWaitedIsLookedAtAgain(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 4)
		w.settle(time.Minute)
		asked := w.vms(web)[0].InstanceID
		w.hangWrites(2, 20*time.Second) // that of the provider's id
		w.scale(web, 5)
		w.settle(2 * time.Second)
		w.scale(web, 4)
		w.settle(time.Second)
		if _, err := w.reign().DeleteInstance(w.ctx, "default", &nstancev1.DeleteInstanceRequest{InstanceId: asked.String()}); err != nil {
			t.Fatal(err)
		}
		w.settle(time.Minute)
		w.converged(4)
		if n := w.cloud.Created(); n != 5 {
			t.Errorf("%d machines were made, want 5: the fifth was needed again when its condemnation could be written", n)
		}
	})
}
