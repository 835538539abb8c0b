package shard

import (
	"context"
	"time"

	"nstance.dev/protos/binding"
	"nstance.dev/protos/identity"
	"nstance.dev/server/agents"
	"nstance.dev/server/cache"
	"nstance.dev/server/catalog"
	"nstance.dev/server/config/document"
	"nstance.dev/server/decisions"
	"nstance.dev/server/demandloop"
	"nstance.dev/server/demandmode"
	"nstance.dev/server/driver"
	"nstance.dev/server/filesync"
	"nstance.dev/server/fleet"
	"nstance.dev/server/garbage"
	"nstance.dev/server/hostlogs"
	"nstance.dev/server/hosts"
	"nstance.dev/server/layout"
	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/pki"
	"nstance.dev/server/provisioning"
	"nstance.dev/server/removal"
	"nstance.dev/server/status"
	"nstance.dev/server/traces"
)

// newDecisions is what keeps the decisions of a term for the next.
func newDecisions(r *Term) *decisions.Keeper {
	return decisions.New(decisions.Options{
		Shard: r.opts.Shard, Term: r.leadership.term, Store: r.opts.Store, Cache: r.planner.cache,
		Writes: underLease(r.opts.Jitter), LastWrite: objectstore.RetryPolicy{Permit: lease.CheckHandOver, Jitter: r.opts.Jitter},
		Over: r.leadership.endIfOver, Now: r.opts.Now, Log: r.opts.Log,
	})
}

// newLauncher is what makes the machines of a term.
func newLauncher(r *Term) *provisioning.Launcher {
	p, opts := r.planner, r.opts
	launcher := provisioning.Options{
		Owner: r.owner(), Instances: p.instances, Cache: p.cache, Groups: p.groups, Liveness: p.liveness, Provider: r.provider,
		Keys: func() provisioning.Keys {
			keys := opts.Keys()
			return provisioning.Keys{Nonces: keys.Nonces, CA: keys.Authority.CA().Bundle()}
		},
		Addresses: opts.Addresses, FetchUserdata: opts.FetchUserdata,
		Go:   r.leadership.background,
		Wake: r.queue.Enqueue, WakeAfter: r.queue.enqueueAfter,
		Failed: r.events.Error, Over: r.leadership.endIfOver,
		Condemn: func(ctx context.Context, a fleet.Condemn) error { return p.removals.Condemn(ctx, a) },
		Traces:  r.traces, Metrics: opts.Metrics.launches, Jitter: opts.Jitter, Now: opts.Now, Log: r.opts.Log,
	}
	if slow, ok := opts.Driver.(driver.SlowCreator); ok {
		launcher.LongestCreate = slow.LongestCreate
	}
	return provisioning.New(launcher)
}

// newRemovals is what ends the instances of a term.
func newRemovals(r *Term) *removal.Remover {
	p := r.planner
	return removal.New(r.leadership.ctx, removal.Options{
		Instances: p.instances, Cache: p.cache, Groups: p.groups, Liveness: p.liveness, Provider: r.provider, Balancers: r.balancers,
		Group: p.groupOf, DrainCoordinated: p.drainCoordinated, StillChosen: p.chosen, WaitForCreate: p.launcher.WaitForCall,
		DeletesBlocked: p.collector.DeletesBlocked, Recovering: p.collector.Recovering, List: p.collector.Soon,
		Announce: r.announce, Failed: r.events.Error, BeforeRecord: r.dropAssignment,
		Again:   r.queue.enqueueAfter,
		Deleted: r.opts.Metrics.deleted, Lag: r.opts.Driver.Lag, Go: r.leadership.tasks.Go, Over: r.leadership.endIfOver, Now: r.opts.Now, Log: r.opts.Log,
	})
}

// announce tells operators what becomes of an instance that is removed. That its VM is being deleted stands in no record,
// so demand mode hears of it here.
func (r *Term) announce(id identity.ID, status string) {
	r.events.Instance(id, status)
	r.demand.Changed(id)
}

// newCollector is what compares the provider's machines with the instances of a term.
func newCollector(r *Term) *garbage.Collector {
	p := r.planner
	return garbage.New(garbage.Options{
		Owner: r.owner(), Instances: p.instances, Cache: p.cache, Config: p.groups.Config, Liveness: p.liveness, Provider: r.provider,
		Paused: p.paused, Lag: r.opts.Driver.Lag, DeletesGoOn: r.queue.enqueueAll,
		Go:      r.leadership.background,
		Metrics: r.opts.Metrics.garbage, Over: r.leadership.endIfOver, Now: r.opts.Now, Log: r.opts.Log,
	})
}

// Unmanaged returns the unmanaged machines, in the order of their provider ids.
func (r *Term) Unmanaged() []garbage.Unmanaged { return r.planner.collector.Unmanaged() }

// newFiles is what brings the machines of a term their files.
func newFiles(r *Term) *filesync.Syncer {
	p := r.planner
	return filesync.New(filesync.Options{
		Shard: r.opts.Shard, Term: r.leadership.term, Store: r.opts.Store, Secrets: r.opts.Secrets, Cache: p.cache,
		From:       func() layout.FileSources { return p.groups.Config().FileSources() },
		Authority:  func() *pki.Authority { return r.opts.Keys().Authority },
		Describe:   r.describeFiles,
		Generation: p.groups.Generation,
		Trouble: func(id identity.ID, group fleet.GroupID, text string) {
			r.events.Error(group, id, "files", text)
		},
		UndeliveredChanged: r.queue.Enqueue,
		Metrics:            r.opts.Metrics.files, Log: r.opts.Log, Now: r.opts.Now,
	})
}

// filesOf are the files of an instance, as operators see them.
func (r *Term) filesOf(id identity.ID) []status.File {
	var all []status.File
	for _, f := range r.planner.files.Files(id) {
		all = append(all, status.File(f))
	}
	return all
}

// describeFiles is what an instance is to have, and the data of its templates;
// false while that is not known, and for one that is deleted.
func (r *Term) describeFiles(id identity.ID) (filesync.Machine, bool) {
	rec, stored := r.planner.instances.Record(id)
	row, ok := r.planner.instances.Known(id)
	if !stored || !ok {
		return filesync.Machine{}, false
	}
	d, ok := r.planner.groups.Definition(row.Group, rec)
	if !ok {
		return filesync.Machine{}, false
	}
	return filesync.Machine{
		Group: row.Group, Config: d.Group, Certificates: d.Certificates, Data: r.planner.launcher.TemplateData(rec, d.Group),
	}, true
}

// newAgents is what serves the agents of a term; parking keeps their streams for the next.
func newAgents(r *Term, parking *agents.Parking) *agents.Service {
	p, opts := r.planner, r.opts
	return agents.New(r.leadership.ctx, agents.Options{
		Cluster: opts.Cluster, Shard: opts.Shard, Version: opts.Version, Term: r.leadership.term,
		Instances: p.instances, Cache: p.cache, Liveness: p.liveness, Files: p.files, Clusters: demandListener{r}, Machines: r.machines.Machines, Parking: parking,
		Config: func() *document.Config { return p.groups.Config().Config },
		Keys: func() agents.Keys {
			keys := opts.Keys()
			return agents.Keys{Authority: keys.Authority, Verifier: keys.Verifier}
		},
		ServerHosts: opts.ServerHosts,
		Failed: func(in cache.Instance, class, text string) {
			r.events.Error(in.Group, in.ID, class, text)
		},
		Trace: func(ctx context.Context, in cache.Instance) func(error) {
			rec, _ := p.instances.Record(in.ID)
			_, span := r.traces.Start(traces.Below(ctx, rec.Trace), "instance.register", in.Group, traces.Instance(in.ID))
			return func(err error) { traces.End(span, err) }
		},
		Unavailable: func(err error) error { return unavailable(err) },
		Go:          r.leadership.tasks.Go, Over: r.leadership.endIfOver,
		Unpaced: opts.Unpaced, Metrics: opts.Metrics.agents, Now: r.opts.Now, Log: r.opts.Log,
	})
}

// hostMachines are what operators ask of the machines of instances, beside their assignments.
type hostMachines struct {
	*hosts.Machines
	holds      *hosts.Holds
	operations *hosts.Operations
}

// newMachines is what keeps the assignments of host machines. Agents are made after it.
func newMachines(r *Term) *hosts.Machines {
	return hosts.New(r.leadership.ctx, hosts.Options{
		Shard: r.opts.Shard, Term: r.leadership.term, Store: r.opts.Store, Writes: underLease(r.opts.Jitter), Cache: r.planner.cache,
		Agents: func() hosts.Agents { return r.agents },
		Logs: hostlogs.New(hostlogs.Options{
			Shard: r.opts.Shard, Store: r.opts.Store, Writes: underLease(r.opts.Jitter), Now: r.opts.Now, Log: r.opts.Log,
		}),
		Heard: func(id identity.ID) { r.demand.Changed(id) }, // made after it
		Go:    r.leadership.tasks.Go, Over: r.leadership.endIfOver,
		Metrics: r.opts.Metrics.hosts, Now: r.opts.Now, Log: r.opts.Log,
	})
}

// newHolds is what puts the instances of a term on hold.
func newHolds(r *Term) *hosts.Holds {
	p := r.planner
	return hosts.NewHolds(r.leadership.ctx, hosts.HoldOptions{
		Instances: p.instances,
		LongestOff: func(in cache.Instance) time.Duration {
			var block *document.Machine
			if rec, ok := p.instances.Record(in.ID); ok {
				if d, ok := p.groups.Definition(in.Group, rec); ok {
					block = d.Group.Machine
				}
			}
			return block.Hold().Std()
		},
		Running: func(ctx context.Context, id identity.ID) (string, time.Time, error) {
			return r.machines.operations.Running(ctx, id)
		},
		Members: p.membersOf,
		Unavailable: func(err error) error {
			r.leadership.endIfOver(err)
			return answerTo(err)
		},
		Metrics: r.opts.Metrics.hosts, Now: r.opts.Now, Log: r.opts.Log,
	})
}

// newOperations is what switches the machines of a term off and on.
func newOperations(r *Term) *hosts.Operations {
	return hosts.NewOperations(r.leadership.ctx, hosts.OperationOptions{
		Shard: r.opts.Shard, Term: r.leadership.term, Store: r.opts.Store, Writes: underLease(r.opts.Jitter), Cache: r.planner.cache,
		Provider: r.provider, Observed: func(vm driver.Machine, asked time.Time) { r.planner.liveness.Observe(vm, asked) },
		Go: r.leadership.tasks.Go, Over: r.leadership.endIfOver,
		Metrics: r.opts.Metrics.hosts, Now: r.opts.Now, Log: r.opts.Log,
	})
}

// dropAssignment deletes the assignment of an instance whose record is deleted next.
func (r *Term) dropAssignment(ctx context.Context, id identity.ID) error {
	rec, ok := r.planner.instances.Record(id)
	if !ok || !rec.Machine {
		return nil
	}
	return r.machines.Drop(ctx, id, rec.Tenant)
}

// Agents serves the agents for as long as the term lasts.
func (r *Term) Agents() *agents.Service { return r.agents }

// typeListing is how the catalogue of machine types is kept: groups are shown with what
// their machines offer.
func (r *Term) typeListing() catalog.Listing {
	return catalog.Listing{
		List: r.provider.ListTypes, Over: r.leadership.endIfOver, Now: r.opts.Now, Log: r.opts.Log,
		Prices: func() bool { return r.demand.Link() != nil },
		Changed: func() {
			for id := range r.planner.groups.All() {
				r.events.Group(id)
			}
			r.demand.SupplyChanged()
		},
	}
}

// newReconciler is what makes the passes of a term, whose other parts are made.
func newReconciler(r *Term) *reconciler {
	p := r.planner
	made := &reconciler{
		opts: r.opts, leadership: r.leadership, queue: r.queue, planner: p, cache: p.cache, instances: p.instances, groups: p.groups,
		launcher: p.launcher, removals: p.removals, status: p.status, events: r.events, traces: r.traces,
		noted: p.decisions.Changed,
	}
	made.act = made.apply
	return made
}

// newRequests is what carries out the requests to a term, whose other parts are made.
func newRequests(r *Term) *Requests {
	p := r.planner
	return &Requests{
		opts: r.opts, leadership: r.leadership, queue: r.queue, planner: p, cache: p.cache, instances: p.instances, groups: p.groups,
		liveness: p.liveness, launcher: p.launcher, removals: p.removals, collector: p.collector, status: p.status,
		provider: r.provider, told: told{events: r.events, traces: r.traces, demandChanged: r.demand.SupplyChanged, gaps: p.decisions.Gaps},
	}
}

// newDemand is the demand mode of a term, which begins when a group asks for it.
func newDemand(r *Term) *demandmode.Mode {
	p := r.planner
	return demandmode.New(demandmode.Options{
		Term: r.leadership.term, Instances: p.instances, Cache: p.cache, Groups: p.groups,
		Types: func() ([]driver.InstanceType, bool) {
			if !r.provider.ListsTypes() {
				return nil, false
			}
			return r.catalog.Types(), true
		},
		Launcher: p.launcher, Removals: p.removals, Agents: r.agents, NewID: r.opts.NewID,
		URI: func(in cache.Instance) string { return p.status.ProviderURI(in) },
		Host: func(id identity.ID) demandloop.Host {
			assigned, failed := r.machines.Node(id)
			return demandloop.Host{Assigned: assigned, Failed: failed}
		},
		Metrics: r.opts.Metrics.demand, Now: r.opts.Now, Log: r.opts.Log.With("component", "demand"),
	})
}

// Demand is what the sessions of demand mode speak to; nil while no group asks for that mode.
func (r *Term) Demand() demandloop.Link { return r.demand.Link() }

// DemandWaits reports whether demand mode is asked for and has not begun yet.
func (r *Term) DemandWaits() bool { return r.demand.Waiting() }

// demandUsage is what the machines of a group of mode demand take; nil: nothing has been decided in this term.
func (r *Term) demandUsage(id fleet.GroupID) *status.Usage {
	if r.demand == nil { // the term is being made
		return nil
	}
	u, ok := r.demand.Usage(id)
	if !ok {
		return nil
	}
	out := &status.Usage{Machines: u.Machines, Idle: u.Idle, HourlyMicroUSD: u.Spend, Full: u.Full, Shortfalls: u.Shortfalls}
	for _, a := range u.Resources {
		switch a.Name {
		case "cpu":
			out.VCPU = (a.Amount + 999) / 1000
		case "memory":
			out.MemoryGiB = (a.Amount + 1<<30 - 1) >> 30
		case "pods", "ephemeral-storage":
		default:
			if out.GPUs == nil {
				out.GPUs = map[string]int64{}
			}
			out.GPUs[a.Name] = a.Amount
		}
	}
	return out
}

// InspectDemand returns what demand mode knows of the cluster of a tenant, or of its needs whose keys begin with need; false: it has not begun.
func (r *Term) InspectDemand(ctx context.Context, tenant, need string) (demandloop.Picture, bool, error) {
	return r.demand.Inspect(ctx, tenant, need)
}

// demandListener hears of the bindings of machines. It is made before the mode is.
type demandListener struct{ r *Term }

// Greeted implements [agents.Clusters].
func (l demandListener) Greeted(id identity.ID, able bool) { l.r.demand.Greeted(id, able) }

// Binding implements [agents.Clusters].
func (l demandListener) Binding(id identity.ID, report binding.Report) {
	l.r.demand.Binding(id, report)
}
