package shard

import (
	"context"
	"errors"

	"nstance.dev/server/cache"
	"nstance.dev/server/decisions"
	"nstance.dev/server/events"
	"nstance.dev/server/garbage"
	"nstance.dev/server/groups"
	"nstance.dev/server/instances"
	"nstance.dev/server/layout"
	"nstance.dev/server/liveness"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/provider"
	"nstance.dev/server/provisioning"
	"nstance.dev/server/refusal"
	"nstance.dev/server/removal"
	"nstance.dev/server/status"
	"nstance.dev/server/traces"
)

// Requests carries out what operators and agents ask for, in plain types. What it has done is
// durable when it returns (S15).
type Requests struct {
	opts       Options
	leadership *leadership
	queue      *queue
	planner    *planner
	cache      *cache.Cache // read; whoever changes an instance does so by instances
	instances  *instances.Store
	groups     *groups.Store
	liveness   *liveness.Monitor
	launcher   *provisioning.Launcher
	removals   *removal.Remover
	collector  *garbage.Collector
	status     *status.Reader
	provider   *provider.Client
	told
}

// told are those who hear of what was asked for.
type told struct {
	events *events.Broadcaster
	traces *traces.Traces
	// demandChanged says that what demand buys by has changed.
	demandChanged func()
	// gaps are the times of which decisions may be missing.
	gaps func() []decisions.Gap
}

// errUnknown answers for objects that do not exist and for those of other
// tenants alike (S12).
func errUnknown(what, name string) *refusal.Error {
	return refusal.New(refusal.NotFound, "NOT_FOUND", "%s %q not found", what, name)
}

// answerTo says to a caller why something is not done.
func answerTo(err error) error {
	if refused := (*refusal.Error)(nil); errors.As(err, &refused) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return unavailable(err)
}

// unavailable answers for trouble with a record in storage, or with the provider.
func unavailable(err error) *refusal.Error {
	return refusal.Storage(err, layout.ErrUnreadable, layout.ErrNewer, objectstore.ErrNotFound)
}
