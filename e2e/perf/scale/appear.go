package scale

import (
	"context"
	"time"
)

// watchMachines notes when NstanceMachines have a provider id.
func (w *world) watchMachines() *sightings {
	w.t.Helper()
	return w.watch(nstanceMachines, namespace, hasProviderID)
}

// started returns the instances of some pools that have begun to run since, with the moment at which
// each did.
func (w *world) started(pools []Pool, since time.Time) map[string]time.Time {
	at := map[string]time.Time{}
	for _, pool := range pools {
		for _, shard := range shards {
			for _, in := range w.shards.Shard(shard).Instances(tenant, pool.Name) {
				if ran := in.GetRegisteredAt().AsTime(); in.GetStatus() == "running" && !ran.Before(since) {
					at[in.GetInstanceId()] = ran
				}
			}
		}
	}
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
