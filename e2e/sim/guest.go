package sim

import (
	"cmp"
	"context"
	"slices"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/driver"
)

// Guest is a part of a world that this package does not know: it plays the operator of
// tenant default in place of the simulator's own callers, and what stands behind it. A
// plan has one if its setting operator is "guest". Its methods do not wait, but for
// Start and Stop.
type Guest interface {
	// Start begins, once the servers have been started.
	Start()
	// Do carries out an event of the plan: what stands after the verb guest.
	Do(args []string)
	// Up says that the agent in a machine has registered, Down that its VM runs no more.
	Up(id identity.ID)
	Down(id identity.ID)
	// Heal ends what is wrong on the guest's side, for good.
	Heal()
	// Unsettled says what is not as it should be; empty: nothing.
	Unsettled() string
	// Stop ends everything of the guest's, and waits for that.
	Stop()
}

// nobody is the guest of a world without one.
type nobody struct{}

func (nobody) Start()            {}
func (nobody) Do([]string)       {}
func (nobody) Up(identity.ID)    {}
func (nobody) Down(identity.ID)  {}
func (nobody) Heal()             {}
func (nobody) Unsettled() string { return "" }
func (nobody) Stop()             {}

// guested reports whether somebody else plays the operator of a tenant.
func (w *world) guested(tenant string) bool {
	return tenant == identity.DefaultTenant && w.plan.setting("operator") == "guest"
}

// Ground is what a guest finds in the world: its luck and its log, the way to the servers,
// and the truth, which is for checks alone. It is safe for concurrent use.
type Ground struct{ w *world }

// Plan is what the world carries out.
func (g Ground) Plan() Plan { return g.w.plan }

// Context ends with the run.
func (g Ground) Context() context.Context { return g.w.ctx }

// Later runs something beside; the run ends after it.
func (g Ground) Later(do func()) { g.w.later(do) }

// Logf notes what a person would tell.
func (g Ground) Logf(format string, args ...any) { g.w.logf(format, args...) }

// Violate notes a broken promise.
func (g Ground) Violate(promise, format string, args ...any) { g.w.violate(promise, format, args...) }

// Event counts something that happens, and notes what it is for the history.
func (g Ground) Event(format string, args ...any) { g.w.event(format, args...) }

// Fired counts a fault that was not drawn by Hits.
func (g Ground) Fired(kind string) { g.w.weather.note(kind) }

// Hits draws whether a fault of the plan's weather hits what the words name.
func (g Ground) Hits(kind string, words ...any) bool { return g.w.weather.hits(kind, words...) }

// Nth counts the calls of one kind, from 1.
func (g Ground) Nth(what string) int { return g.w.weather.number(what) }

// Between draws a time for what the words name.
func (g Ground) Between(low, high time.Duration, words ...any) time.Duration {
	return g.w.dice.between(low, high, words...)
}

// Below draws a number from 0 to below n for what the words name.
func (g Ground) Below(n int, words ...any) int { return g.w.dice.below(n, words...) }

// NewID makes ids of instances in a fixed order.
func (g Ground) NewID(prefix string) (identity.ID, error) { return g.w.newID(prefix) }

// Name is how an instance is called in the log.
func (g Ground) Name(id identity.ID) string { return g.w.nameOf(id) }

// Wishes notes that the end of an instance is asked for, and whether without a drain.
func (g Ground) Wishes(id identity.ID, skipsDrain bool) {
	g.w.mu.Lock()
	defer g.w.mu.Unlock()
	g.w.wished[id] = true
	if skipsDrain {
		g.w.acked[id] = true
	}
}

// Acknowledges notes that an instance is said to be drained, and Acknowledged that the
// shard has promised to act on it.
func (g Ground) Acknowledges(id identity.ID) {
	g.w.mu.Lock()
	defer g.w.mu.Unlock()
	g.w.acked[id] = true
}

// Acknowledged is the answer to what Acknowledges has noted.
func (g Ground) Acknowledged(id identity.ID) {
	g.w.mu.Lock()
	defer g.w.mu.Unlock()
	g.w.ackedAt[id] = time.Now()
}

// Resizes notes that a group's size is changed by more than the calls that the history of
// the groups knows.
func (g Ground) Resizes(group string) { g.w.history.blur(groupID{identity.DefaultTenant, group}) }

// Instance is what the bucket and the provider say of an instance of tenant default.
type Instance struct {
	ID        identity.ID
	Group     string
	OnDemand  bool
	Born      time.Time
	Condemned time.Time // zero: it is not
	Reason    string    // of that
	DeleteAt  time.Time // the end of its drain, once that is known
	Removed   time.Time // of its record; zero: it stands
	Runs      bool      // its VM
	Late      bool      // its record was removed after a create call, and a late write put it back
}

// URI is the provider id of the instance's Node.
func (i Instance) URI() string { return "nstance://" + shardName + "/" + i.ID.String() }

// Lives reports whether an instance exists and is not condemned. A record that a late write
// put back makes no instance.
func (i Instance) Lives() bool {
	return i.Condemned.IsZero() && i.Removed.IsZero() && (i.Runs || !i.Late)
}

// Instance returns what is true of an instance; false: there never was one.
func (g Ground) Instance(id identity.ID) (Instance, bool) {
	rec := g.w.truth.record(id)
	if rec == nil {
		return Instance{}, false
	}
	return g.tell(rec), true
}

func (g Ground) tell(rec *record) Instance {
	in := Instance{
		ID: rec.ID, Group: rec.Group, OnDemand: rec.OnDemand, Born: rec.born, Condemned: rec.condemned, Removed: rec.removed,
		Late: rec.spent,
	}
	if rec.Deletion != nil {
		in.Reason, in.DeleteAt = rec.Deletion.Reason, rec.Deletion.DeleteAt.Time
	}
	vm, exists := g.w.cloud.Machine(rec.ID)
	in.Runs = exists && vm.Status == driver.Running
	return in
}

// Instances are those of tenant default whose records stand, in the order of their ids.
func (g Ground) Instances() []Instance {
	var all []Instance
	for _, rec := range g.w.truth.standing() {
		if rec.Tenant == identity.DefaultTenant {
			all = append(all, g.tell(rec))
		}
	}
	slices.SortFunc(all, func(a, b Instance) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// Size is the size of a group of tenant default; false: it is deleted, or never was.
func (g Ground) Size(group string) (int, bool) {
	s := g.w.truth.size(groupID{identity.DefaultTenant, group})
	return s.size, !s.gone
}

// Cluster and Shard are the names of the world's.
func (Ground) Cluster() string { return cluster }

// Shard is the name of the one shard.
func (Ground) Shard() string { return shardName }

// Servers are the addresses of the servers.
func (g Ground) Servers() []string {
	var all []string
	for _, b := range g.w.inOrder {
		all = append(all, b.name)
	}
	return all
}

// onGuest hands an event to the guest.
func onGuest(w *world, args []string) { w.guest.Do(args) }
