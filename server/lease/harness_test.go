package lease_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	lockKey = "leader/a.json"
	leaseL  = 15 * time.Second
)

var quiet = slog.New(slog.DiscardHandler)

// cluster is some servers on one store, in a synctest bubble. It keeps every
// leadership context ever handed out, so that a test can ask at any moment who
// could act.
type cluster struct {
	t     *testing.T
	store *memory.Store
	start time.Time

	mu       sync.Mutex
	servers  map[string]*node // by the address of the election listener
	tenures  []context.Context
	terms    []uint64
	written  uint64 // the highest term in the documents that leaders wrote
	problems []string
}

func newCluster(t *testing.T) *cluster {
	c := &cluster{t: t, start: time.Now(), servers: map[string]*node{}}
	var term uint64
	c.store = memory.New(memory.Options{OnWrite: func(w memory.Write) {
		if w.Deleted { // by hand: terms that nobody acted under may come again
			term = 0
			return
		}
		doc, err := lease.Decode(w.Data)
		if err != nil {
			return // put there by a test
		}
		if doc.Term < term {
			c.fail("S1: a write of term %d after one of term %d", doc.Term, term)
		}
		term = doc.Term
	}})
	return c
}

func (c *cluster) fail(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.problems = append(c.problems, fmt.Sprintf("%v: ", time.Since(c.start))+fmt.Sprintf(format, args...))
}

// node is one server; its clocks and its network can go wrong.
type node struct {
	*lease.Elector
	c      *cluster
	id     string
	cancel context.CancelFunc
	done   chan error
	mu     sync.Mutex
	jump   time.Duration // of its elapsed clock
	wall   time.Duration // of its wall clock
	net    network
	peers  peers
}

// network is one node's way to the store.
type network struct {
	objectstore.Store
	mu     sync.Mutex
	cut    error     // of every call; nil: they pass
	frozen time.Time // until then the node does nothing, as if stopped
}

func (n *network) set(cut bool) {
	if cut {
		n.answer(objectstore.ErrUnavailable)
	} else {
		n.answer(nil)
	}
}

func (n *network) answer(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut = err
}

func (n *network) freeze(until time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.frozen = until
}

// pass waits while the node is frozen, and errs where it is cut off.
func (n *network) pass() error {
	n.mu.Lock()
	frozen := n.frozen
	n.mu.Unlock()
	time.Sleep(time.Until(frozen))
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cut
}

// through makes a call that can be cut off or frozen on the way there and back.
func through[T any](n *network, call func() (T, error)) (T, error) {
	var none T
	if err := n.pass(); err != nil {
		return none, err
	}
	answer, err := call()
	if lost := n.pass(); lost != nil {
		return none, lost
	}
	return answer, err
}

func (n *network) Get(ctx context.Context, key string) (objectstore.Object, error) {
	return through(n, func() (objectstore.Object, error) { return n.Store.Get(ctx, key) })
}

func (n *network) PutIfAbsent(ctx context.Context, key string, data []byte) (string, error) {
	return through(n, func() (string, error) { return n.Store.PutIfAbsent(ctx, key, data) })
}

func (n *network) PutIfMatch(ctx context.Context, key string, data []byte, etag string) (string, error) {
	return through(n, func() (string, error) { return n.Store.PutIfMatch(ctx, key, data, etag) })
}

// add starts a server; edit may change its options.
func (c *cluster) add(id string, edit func(*lease.Options)) *node {
	c.t.Helper()
	n := &node{c: c, id: id, done: make(chan error, 1), net: network{Store: c.store}}
	opts := lease.Options{
		ID: id, LeaderAddr: id + ":8991", Lease: leaseL, Log: quiet,
		NothingStored: func(context.Context) (bool, error) { return true, nil },
		OnAcquire:     n.acquired,
		Elapsed: func() time.Duration {
			n.mu.Lock()
			defer n.mu.Unlock()
			return time.Since(c.start) + n.jump
		},
		Now: func() time.Time {
			n.mu.Lock()
			defer n.mu.Unlock()
			return time.Now().Add(n.wall)
		},
	}
	if edit != nil {
		edit(&opts)
	}
	var err error
	if n.Elector, err = lease.New(&n.net, lockKey, opts); err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel = cancel
	c.mu.Lock()
	c.servers[opts.LeaderAddr] = n
	c.mu.Unlock()
	go func() { n.done <- n.Run(ctx) }()
	return n
}

func (n *node) acquired(ctx context.Context, term uint64) {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	n.c.tenures = append(n.c.tenures, ctx)
	n.c.terms = append(n.c.terms, term)
	if lease.Check(ctx) == nil {
		n.c.written = max(n.c.written, term)
	}
}

// writtenTerm is what a shard finds in its documents.
func (c *cluster) writtenTerm(context.Context) (uint64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.written, nil
}

// stop ends a server in order and returns the error of its Run.
func (n *node) stop() error {
	n.cancel()
	return <-n.done
}

// crash ends a server without a word to the store.
func (n *node) crash() {
	n.net.set(true)
	_ = n.stop()
}

func (n *node) shift(elapsed, wall time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.jump += elapsed
	n.wall += wall
}

// audit notes a problem where more than one context could act now, or where
// terms do not grow strictly.
func (c *cluster) audit() {
	c.mu.Lock()
	defer c.mu.Unlock()
	acting := 0
	for i, ctx := range c.tenures {
		if lease.Check(ctx) == nil {
			acting++
		}
		if i > 0 && c.terms[i] <= c.terms[i-1] {
			c.problems = append(c.problems, fmt.Sprintf("terms do not grow: %v", c.terms))
		}
	}
	if acting > 1 {
		c.problems = append(c.problems, fmt.Sprintf("%v: %d servers could act", time.Since(c.start), acting))
	}
}

// run lets time pass and audits all the while.
func (c *cluster) run(d time.Duration) {
	const step = 50 * time.Millisecond
	for end := time.Now().Add(d); time.Now().Before(end) && len(c.problems) == 0; {
		time.Sleep(min(step, time.Until(end)))
		synctest.Wait()
		c.audit()
	}
}

// until runs for at most limit until n leads, and returns how long that took.
func (c *cluster) until(n *node, limit time.Duration) time.Duration {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	begin := time.Now()
	if err := n.AwaitLeadership(ctx); err != nil {
		c.t.Errorf("%s does not lead after %v: %+v", n.id, limit, n.Status())
	}
	took := time.Since(begin)
	synctest.Wait()
	c.audit()
	return took
}

// leaders returns the ids of those that lead now.
func leaders(nodes ...*node) (ids []string) {
	for _, n := range nodes {
		if n.IsLeader() {
			ids = append(ids, n.id)
		}
	}
	return ids
}

// bubble runs a story and checks that nothing went wrong in it.
func bubble(t *testing.T, story func(t *testing.T, c *cluster)) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		story(t, c)
		for _, p := range c.problems {
			t.Error(p)
		}
	})
}

func stopAll(t *testing.T, nodes ...*node) {
	t.Helper()
	for _, n := range nodes {
		if err := n.stop(); err != nil {
			t.Errorf("%s: %v", n.id, err)
		}
	}
}
