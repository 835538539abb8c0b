package scale

import (
	"context"
	"fmt"
	"time"
)

// watchMachines notes when NstanceMachines have a provider id.
func (w *world) watchMachines() *sightings {
	w.t.Helper()
	return w.watch(nstanceMachines, namespace, hasProviderID)
}

// makeInstances has shards make, or not make, the instances that their groups lack. Where they don't, what
// is measured is the way of a size alone.
func (w *world) makeInstances(yes bool) {
	for _, shard := range shards {
		w.shards.Shard(shard).SetAuto(yes)
	}
}

// appearInTurn makes pools larger by one, one after another, and returns how long after its instance ran
// each NstanceMachine had a provider id.
func (w *world) appearInTurn(o *operator, pools []Pool) []time.Duration {
	w.t.Helper()
	w.makeInstances(true)
	defer w.makeInstances(false)
	w.rest(o)
	seen := w.watchMachines()
	var delays []time.Duration
	for i := range pools {
		began := time.Now()
		w.scale(pools[i:i+1], 1)
		ran := w.started(pools[i:i+1], began, 1)
		delays = append(delays, delaysBetween(ran, w.seen(seen, ran))...)
	}
	return delays
}

// started waits until so many instances of some pools have begun to run since, and returns when each did.
func (w *world) started(pools []Pool, since time.Time, n int) map[string]time.Time {
	w.t.Helper()
	at := map[string]time.Time{}
	w.await(fmt.Sprintf("%d instances run", n), look, func(context.Context) error {
		for _, pool := range pools {
			for _, shard := range shards {
				for _, in := range w.shards.Shard(shard).Instances(tenant, pool.Name) {
					if ran := in.GetRegisteredAt().AsTime(); in.GetStatus() == "running" && !ran.Before(since) {
						at[in.GetInstanceId()] = ran
					}
				}
			}
		}
		if len(at) < n {
			return fmt.Errorf("%d do", len(at))
		}
		return nil
	})
	return at
}

// seen waits until the objects of all these instances are as they are to become, and returns when each
// was first seen so. Others that are seen meanwhile do not count.
func (w *world) seen(s *sightings, instances map[string]time.Time) map[string]time.Time {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	at := map[string]time.Time{}
	for id := range instances {
		seen, err := s.await(ctx, id)
		if err != nil {
			w.t.Fatalf("%s has no provider id: %v", id, err)
		}
		at[id] = seen
	}
	return at
}

// delaysBetween returns how much later each came than in the earlier map; zero where it was noticed sooner.
func delaysBetween(earlier, later map[string]time.Time) []time.Duration {
	var delays []time.Duration
	for id, at := range later {
		delays = append(delays, max(0, at.Sub(earlier[id])))
	}
	return delays
}
