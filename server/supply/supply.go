package supply

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/util/workqueue"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/cache"
	"nstance.dev/server/config"
	"nstance.dev/server/fleet"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/pki"
	"nstance.dev/server/render"
	"nstance.dev/server/sources"
)

const (
	// workers is how many machines are served at once.
	workers = 16
	// lookInterval is how often secrets and stored objects are looked at.
	lookInterval = time.Hour
)

// Line leads to the agent of one machine, for as long as one stream lasts. Its
// methods do not wait. Whoever owns it calls [Supply.Wake] when there is room
// again after an offer that did not fit.
type Line interface {
	// Offer queues a message and reports whether there was room for it.
	Offer(*nstancev1.ServerMessage) bool
	// Room is how many more messages would fit if they were small. Zero counts as
	// an offer that did not fit.
	Room() int
}

// Machine is what a machine is to have, and what its templates may refer to.
type Machine struct {
	Group        fleet.GroupID
	Config       *config.EffectiveGroup
	Certificates map[string]config.Certificate
	Data         render.Data
}

// Options are what a [Supply] works with. All but Now are required.
type Options struct {
	Shard     string
	Term      uint64
	Store     objectstore.Store // for the log of certificates
	Cache     *cache.Cache
	Sources   *sources.Sources
	Authority func() *pki.Authority
	// Describe returns what a machine is to have; false: it is to be left alone.
	Describe func(identity.ID) (Machine, bool)
	// Generation grows whenever what Describe returns may have changed for any
	// machine whose group was not named to Changed.
	Generation func() uint64
	// Trouble tells the machine's tenant that a file cannot be brought, once for
	// each reason.
	Trouble func(id identity.ID, group fleet.GroupID, text string)
	// Standing says that [Supply.Undelivered] of a group has changed.
	Standing func(group fleet.GroupID)
	Metrics  *Metrics
	Log      *slog.Logger
	Now      func() time.Time // time.Now
}

// Supply brings machines their files. It is safe for concurrent use.
type Supply struct {
	opts     Options
	queue    workqueue.TypedInterface[identity.ID]
	troubles *troubles

	mu       sync.RWMutex
	machines map[identity.ID]*machine
}

// New returns a supply that serves nobody before [Supply.Run].
func New(opts Options) *Supply {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Supply{opts: opts, queue: workqueue.NewTyped[identity.ID](), machines: map[identity.ID]*machine{}, troubles: newTroubles()}
}

// Run serves until ctx, which carries the leadership, ends.
func (s *Supply) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for range workers {
		g.Go(func() error { s.work(ctx); return nil })
	}
	g.Go(func() error { s.look(ctx); return nil })
	<-ctx.Done()
	s.Close()
	return g.Wait()
}

// Close ends the queue of a supply, be it run or not. It may be called again.
func (s *Supply) Close() { s.queue.ShutDown() }

func (s *Supply) work(ctx context.Context) {
	for {
		id, shutdown := s.queue.Get()
		if shutdown {
			return
		}
		if ctx.Err() == nil {
			s.serve(ctx, id)
		}
		s.queue.Done(id)
	}
}

// look finds out what has changed without a change of the configuration.
func (s *Supply) look(ctx context.Context) {
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		before := s.opts.Sources.Epoch()
		if err := s.opts.Sources.Refresh(ctx); err != nil && ctx.Err() == nil {
			s.opts.Log.WarnContext(ctx, "sources of files not looked at", "error", err)
		}
		if s.opts.Sources.Epoch() != before {
			s.wakeAll()
		}
	}
}

func (s *Supply) wakeAll() {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for id := range s.machines {
		s.queue.Add(id)
	}
}

// Wake has a machine served soon. Repeats coalesce.
func (s *Supply) Wake(id identity.ID) { s.queue.Add(id) }

// Changed says that these machines are to have something else.
func (s *Supply) Changed(ids []identity.ID) {
	for _, id := range ids {
		if m := s.find(id); m != nil {
			m.invalidate()
			s.queue.Add(id)
		}
	}
}

// Connect makes line the way to a machine. Nothing is sent on it before
// [Supply.Greet] and the first report.
func (s *Supply) Connect(id identity.ID, line Line) {
	m := s.enter(id)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.line = line
	m.ledger.Connected()
}

// Greet asks the agent for the keys that its files need: for none, if there are
// none.
func (s *Supply) Greet(id identity.ID, line Line) {
	names := s.KeyNames(id)
	m := s.enter(id)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.line == line {
		m.ask(names, s.opts.Now())
	}
}

// Disconnect ends the use of line; a newer one of the machine stays.
func (s *Supply) Disconnect(id identity.ID, line Line) {
	m := s.find(id)
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.line == line {
		m.line = nil
	}
}

// Heard takes a report. It costs little where nothing is to be done.
func (s *Supply) Heard(id identity.ID, rep *nstancev1.HealthReport) {
	m := s.find(id)
	if m == nil {
		return
	}
	now := s.opts.Now()
	files := statuses(rep.Files)
	m.mu.Lock()
	changed := m.heard(rep.ConfigHash, files, now)
	due := m.due(s.basis(), now)
	m.mu.Unlock()
	if changed != nil {
		s.noteReport(m, files, changed)
	}
	if due {
		s.queue.Add(id)
	}
}

// KeysStored says that the machine has handed keys in.
func (s *Supply) KeysStored(id identity.ID) {
	if m := s.find(id); m != nil {
		m.invalidate()
		s.queue.Add(id)
	}
}

// Forget drops what is known of a machine.
func (s *Supply) Forget(id identity.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.machines, id)
	s.troubles.forget(id)
}

// Undelivered are the machines of a group to which files could not be brought, as
// far as they are connected or were, in the order of their ids.
func (s *Supply) Undelivered(group fleet.GroupID) []Undelivered { return s.troubles.in(group) }

func (s *Supply) find(id identity.ID) *machine {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.machines[id]
}

func (s *Supply) enter(id identity.ID) *machine {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.machines[id]
	if m == nil {
		m = &machine{id: id}
		s.machines[id] = m
	}
	return m
}

func (s *Supply) basis() basis {
	return basis{known: true, generation: s.opts.Generation(), epoch: s.opts.Sources.Epoch()}
}
