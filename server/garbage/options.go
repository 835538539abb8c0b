package garbage

import (
	"context"
	"log/slog"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
	"nstance.dev/server/instances"
)

// Options are what a [Collector] works with. All are required.
type Options struct {
	Owner     driver.Owner
	Instances *instances.Store
	Cache     *cache.Cache             // of the same instances; those that ended long ago are dropped from it
	Config    func() *effective.Config // in force
	Liveness  Liveness
	Provider  Provider
	Metrics   *Metrics
	Now       func() time.Time
	Log       *slog.Logger

	// Paused reports whether nothing may be deleted in a group because somebody said so.
	Paused func(group fleet.GroupID) bool

	// Lag is how long the provider may lack a machine that it has made.
	Lag func() time.Duration

	// DeletesGoOn is told that the listing is believed again.
	DeletesGoOn func()

	// Go runs do in a goroutine with a context that ends with the term, and not at all once
	// the term is over.
	Go func(do func(ctx context.Context))

	// Over reports whether err ends the leader's term, and ends it if so.
	Over func(err error) bool
}

// Liveness is told what a listing shows. [liveness.Monitor] is one, and says more about the
// methods.
type Liveness interface {
	Observe(m driver.Machine, asked time.Time) bool
	Missing(id identity.ID, by fleet.Source, asked time.Time)
	Gone(id identity.ID)
	Ask(ctx context.Context, id identity.ID)
	LastCreate(in cache.Instance) time.Time
}

// Provider lists machines, and deletes those that were left over. [provider.Client] is one,
// and says more about the methods.
type Provider interface {
	List(ctx context.Context, owner driver.Owner) ([]driver.Machine, error)
	WaitDelete(ctx context.Context, group fleet.GroupID) error
	Delete(ctx context.Context, group fleet.GroupID, ref driver.Ref) error
}
