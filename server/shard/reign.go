package shard

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/util/workqueue"

	"nstance.dev/protos/identity"
	"nstance.dev/server/balancers"
	"nstance.dev/server/cache"
	"nstance.dev/server/catalog"
	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
	"nstance.dev/server/images"
	"nstance.dev/server/instances"
	"nstance.dev/server/keylock"
	"nstance.dev/server/lease"
	"nstance.dev/server/placement"
	"nstance.dev/server/provider"
	"nstance.dev/server/supply"
	"nstance.dev/server/userdata"
)

// Reign is this server's leadership of the shard, from one take-over to the loss
// of the lease. Its methods are safe for concurrent use; their effects end with
// the lease, not with the context of the caller.
type Reign struct {
	opts Options
	log  *slog.Logger
	term uint64

	ctx context.Context //nolint:containedctx // the leadership's, cancelled by end: effects end with it, not with a caller
	end context.CancelCauseFunc

	cache     *cache.Cache // read; whoever changes an instance does so by instances
	instances *instances.Store
	wanted    *wanted

	provider *provider.Client
	address  *provider.Address

	queue     workqueue.TypedDelayingInterface[fleet.GroupID]
	creator   *creator
	backoffs  *backoffs
	breakers  *breakers
	inquiries *inquiries
	book      *placement.Book // where there is room
	images    *images.Lookups
	catalog   *catalog.Book // what machine types offer
	shelf     *userdata.Shelf
	balancers *balancers.Keeper // nil: the provider has none
	deletions *window           // of instances in deleted groups
	losses    *window           // replaced after a mass loss
	health    *health
	reserved  reservations // room in the quotas of tenants
	collector *collector
	sessions  *sessions
	parking   *parking // where the streams stay when the lease is lost; nil: nowhere
	files     *supply.Supply
	events    *events
	standings *standings
	traces    *traces

	alarms      alarms
	registering keylock.Locks[identity.ID]
	placing     sync.Mutex // held while a name or address is found free and taken

	tasks tasks

	awaiting atomic.Int64 // deletes that were accepted and whose VM may still be there
}

// workers is how many groups are reconciled at once.
const workers = 8

func newReign(ctx context.Context, opts Options, log *slog.Logger, term uint64, static Static) *Reign {
	server := static.Config.Server
	r := &Reign{opts: opts, log: log, term: term, cache: opts.Cache}
	r.ctx, r.end = context.WithCancelCause(ctx)
	r.instances = newInstances(r)
	r.provider = provider.New(opts.Driver, provider.Options{
		Limits: server.Provider.Limits, Timeout: server.RequestTimeout.Std(), Now: opts.Now, Called: opts.Metrics.providerCall,
	})
	r.address = &provider.Address{
		Driver: opts.Driver, Addresses: opts.Addresses, Jitter: opts.Jitter, Failed: opts.Metrics.addressFailed, Log: log,
	}
	r.wanted = newWanted(r, static)
	r.queue = workqueue.NewTypedDelayingQueue[fleet.GroupID]()
	r.creator = newCreator(r)
	r.backoffs = newBackoffs(opts.Jitter)
	r.breakers = newBreakers()
	r.inquiries = newInquiries(r)
	r.book = placement.New(r.provider.ChecksSubnets())
	r.images = newImageLookups(r)
	r.configureImages(static.Config)
	r.catalog = &catalog.Book{}
	r.shelf = &userdata.Shelf{}
	r.balancers = newBalancers(r)
	r.deletions, r.losses = &window{span: time.Minute}, &window{span: time.Minute}
	r.health = newHealth(r)
	r.collector = newCollector(r)
	r.files = newSupply(r)
	r.sessions = newSessions(r)
	r.events = newEvents(opts.Shard, term, r.instanceStatus)
	r.standings = newStandings()
	r.traces = newTraces(opts.Tracer)
	return r
}

// run carries the shard until its context ends, or until it finds that a later
// leader has written.
func (r *Reign) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(r.ctx)
	for range workers {
		g.Go(func() error { r.work(ctx); return nil })
	}
	g.Go(func() error { r.creator.run(ctx); return nil })
	g.Go(func() error { r.health.run(ctx); return nil })
	g.Go(func() error { r.collector.run(ctx); return nil })
	g.Go(func() error { r.wanted.run(ctx); return nil })
	g.Go(func() error { r.images.Run(ctx); return nil })
	if r.provider.ListsTypes() {
		g.Go(func() error { r.catalog.Run(ctx, r.typeListing()); return nil })
	}
	if r.balancers != nil {
		g.Go(func() error { r.balancers.Run(ctx); return nil })
	}
	g.Go(func() error { r.instances.Run(ctx); return nil })
	g.Go(func() error { return r.files.Run(ctx) })
	g.Go(func() error {
		<-ctx.Done()
		r.queue.ShutDown()
		r.events.close()
		r.sessions.closeAll()
		return nil
	})
	r.enqueueAll()
	err := g.Wait()
	r.end(nil) // tasks end with it
	r.tasks.Wait()
	return errors.Join(err, superseded(r.ctx))
}

// abandon ends a reign that never came to run.
func (r *Reign) abandon(why error) {
	r.end(why)
	r.queue.ShutDown()
	r.balancers.Close()
	r.files.Close()
	r.tasks.Wait()
}

// superseded returns why the reign ended itself, nil if the lease just ended.
func superseded(ctx context.Context) error {
	if cause := context.Cause(ctx); errors.Is(cause, lease.ErrSuperseded) {
		return cause
	}
	return nil
}

// stumble ends the reign if err says that it is over. It reports whether it did.
func (r *Reign) stumble(err error) bool {
	if errors.Is(err, lease.ErrSuperseded) {
		r.end(err)
		return true
	}
	return lost(err)
}

// Term is the number of this leadership; it grows with every change of leader.
func (r *Reign) Term() uint64 { return r.term }

// Context ends with the reign.
func (r *Reign) Context() context.Context { return r.ctx }

// Enqueue has a group reconciled soon. Repeats coalesce.
func (r *Reign) Enqueue(group fleet.GroupID) { r.queue.Add(group) }

func (r *Reign) enqueueAll() {
	for id := range r.wanted.all() {
		r.queue.Add(id)
	}
	for _, in := range r.cache.All() {
		if in.State != fleet.Deleted {
			r.queue.Add(in.Group)
		}
	}
}

func (r *Reign) now() time.Time { return r.opts.Now() }

func (r *Reign) owner() driver.Owner {
	return driver.Owner{Cluster: r.opts.Cluster, Shard: r.opts.Shard}
}

func refOf(in cache.Instance) driver.Ref {
	return driver.Ref{InstanceID: in.ID, ProviderID: in.ProviderID}
}
