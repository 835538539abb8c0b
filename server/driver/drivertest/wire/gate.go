package wire

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"nstance.dev/server/driver"
)

// keptCalls bounds what a gate remembers; a fake that runs as a process may be
// called for days.
const keptCalls = 200_000

// Gate stands before the verbs of a fake cloud. The zero value is open: it
// remembers calls, and neither limits nor disturbs them. All methods are safe for
// concurrent use.
type Gate struct {
	mu      sync.Mutex
	n       int
	calls   []Call
	ops     map[string]int
	faults  Faults
	buckets buckets
}

// NewGate returns an open gate.
func NewGate() *Gate { return &Gate{} }

// SetFaults replaces the faults; nil ends them.
func (g *Gate) SetFaults(f Faults) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.faults = f
}

// SetLimits replaces the limits. All buckets are full again.
func (g *Gate) SetLimits(l Limits) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.buckets = newBuckets(l)
}

// Calls returns the calls so far in order of arrival, the latest 100,000 at least.
func (g *Gate) Calls() []Call {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.calls)
}

// Count returns how many calls of op there were so far; of all ops if it is empty.
func (g *Gate) Count(op string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if op == "" {
		return g.n
	}
	return g.ops[op]
}

// Ops returns the names of all calls so far, each once, in order of name.
func (g *Gate) Ops() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	ops := make([]string, 0, len(g.ops))
	for op := range g.ops {
		ops = append(ops, op)
	}
	slices.Sort(ops)
	return ops
}

// Enter admits one call: it remembers it, takes its tokens, asks what goes wrong
// with it and waits for the fault's Delay. A call beyond the limits has a fault of
// kind Throttled. If ok is false the caller has gone away meanwhile: there is
// nothing to do and nobody to answer. The rest of the fault is for the fake to
// carry out; [Gate.Serve] does that.
func (g *Gate) Enter(ctx context.Context, op, key string) (f Fault, ok bool) {
	f = g.arrive(op, key)
	return f, pause(ctx, f.Delay)
}

// arrive notes a call and returns what goes wrong with it.
func (g *Gate) arrive(op, key string) Fault {
	g.mu.Lock()
	g.n++
	c := Call{N: g.n, At: time.Now(), Op: op, Key: key}
	wait, ok := g.buckets.take(op, c.At)
	faults := g.faults
	g.remember(c, !ok)
	g.mu.Unlock()
	switch {
	case !ok:
		return Fault{Kind: driver.Throttled, RetryAfter: wait}
	case faults == nil:
		return Fault{}
	}
	return faults(c)
}

func (g *Gate) remember(c Call, throttled bool) {
	c.Throttled = throttled
	if len(g.calls) >= keptCalls {
		g.calls = slices.Delete(g.calls, 0, keptCalls/2)
	}
	g.calls = append(g.calls, c)
	if g.ops == nil {
		g.ops = map[string]int{}
	}
	g.ops[c.Op]++
}

// Answer writes an answer.
type Answer func(http.ResponseWriter)

// Serve carries out one call with whatever goes wrong with it: act is the call's
// effect and its honest answer, refuse the answer of the cloud in its own words to
// a call that ends with a fault's Kind. act runs once at most, and not at all if
// the fault comes before the effect.
func (g *Gate) Serve(w http.ResponseWriter, r *http.Request, op, key string, refuse func(Fault) Answer, act func() Answer) {
	f, ok := g.Enter(r.Context(), op, key)
	if !ok {
		g.Break(w)
	}
	if f.Kind != "" && !f.After {
		refuse(f)(w)
		return
	}
	answer := act()
	if f.Kind != "" {
		answer = refuse(f)
	}
	if !pause(r.Context(), f.Linger) || f.Lost {
		g.Break(w)
	}
	answer(w)
}

// Break loses the answer of a call: the caller's connection ends without one. It
// does not return. What was written before may arrive.
func (g *Gate) Break(http.ResponseWriter) { panic(http.ErrAbortHandler) }

// pause waits for d, and reports whether the context outlived that.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
