package filesync

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/util/workqueue"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/explain"
	"nstance.dev/server/fleet"
)

const (
	// workers is how many machines are served at once.
	workers = 16
	// lookInterval is how often secrets and stored objects are looked at.
	lookInterval = time.Hour
)

// Syncer brings machines their files. It is safe for concurrent use.
type Syncer struct {
	opts     Options
	wants    wants
	queue    workqueue.TypedInterface[identity.ID]
	troubles *troubles

	mu       sync.RWMutex
	machines map[identity.ID]*machine
}

// New returns a Syncer that serves nobody before [Syncer.Run].
func New(opts Options) *Syncer {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Syncer{
		opts: opts, wants: newWants(opts), queue: workqueue.NewTyped[identity.ID](), troubles: newTroubles(),
		machines: map[identity.ID]*machine{},
	}
}

// Run serves until ctx, which carries the leadership, ends.
func (s *Syncer) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for range workers {
		g.Go(func() error { s.work(ctx); return nil })
	}
	g.Go(func() error { s.look(ctx); return nil })
	<-ctx.Done()
	s.Close()
	return g.Wait()
}

// Close ends the queue, be the Syncer run or not. It may be called again.
func (s *Syncer) Close() { s.queue.ShutDown() }

func (s *Syncer) work(ctx context.Context) {
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
func (s *Syncer) look(ctx context.Context) {
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		before := s.wants.sources.Epoch()
		if err := s.wants.sources.Refresh(ctx); err != nil && ctx.Err() == nil {
			s.opts.Log.WarnContext(ctx, "sources of files not looked at", "error", err)
		}
		if s.wants.sources.Epoch() != before {
			s.wakeAll()
		}
	}
}

func (s *Syncer) wakeAll() {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for id := range s.machines {
		s.queue.Add(id)
	}
}

// Wake has a machine served soon. Repeats coalesce.
func (s *Syncer) Wake(id identity.ID) { s.queue.Add(id) }

// Changed says that the machines of a group are to have something else.
func (s *Syncer) Changed(group fleet.GroupID) {
	for _, in := range s.opts.Cache.Group(group) {
		s.renew(in.ID)
	}
}

// renew has what a machine should have made again, and the machine served.
func (s *Syncer) renew(id identity.ID) {
	if m := s.find(id); m != nil {
		m.invalidate()
		s.queue.Add(id)
	}
}

// Connect makes line the way to a machine. Nothing is sent on it before
// [Syncer.Greet] and the first report.
func (s *Syncer) Connect(id identity.ID, line Line) {
	m := s.enter(id)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.line = line
	m.ledger.Connected()
}

// Greet asks the agent for the keys that its files need: for none, if there are
// none.
func (s *Syncer) Greet(id identity.ID, line Line) {
	names := s.KeyNames(id)
	m := s.enter(id)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.line == line {
		m.ask(names, s.opts.Now())
	}
}

// Disconnect ends the use of line; a newer one of the machine stays.
func (s *Syncer) Disconnect(id identity.ID, line Line) {
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
func (s *Syncer) Heard(id identity.ID, rep *nstancev1.HealthReport) {
	m := s.find(id)
	if m == nil {
		return
	}
	now, basis := s.opts.Now(), s.basis()
	files := statuses(rep.Files)
	m.mu.Lock()
	changed := m.heard(rep.ConfigHash, files, now)
	due := m.due(basis, now)
	m.mu.Unlock()
	if changed != nil {
		s.noteReport(m, files, changed)
	}
	if due {
		s.queue.Add(id)
	}
}

// KeysStored says that the machine has handed keys in.
func (s *Syncer) KeysStored(id identity.ID) { s.renew(id) }

// KeyNames are the keys that a machine's files want the agent to make, in order.
func (s *Syncer) KeyNames(id identity.ID) []string {
	d, ok := s.opts.Describe(id)
	if !ok {
		return nil
	}
	return d.keyNames()
}

// Forget drops what is known of a machine.
func (s *Syncer) Forget(id identity.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.machines, id)
	s.troubles.forget(id)
}

// Undelivered are the machines of a group to which files could not be brought, as
// far as they are connected or were, in the order of their ids.
func (s *Syncer) Undelivered(group fleet.GroupID) []explain.Undelivered { return s.troubles.in(group) }

func (s *Syncer) find(id identity.ID) *machine {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.machines[id]
}

func (s *Syncer) enter(id identity.ID) *machine {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.machines[id]
	if m == nil {
		m = &machine{id: id}
		s.machines[id] = m
	}
	return m
}

func (s *Syncer) basis() basis {
	return basis{known: true, generation: s.opts.Generation(), epoch: s.wants.sources.Epoch()}
}
