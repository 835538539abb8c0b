package demandmode

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"nstance.dev/protos/binding"
	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/demand"
	"nstance.dev/server/demandloop"
	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
	"nstance.dev/server/groups"
	"nstance.dev/server/instances"
	"nstance.dev/server/offers"
)

// Options are what a [Mode] works with. All are required.
type Options struct {
	Term      uint64
	Instances *instances.Store
	Cache     *cache.Cache // of the same instances; read
	Groups    *groups.Store
	// Types are those that the provider listed last; false: it lists none.
	Types    func() (types []driver.InstanceType, hasCatalogue bool)
	Launcher Launcher
	Removals Removals
	Agents   Agents
	NewID    func(kind string) (identity.ID, error)
	URI      func(cache.Instance) string // as Nodes know a machine
	Host     func(identity.ID) demandloop.Host
	Metrics  *demandloop.Metrics
	Now      func() time.Time
	Log      *slog.Logger
}

// Mode is the demand mode of a term. It is safe for concurrent use.
type Mode struct {
	opts Options
	wake chan struct{} // has room for one
	loop atomic.Pointer[demandloop.Loop]
	book atomic.Pointer[offers.Keeper]
}

// New returns a mode that has not begun. It starts nothing.
func New(opts Options) *Mode { return &Mode{opts: opts, wake: make(chan struct{}, 1)} }

// Run waits for a group of demand mode, and then carries the mode until ctx ends, which has to be the
// leadership's. It waits for the provider's catalogue too: machines of unknown size would count
// for nothing, and others be bought in their place.
func (m *Mode) Run(ctx context.Context) error {
	for !m.wanted() || !m.sized() {
		select {
		case <-ctx.Done():
			return nil
		case <-m.wake:
		}
	}
	keeper := offers.NewKeeper(m.sources())
	loop, err := demandloop.New(demandloop.Options{
		Term: m.opts.Term, Engine: demand.Settings{Workers: engineWorkers}, Supply: func() demandloop.Supply { return m.supply(keeper.Book()) },
		Records: records{m.opts.Instances, m.opts.Cache}, Machines: machines{m.opts, m.refused}, NewID: m.opts.NewID, URI: m.opts.URI, Host: m.opts.Host, Random: random,
		Metrics: m.opts.Metrics, Now: m.opts.Now, Log: m.opts.Log,
	})
	if err != nil { // the groups with a size go on
		m.opts.Log.ErrorContext(ctx, "demand mode does not begin", "error", err)
		return nil
	}
	m.opts.Log.InfoContext(ctx, "demand mode begins", "groups", len(keeper.Book().Groups), "offers", len(keeper.Book().Offers))
	news := make(chan struct{}, 1)
	keeper.Notify(news)
	m.book.Store(keeper)
	m.loop.Store(loop)
	m.opts.Agents.RepeatBindings() // no loop has listened to them yet
	var beside sync.WaitGroup
	defer beside.Wait()
	beside.Go(func() { keeper.Run(ctx) })
	beside.Go(func() { m.pass(ctx, news, loop) })
	if err := loop.Run(ctx); err != nil {
		return fmt.Errorf("demand mode: %w", err)
	}
	return nil
}

// engineWorkers compute at once inside a step; more of them gain little below a hundred thousand machines.
const engineWorkers = 2

// pass passes on to the loop that there is another book, or that something else has changed that its
// supply is made of.
func (m *Mode) pass(ctx context.Context, news <-chan struct{}, loop *demandloop.Loop) {
	known := m.demandGroups()
	for {
		select {
		case <-ctx.Done():
			return
		case <-news:
		case <-m.wake:
			m.book.Load().Wake()
		}
		loop.SupplyChanged()
		if now := m.demandGroups(); !maps.Equal(known, now) {
			known = now
			m.opts.Agents.RepeatBindings() // the loop did not care for those of the groups that are new
		}
	}
}

// demandGroups are the groups of demand mode.
func (m *Mode) demandGroups() map[fleet.GroupID]bool {
	all := map[fleet.GroupID]bool{}
	for id, group := range m.opts.Groups.All() {
		if group.Demand != nil {
			all[id] = true
		}
	}
	return all
}

// wanted reports whether any group is of demand mode.
func (m *Mode) wanted() bool {
	for _, group := range m.opts.Groups.All() {
		if group.Demand != nil {
			return true
		}
	}
	return false
}

// sized reports whether the sizes of machines are known, as far as the provider lists any.
func (m *Mode) sized() bool {
	types, lists := m.opts.Types()
	return !lists || types != nil
}

// Link is what sessions of operators speak to; nil while no group is of demand mode.
func (m *Mode) Link() demandloop.Link {
	if loop := m.loop.Load(); loop != nil {
		return loop
	}
	return nil
}

// Waiting reports whether a group is of demand mode and the mode has not begun: the provider has not listed its
// types yet.
func (m *Mode) Waiting() bool { return m.loop.Load() == nil && m.wanted() }

// Inspect returns what is known of a cluster, or of its needs whose keys begin with need; false: the mode has not begun.
func (m *Mode) Inspect(ctx context.Context, cluster, need string) (demandloop.Picture, bool, error) {
	loop := m.loop.Load()
	if loop == nil {
		return demandloop.Picture{}, false, nil
	}
	p, err := loop.Inspect(ctx, cluster, need)
	return p, true, err
}

// Usage is what the machines of a group take; false: the mode has not begun, or the group is not of it.
func (m *Mode) Usage(id fleet.GroupID) (demand.Usage, bool) {
	loop := m.loop.Load()
	if loop == nil {
		return demand.Usage{}, false
	}
	return loop.Usage(id.String())
}

// SupplyChanged says that groups, pauses, the configuration or the catalogue have changed.
func (m *Mode) SupplyChanged() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// Changed says that the record or the life of an instance has changed.
func (m *Mode) Changed(id identity.ID) {
	if loop := m.loop.Load(); loop != nil {
		loop.Changed(id)
	}
}

// refused says why the machine of an instance is not made, before the instance ends.
func (m *Mode) refused(id identity.ID, why demand.Failure) {
	if loop := m.loop.Load(); loop != nil {
		loop.CreateRefused(id, why)
	}
}

// Greeted implements the listener of package agents.
func (m *Mode) Greeted(id identity.ID, able bool) {
	if loop := m.loop.Load(); loop != nil {
		loop.Greeted(id, able)
	}
}

// Binding implements the listener of package agents.
func (m *Mode) Binding(id identity.ID, r binding.Report) {
	if loop := m.loop.Load(); loop != nil {
		loop.Binding(id, r)
	}
}

// failureOf is what an error of the provider means for the offer.
func failureOf(class driver.ErrorClass) demand.Failure {
	switch class {
	case driver.Capacity:
		return demand.NoCapacity
	case driver.Quota:
		return demand.OverQuota
	default:
		return demand.FailureOther
	}
}
