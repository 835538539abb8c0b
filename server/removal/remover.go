package removal

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/balancers"
	"nstance.dev/server/cache"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
	"nstance.dev/server/instances"
)

// Options are what a [Remover] works with. All are required but Balancers and BeforeRecord.
type Options struct {
	Instances *instances.Store
	Cache     *cache.Cache // of the same instances; read
	Groups    Groups
	Liveness  Liveness
	Provider  Provider
	Balancers *balancers.Keeper // nil: the provider has none
	Now       func() time.Time
	Log       *slog.Logger

	// Group is a group as plans see it.
	Group func(group fleet.GroupID) fleet.Group

	// DrainCoordinated reports whether somebody moves the work off a tenant's machines.
	DrainCoordinated func(tenant string) bool

	// StillChosen reports whether a plan made now condemns an instance for the size of its
	// group.
	StillChosen func(group fleet.GroupID, id identity.ID) bool

	// DeletesBlocked reports whether no delete may be sent in a group now.
	DeletesBlocked func(group fleet.GroupID) bool

	// Recovering reports whether what a mass loss took is still being replaced.
	Recovering func() bool

	// Lag is how long the provider may lack a machine that it has made.
	Lag func() time.Duration

	// WaitForCreate waits until no create call of an instance is under way.
	WaitForCreate func(ctx context.Context, id identity.ID) error

	// List has all machines listed soon.
	List func()

	// Again has a group planned after a pause.
	Again func(group fleet.GroupID, after time.Duration)

	// Announce tells watchers what becomes of an instance, Failed the tenant of its group that
	// something is wrong.
	Announce func(id identity.ID, status string)
	Failed   func(group fleet.GroupID, id identity.ID, class, text string)

	// BeforeRecord deletes what is stored of an instance beside its record, which is deleted
	// next. It may be called again. nil: nothing is.
	BeforeRecord func(ctx context.Context, id identity.ID) error

	// Deleted is told how long an accepted delete call took.
	Deleted func(took time.Duration)

	// Go runs a function in a goroutine that the leader's term waits for.
	Go func(func())

	// Over reports whether err ends the leader's term, and ends it if so.
	Over func(err error) bool
}

// Groups is what should be. [groups.Store] is one.
type Groups interface {
	// Config is the configuration in force.
	Config() *effective.Config
	// Find returns what is known of a group that exists, be it blocked or deleted.
	Find(id fleet.GroupID) (*effective.Group, bool)
}

// Liveness is what was heard of instances. [liveness.Monitor] is one.
type Liveness interface {
	// Heard adds what was heard of instances to them.
	Heard(ins []fleet.Instance) []fleet.Instance
}

// Provider is who deletes machines. [provider.Client] is one, and says more about the methods.
type Provider interface {
	WaitDelete(ctx context.Context, group fleet.GroupID) error
	Delete(ctx context.Context, group fleet.GroupID, ref driver.Ref) error
	Get(ctx context.Context, ref driver.Ref) (driver.Machine, error)
	ReadsPerSecond() float64
}

// Remover ends instances for one leader's term. It is safe for concurrent use.
type Remover struct {
	opts   Options
	ctx    context.Context //nolint:containedctx // the leadership's: effects end with it, not with a caller
	bounds *deletions      // of instances in deleted groups
	losses *window         // replaced after a mass loss

	awaiting atomic.Int64 // deletes that were accepted and whose VM may still be there
}

// New returns a remover that has removed nothing. Its effects end with ctx, which proves the
// lease.
func New(ctx context.Context, opts Options) *Remover {
	return &Remover{opts: opts, ctx: ctx, bounds: newDeletions(), losses: &window{span: time.Minute}}
}

func refOf(in cache.Instance) driver.Ref {
	return driver.Ref{InstanceID: in.ID, ProviderID: in.ProviderID}
}
