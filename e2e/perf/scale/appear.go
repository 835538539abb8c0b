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

// appear returns how long it took from the moment at which an instance ran until its NstanceMachine
// had a provider id, for each instance of some pools that has begun to run since.
func (w *world) appear(s *sightings, pools []Pool, since time.Time) []time.Duration {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	var delays []time.Duration
	for _, pool := range pools {
		for _, shard := range shards {
			for _, in := range w.shards.Shard(shard).Instances(tenant, pool.Name) {
				ran := in.GetRegisteredAt().AsTime()
				if in.GetStatus() != "running" || ran.Before(since) {
					continue
				}
				at, err := s.await(ctx, in.GetInstanceId())
				if err != nil {
					w.t.Fatalf("NstanceMachine %s has no provider id: %v", in.GetInstanceId(), err)
				}
				delays = append(delays, at.Sub(ran))
			}
		}
	}
	return delays
}
