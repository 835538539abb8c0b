// Package liveness knows who is well: for each instance of one shard what its agent has said
// and what the provider has shown of its machine, to this leader, and since when nothing was
// heard. Nothing of it is kept beyond the leader's term.
//
//   - Whoever learns something tells the [Monitor]: agents connect, report and register,
//     creates are sent and answered, the provider shows machines or lacks them.
//   - After each such sign, and when time alone may change the verdict, fleet.Judge judges
//     the instance by its signs. Its row gets the verdict, and [Options.Changed] is told.
//   - [Monitor.Run] waits for what falls due, asks the provider where the verdict wants that,
//     and puts the brake on where most agents fall silent at once (F32).
//
// What becomes of an instance that is not well is left to who plans its group. What counts as
// well, late and gone is decided by package fleet, without a clock; what it decides from is
// gathered in signs, which has none either.
//
// Lock order: Monitor.mu, unannounced.mu, the cache's. Nobody is called under any, so whoever is
// told something may call the monitor. While [Options.FoundSick] is told of an instance,
// [Monitor.Heard], which plans are made from, still shows it as it was before.
package liveness

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/driver"
	"nstance.dev/server/instances"
)

// Options are what a [Monitor] works with. All are required.
type Options struct {
	Instances *instances.Store
	Cache     *cache.Cache // of the same instances; read
	Provider  Provider
	Settings  func() Settings // those in force
	Now       func() time.Time
	Log       *slog.Logger

	// Go runs a function in a goroutine that the leader's term waits for.
	Go func(func())

	// Changed is told what the signs of an instance have changed, after its row shows it. It
	// must not wait; calls for one instance may overtake each other, so that the row counts
	// and not what is told.
	Changed func(Change)

	// FoundSick is told that an instance was found sick that was not before, and why; its row
	// is as given by then. Nobody plans with that before it returns: see [Monitor.Heard]. It
	// must not wait.
	FoundSick func(in cache.Instance, why string, at time.Time)

	// List has all machines listed soon: the provider's word about one does not suffice.
	List func()

	// Over reports whether err ends the leader's term, and ends it if so.
	Over func(err error) bool
}

// Provider is asked about one machine. [provider.Client] is one.
type Provider interface {
	Get(ctx context.Context, ref driver.Ref) (driver.Machine, error)
}

// Settings are the times that decide who is late.
type Settings struct {
	ReportInterval      time.Duration // between two reports of an agent; zero: reports decide nothing
	RequestTimeout      time.Duration // of a call of the provider
	RegistrationTimeout time.Duration // from a machine's start to its agent's registration
	Lag                 time.Duration // how long the provider may lack a machine that it has made
}

// Change is what became of an instance by its signs.
type Change struct {
	Event    Event
	Instance cache.Instance // as its row is by now; the zero Instance with Silenced
	Said     string         // why its machine does not run, in the provider's words; with Sick
}

// Event is the kind of a [Change].
type Event uint8

// The events.
const (
	Late        Event = iota + 1 // it is suspect: a report is overdue, or its stream broke
	Sick                         // it is found sick; its row says for which reason
	Well                         // it was late or sick, and is heard of again
	FirstReport                  // this leader has a report of it for the first time
	Noticed                      // the provider takes its machine back, or earlier than was said
	NoMachine                    // it is leaving, and its machine does not run any more: nothing is left to drain
	Silenced                     // of no instance: the brake on mass silence went on or off
)

// Monitor keeps the signs of life of all instances of a shard and has them judged. It is safe
// for concurrent use.
type Monitor struct {
	opts        Options
	unannounced unannounced

	mu    sync.Mutex
	signs map[identity.ID]*signs
	due   dueHeap
	asks  map[identity.ID]struct{} // to ask the provider about
	wake  chan struct{}            // due or asks changed; has room for one

	began    time.Time // of the term
	silences silences
}

// New returns a monitor that has no sign of anybody. It starts nothing.
func New(opts Options) *Monitor {
	return &Monitor{
		opts: opts, signs: map[identity.ID]*signs{}, asks: map[identity.ID]struct{}{}, wake: make(chan struct{}, 1),
		silences:    silences{suspects: map[identity.ID]time.Time{}},
		unannounced: unannounced{rows: opts.Cache, byID: map[identity.ID]*announcement{}},
	}
}

// Begin starts the clock of the leader's term: nobody is late because of the change of leader.
func (m *Monitor) Begin() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.began = m.opts.Now()
}

// JudgeAll starts the clock again once every instance is known, however long that has taken,
// and has all of them judged.
func (m *Monitor) JudgeAll() {
	m.Begin()
	for _, in := range m.opts.Cache.All() {
		m.Judge(in.ID)
	}
}

// Forget drops the signs of an instance that has ended.
func (m *Monitor) Forget(id identity.ID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.signs, id)
	delete(m.asks, id)
}

// of returns the signs of an instance; the caller holds mu.
func (m *Monitor) of(id identity.ID) *signs {
	s := m.signs[id]
	if s == nil {
		s = &signs{}
		m.signs[id] = s
	}
	return s
}

// change takes note of a sign, and has the instance judged by it.
func (m *Monitor) change(id identity.ID, edit func(*signs)) {
	m.mu.Lock()
	edit(m.of(id))
	m.mu.Unlock()
	m.Judge(id)
}
