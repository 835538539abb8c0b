package balancers

import (
	"context"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/util/workqueue"

	"nstance.dev/protos/identity"
	"nstance.dev/server/driver"
)

// callsAtOnce bounds the calls about machines under way.
const callsAtOnce = 16

// resyncInterval is the time between two comparisons with what load balancers say.
const resyncInterval = 5 * time.Minute

// Options are what a Keeper needs to know of the world. All are required.
type Options struct {
	// Register, Deregister and List call the provider. The keys are those of the
	// configuration.
	Register   func(ctx context.Context, key string, ref driver.Ref) error
	Deregister func(ctx context.Context, key string, ref driver.Ref) error
	List       func(ctx context.Context, key string) ([]driver.Ref, error)

	// Keys are the load balancers of the configuration.
	Keys func() []string
	// Machine is a machine as it is now.
	Machine func(id identity.ID) Machine
	// Machines are all that there are.
	Machines func() []identity.ID
	// Ours finds the machine of a member; false: it is somebody else's.
	Ours func(ref driver.Ref) (identity.ID, bool)
	// Failed hears of a call that failed; news says that the error is another one
	// than before. The id is empty where a load balancer was listed.
	Failed func(id identity.ID, key string, op Op, err error, news bool)

	Lag time.Duration // the provider's
	Now func() time.Time
}

// list names the operation of a listing that failed.
const list Op = "list"

// Keeper keeps machines where they belong. It is safe for concurrent use; a nil
// Keeper has nothing to do.
type Keeper struct {
	opts  Options
	queue workqueue.TypedDelayingInterface[identity.ID]

	mu      sync.Mutex
	known   map[identity.ID]map[string]Member
	waiting map[identity.ID][]chan struct{} // closed when the machine was looked at
	asked   map[string]bool                 // load balancers that were listed, or did not answer
	ended   bool

	refresh chan struct{} // has room for one
}

// New makes a keeper, which starts nothing.
func New(opts Options) *Keeper {
	return &Keeper{
		opts: opts, queue: workqueue.NewTypedDelayingQueue[identity.ID](),
		known: map[identity.ID]map[string]Member{}, waiting: map[identity.ID][]chan struct{}{},
		asked: map[string]bool{}, refresh: make(chan struct{}, 1),
	}
}

// Touch has a machine looked at soon. Repeats coalesce.
func (k *Keeper) Touch(id identity.ID) {
	if k != nil {
		k.queue.Add(id)
	}
}

// Refresh has load balancers listed soon that were not listed before: the
// configuration has changed.
func (k *Keeper) Refresh() {
	if k == nil {
		return
	}
	select {
	case k.refresh <- struct{}{}:
	default:
	}
}

// Members are the keys of the load balancers that a machine is behind, as far as
// is known.
func (k *Keeper) Members(id identity.ID) map[string]Member {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return maps.Clone(k.known[id])
}

// Behind reports whether a machine that is being removed has to leave a load
// balancer first.
func (k *Keeper) Behind(id identity.ID) bool {
	if k == nil {
		return false
	}
	steps, _ := Plan(k.opts.Machine(id), k.Members(id), k.opts.Now())
	return len(steps) > 0
}

// Leave has a machine taken from behind its load balancers and waits until each has
// been asked once, or ctx ends.
func (k *Keeper) Leave(ctx context.Context, id identity.ID) {
	if !k.Behind(id) {
		return
	}
	done := make(chan struct{})
	k.mu.Lock()
	if k.ended {
		k.mu.Unlock()
		return
	}
	k.waiting[id] = append(k.waiting[id], done)
	k.mu.Unlock()
	k.queue.Add(id)
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// Run works until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	g, ctx := errgroup.WithContext(ctx)
	for range callsAtOnce {
		g.Go(func() error { k.work(ctx); return nil })
	}
	g.Go(func() error { k.resync(ctx); return nil })
	<-ctx.Done()
	k.queue.ShutDown()
	_ = g.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ended = true
	for id := range k.waiting {
		k.release(id)
	}
}

// Close ends a keeper that never ran.
func (k *Keeper) Close() {
	if k != nil {
		k.queue.ShutDown()
	}
}

// release ends the waiting for a machine. The caller holds mu.
func (k *Keeper) release(id identity.ID) {
	for _, done := range k.waiting[id] {
		close(done)
	}
	delete(k.waiting, id)
}

func (k *Keeper) work(ctx context.Context) {
	for {
		id, shutdown := k.queue.Get()
		if shutdown {
			return
		}
		if ctx.Err() == nil {
			k.look(ctx, id)
		}
		k.queue.Done(id)
	}
}

// look brings the memberships of one machine to what they should be. The queue
// gives it to one worker at a time.
func (k *Keeper) look(ctx context.Context, id identity.ID) {
	m := k.opts.Machine(id)
	if m.Phase == Serving && !k.heard(m.Keys) {
		m.Phase = Waiting // it is looked at again when they have answered
	}
	steps, next := Plan(m, k.Members(id), k.opts.Now())
	for _, step := range steps {
		if again := k.step(ctx, id, m.Ref, step); !again.IsZero() && (next.IsZero() || again.Before(next)) {
			next = again
		}
	}
	k.mu.Lock()
	if m.Phase == Gone {
		delete(k.known, id)
	}
	k.release(id)
	k.mu.Unlock()
	switch {
	case ctx.Err() != nil || m.Phase == Gone:
	case !next.IsZero():
		k.queue.AddAfter(id, max(next.Sub(k.opts.Now()), time.Millisecond))
	case len(steps) > 0:
		k.queue.Add(id) // the machine may have changed during the calls
	}
}

// heard reports whether all of these load balancers were asked who is behind them.
// After a change of leader most machines are there already.
func (k *Keeper) heard(keys []string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, key := range keys {
		if !k.asked[key] {
			return false
		}
	}
	return true
}

// step makes one call, and says when it is to be repeated (zero: not).
func (k *Keeper) step(ctx context.Context, id identity.ID, ref driver.Ref, s Step) time.Time {
	call := k.opts.Register
	if s.Op == Deregister {
		call = k.opts.Deregister
	}
	err := call(ctx, s.Key, ref)
	if ctx.Err() != nil {
		return time.Time{}
	}
	k.mu.Lock()
	before := k.known[id][s.Key]
	after := After(before, s.Op, err, k.opts.Now())
	k.set(id, s.Key, after)
	k.mu.Unlock()
	if after.Error != "" {
		k.opts.Failed(id, s.Key, s.Op, err, after.Error != before.Error)
	}
	return after.Retry
}

// set notes what is known of a membership. The caller holds mu.
func (k *Keeper) set(id identity.ID, key string, m Member) {
	if k.known[id] == nil {
		k.known[id] = map[string]Member{}
	}
	k.known[id][key] = m
}

// resync compares with what the load balancers say, again and again. The first
// time it goes on until each has answered.
func (k *Keeper) resync(ctx context.Context) {
	retry := map[string]time.Time{}
	failures := map[string]int{}
	for {
		now := k.opts.Now()
		next := now.Add(resyncInterval)
		for _, key := range k.opts.Keys() {
			if due := retry[key]; now.Before(due) {
				next = earlier(next, due)
				continue
			}
			due := now.Add(resyncInterval)
			if k.compare(ctx, key) {
				failures[key] = 0
			} else {
				due = now.Add(min(firstRetry<<min(failures[key], 10), resyncInterval))
				failures[key]++
			}
			retry[key] = due
			next = earlier(next, due)
		}
		timer := time.NewTimer(max(next.Sub(k.opts.Now()), time.Millisecond))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-k.refresh:
			timer.Stop()
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// compare lists one load balancer and has every machine looked at that is not
// where it was thought to be; the first time, every one. It reports whether the
// load balancer answered.
func (k *Keeper) compare(ctx context.Context, key string) bool {
	defer k.firstTime(key)
	asked := k.opts.Now()
	members, err := k.opts.List(ctx, key)
	if err != nil {
		if ctx.Err() == nil {
			k.opts.Failed("", key, list, err, true)
		}
		return false
	}
	there := map[identity.ID]bool{}
	for _, ref := range members {
		if id, ours := k.opts.Ours(ref); ours {
			there[id] = true
		}
	}
	for _, id := range k.listed(key, there, asked) {
		k.Touch(id)
	}
	return true
}

// firstTime has all machines looked at that may have waited for a load balancer to
// be asked.
func (k *Keeper) firstTime(key string) {
	k.mu.Lock()
	again := k.asked[key]
	k.asked[key] = true
	k.mu.Unlock()
	if again {
		return
	}
	for _, id := range k.opts.Machines() {
		k.Touch(id)
	}
}

// listed notes a listing and returns the machines of which it said something new.
func (k *Keeper) listed(key string, there map[identity.ID]bool, asked time.Time) []identity.ID {
	k.mu.Lock()
	defer k.mu.Unlock()
	for id, known := range k.known {
		if _, about := known[key]; about && !there[id] {
			there[id] = false
		}
	}
	var changed []identity.ID
	for id, member := range there {
		before := k.known[id][key]
		after := Listed(before, member, asked, k.opts.Lag)
		if after != before {
			k.set(id, key, after)
			changed = append(changed, id)
		}
	}
	return changed
}
