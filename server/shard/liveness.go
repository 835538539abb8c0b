package shard

import (
	"time"

	"nstance.dev/server/cache"
	"nstance.dev/server/liveness"
)

// newsPause is how long a group waits to be planned after one of its agents has
// first reported: after a change of leader all of them come at once, and make one
// plan a second, not one each.
const newsPause = time.Second

// newLiveness is what knows who is well.
func newLiveness(r *Term) *liveness.Monitor {
	p := r.planner
	return liveness.New(liveness.Options{
		Instances: p.instances, Cache: p.cache, Provider: r.provider, Now: r.opts.Now, Log: r.opts.Log,
		Settings: func() liveness.Settings {
			server := &p.groups.Config().Server
			return liveness.Settings{
				ReportInterval: server.HealthCheckInterval.Std(), RequestTimeout: server.RequestTimeout.Std(),
				RegistrationTimeout: server.GarbageCollection.RegistrationTimeout.Std(), Lag: r.opts.Driver.Lag(),
			}
		},
		Go: r.leadership.tasks.Go, Changed: r.livenessChanged, List: func() { p.collector.Soon() }, Over: r.leadership.endIfOver,
		FoundSick: func(in cache.Instance, why string, at time.Time) {
			p.launcher.FoundSick(in, why, at)
		},
	})
}

// livenessChanged tells whom it concerns how an instance is, and has its group planned: at
// once where the provider takes its machine back, for the replacement has little time (F34).
func (r *Term) livenessChanged(c liveness.Change) {
	in := c.Instance
	if in.ID != "" {
		r.demand.Changed(in.ID)
	}
	switch c.Event {
	case liveness.Well:
		r.events.Instance(in.ID, "running")
		r.balancers.Touch(in.ID)
	case liveness.Sick:
		r.planner.launcher.ReportSick(in, c.Said)
	case liveness.FirstReport: // somebody may wait for that
		r.queue.enqueueAfter(in.Group, newsPause)
		r.balancers.Touch(in.ID)
		return
	case liveness.Silenced:
		r.queue.enqueueAll()
		return
	case liveness.Late, liveness.Noticed, liveness.NoMachine:
	}
	r.queue.Enqueue(in.Group)
}
