package shard

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"nstance.dev/server/agents"
	"nstance.dev/server/balancers"
	"nstance.dev/server/calls"
	"nstance.dev/server/catalog"
	"nstance.dev/server/config"
	"nstance.dev/server/demandmode"
	"nstance.dev/server/driver"
	"nstance.dev/server/events"
	"nstance.dev/server/fleet"
	"nstance.dev/server/hosts"
	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/provider"
	"nstance.dev/server/status"
	"nstance.dev/server/traces"
)

// Term is this server's leadership of the shard, from one take-over to the loss
// of the lease. Its methods are safe for concurrent use; their effects end with
// the lease, not with the context of the caller.
type Term struct {
	opts       Options
	leadership *leadership
	queue      *queue
	planner    *planner // has the packages that know groups and instances
	reconciler *reconciler
	requests   *Requests
	provider   *provider.Client
	events     *events.Broadcaster
	traces     *traces.Traces
	address    *provider.Address
	catalog    *catalog.Book     // what machine types offer
	balancers  *balancers.Keeper // nil: the provider has none
	agents     *agents.Service
	machines   hostMachines
	demand     *demandmode.Mode
}

// newTerm makes a term that knows nothing yet; see [Term.takeOver]. Its parts are made in the
// order in which they need each other.
func newTerm(ctx context.Context, opts Options, term uint64, static config.Version, parking *agents.Parking) *Term {
	server := static.Config.Server
	p := &planner{cache: opts.Cache, drainers: opts.Drainers, checkArch: opts.ArchMismatch, now: opts.Now}
	r := &Term{
		opts: opts, leadership: &leadership{term: term, since: opts.Now()}, planner: p, traces: traces.New(opts.Tracer), catalog: &catalog.Book{},
	}
	r.leadership.ctx, r.leadership.end = context.WithCancelCause(ctx)
	p.instances = newInstances(r)
	r.provider = provider.New(opts.Driver, provider.Options{
		Limits: server.Provider.Limits, Timeout: server.RequestTimeout.Std(), Now: opts.Now, Called: r.leadership.noted(opts.Metrics), Waited: opts.Metrics.providerWaited,
	})
	r.address = &provider.Address{
		Driver: opts.Driver, Addresses: opts.Addresses, Jitter: opts.Jitter, Failed: opts.Metrics.addressFailed, Log: opts.Log,
	}
	p.groups = newGroups(r, static.Config)
	r.queue = newQueue(p.groups, p.cache)
	p.decisions = newDecisions(r)
	p.liveness = newLiveness(r)
	r.balancers = (&balancing{p.cache, p.instances, p.groups, r.provider, p.liveness.HasReported}).keeper(opts, r.balancerFailed)
	p.collector = newCollector(r)
	p.files = newFiles(r)
	p.status = status.New(status.Options{
		Shard: opts.Shard, Term: term, Cache: p.cache, Groups: p.groups, Catalog: r.catalog, Driver: opts.Driver, Now: opts.Now,
		Record: p.instances.Record, Files: r.filesOf, Usage: r.demandUsage,
	})
	r.events = events.New(events.Options{Shard: opts.Shard, Cache: p.cache, Status: p.status, Now: opts.Now})
	p.launcher = newLauncher(r)
	p.launcher.Configure(static.Config)
	p.removals = newRemovals(r)
	r.machines = hostMachines{newMachines(r), newHolds(r), newOperations(r)}
	r.agents = newAgents(r, parking)
	r.demand = newDemand(r)
	r.reconciler = newReconciler(r)
	r.requests = newRequests(r)
	return r
}

// run carries the shard until its context ends, or until it finds that a later
// leader has written.
func (r *Term) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(r.leadership.ctx)
	g.Go(func() error { r.reconciler.run(ctx); return nil })
	g.Go(func() error { r.planner.launcher.Run(ctx); return nil })
	g.Go(func() error { r.planner.liveness.Run(ctx); return nil })
	g.Go(func() error { r.planner.collector.Run(ctx); return nil })
	g.Go(func() error { r.planner.groups.Run(ctx); return nil })
	if r.provider.ListsTypes() {
		g.Go(func() error { r.catalog.Run(ctx, r.typeListing()); return nil })
	}
	if r.balancers != nil {
		g.Go(func() error { r.balancers.Run(ctx); return nil })
	}
	g.Go(func() error { r.planner.instances.Run(ctx); return nil })
	g.Go(func() error { r.planner.decisions.Run(ctx); return nil })
	g.Go(func() error { return r.planner.files.Run(ctx) })
	g.Go(func() error { return r.demand.Run(ctx) })
	g.Go(func() error { return r.machines.Run(ctx) })
	g.Go(func() error { return r.machines.operations.Run(ctx) })
	g.Go(func() error {
		<-ctx.Done()
		r.queue.waiting.ShutDown()
		r.events.Close()
		r.agents.Close()
		return nil
	})
	r.queue.enqueueAll()
	err := g.Wait()
	r.leadership.end(nil) // tasks end with it
	r.leadership.tasks.Wait()
	if superseded(r.leadership.ctx) == nil {
		r.planner.decisions.HandOver(r.leadership.ctx)
	}
	return errors.Join(err, superseded(r.leadership.ctx))
}

// abandon ends a term that never came to run.
func (r *Term) abandon(why error) {
	r.leadership.end(why)
	r.queue.waiting.ShutDown()
	r.balancers.Close()
	r.planner.files.Close()
	r.leadership.tasks.Wait()
}

// Number is that of this leadership; it grows with every change of leader.
func (r *Term) Number() uint64 { return r.leadership.term }

// Since is when this leadership began.
func (r *Term) Since() time.Time { return r.leadership.since }

// ProviderCalls are the calls of this leadership to the provider, by operation.
func (r *Term) ProviderCalls() []calls.Stat { return r.leadership.calls.Stats() }

// Context ends with the term.
func (r *Term) Context() context.Context { return r.leadership.ctx }

// Requests carries out what operators ask of the term.
func (r *Term) Requests() *Requests { return r.requests }

// Enqueue has a group reconciled soon. Repeats coalesce.
func (r *Term) Enqueue(group fleet.GroupID) { r.queue.Enqueue(group) }

// Status reads the shard's groups and instances as operators see them.
func (r *Term) Status() *status.Reader { return r.planner.status }

// Events tells operators what happens. They end with the term.
func (r *Term) Events() *events.Broadcaster { return r.events }

// Holds put instances on hold.
func (r *Term) Holds() *hosts.Holds { return r.machines.holds }

// Operations switch machines off and on.
func (r *Term) Operations() *hosts.Operations { return r.machines.operations }

// Machines keeps the assignments of host machines.
func (r *Term) Machines() *hosts.Machines { return r.machines.Machines }

// GroupsETag is the version of the group file in force; empty while there is
// none that can be used.
func (r *Term) GroupsETag() string { return r.planner.groups.ETag() }

func (r *Term) now() time.Time { return r.opts.Now() }

func (r *Term) owner() driver.Owner {
	return driver.Owner{Cluster: r.opts.Cluster, Shard: r.opts.Shard}
}

// underLease has each try of a write prove the lease right before it (S2).
func underLease(jitter func() float64) objectstore.RetryPolicy {
	return objectstore.RetryPolicy{Permit: lease.Check, Jitter: jitter}
}
