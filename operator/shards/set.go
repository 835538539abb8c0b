package shards

import (
	"context"
	"sync"
)

// Set is the shards of a configuration. It is safe for concurrent use.
type Set struct {
	opts  Options
	moved chan struct{} // the targets have changed

	mu       sync.Mutex
	targets  []Target
	members  map[string]*member
	attached []*attachment
}

// member is a shard that runs.
type member struct {
	shard  *Shard
	end    context.CancelFunc
	done   chan struct{}
	attach func(*attachment) // starts something beside the shard
	beside sync.WaitGroup    // what was started so
}

// NewSet returns a set that connects to nothing before [Set.Run].
func NewSet(opts Options) *Set {
	return &Set{opts: opts.withDefaults(), moved: make(chan struct{}, 1), members: map[string]*member{}}
}

// Apply makes the set be these shards, in this order: new ones are connected, those with
// other addresses are connected again before the old connection is closed, and those that
// are gone are left. Nothing is deleted at any server. Before Run it says what to begin with.
func (s *Set) Apply(targets []Target) {
	s.mu.Lock()
	s.targets = append([]Target(nil), targets...)
	s.mu.Unlock()
	select {
	case s.moved <- struct{}{}:
	default:
	}
}

// Run keeps the shards connected until ctx ends, and returns the reason once every
// connection is closed.
func (s *Set) Run(ctx context.Context) error {
	defer s.stop(func(string) bool { return true }, false)
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.moved:
			s.settle(ctx)
		}
	}
}

// settle starts, moves and stops shards until they are those that Apply wants.
func (s *Set) settle(ctx context.Context) {
	s.mu.Lock()
	wanted := map[string]bool{}
	for _, target := range s.targets {
		wanted[target.Shard] = true
		if m := s.members[target.Shard]; m != nil {
			m.shard.move(target)
			continue
		}
		s.members[target.Shard] = s.launch(ctx, target)
	}
	s.mu.Unlock()
	s.stop(func(name string) bool { return !wanted[name] }, true)
}

func (s *Set) launch(ctx context.Context, target Target) *member {
	ctx, end := context.WithCancel(ctx)
	m := &member{shard: newShard(target, s.opts), end: end, done: make(chan struct{})}
	m.attach = func(a *attachment) { a.start(ctx, m) }
	for _, a := range s.attached {
		m.attach(a)
	}
	go func() {
		defer close(m.done)
		m.shard.run(ctx)
	}()
	return m
}

// stop ends shards and waits for them. With removed, the sink hears of it.
func (s *Set) stop(which func(name string) bool, removed bool) {
	s.mu.Lock()
	var leaving []*member
	for name, m := range s.members {
		if which(name) {
			leaving = append(leaving, m)
			delete(s.members, name)
		}
	}
	s.mu.Unlock()
	for _, m := range leaving {
		m.end()
	}
	for _, m := range leaving {
		<-m.done
		m.beside.Wait()
		if removed {
			s.opts.Sink.Removed(m.shard.name)
		}
	}
}

// Shard returns a shard by its name; false: it is not in the set, or not yet.
func (s *Set) Shard(name string) (*Shard, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.members[name]
	if m == nil {
		return nil, false
	}
	return m.shard, true
}

// Shards returns the shards in the order of the configuration.
func (s *Set) Shards() []*Shard {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*Shard
	for _, target := range s.targets {
		if m := s.members[target.Shard]; m != nil {
			out = append(out, m.shard)
		}
	}
	return out
}

// Redial connects all shards again, one after the other, so that a renewed certificate is
// shown everywhere and never all streams break at once. It returns early with ctx.
func (s *Set) Redial(ctx context.Context) {
	for i, shard := range s.Shards() {
		if i > 0 && !sleep(ctx, s.opts.RedialGap) {
			return
		}
		shard.redial()
	}
}
