package shards_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"nstance.dev/operator/shards"
	"nstance.dev/operator/shards/shardtest"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const tenant = "default"

// sink keeps what it hears.
type sink struct {
	mu        sync.Mutex
	states    map[string][]shards.Status
	removed   []string
	groups    map[string]shards.GroupList
	instances map[string]shards.InstanceList
	lists     int
	events    []*nstancev1.InstanceEvent
	changes   []*nstancev1.GroupEvent
	failures  []*nstancev1.ErrorEvent
	restarts  []string
	foreign   int
}

func newSink() *sink {
	return &sink{states: map[string][]shards.Status{}, groups: map[string]shards.GroupList{}, instances: map[string]shards.InstanceList{}}
}

func (k *sink) streams() []shards.Stream {
	return []shards.Stream{shards.WatchGroups(k), shards.WatchInstances(k), shards.WatchErrors(k)}
}

func (k *sink) StateChanged(shard string, st shards.Status) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.states[shard] = append(k.states[shard], st)
}

func (k *sink) Removed(shard string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.removed = append(k.removed, shard)
}

func (k *sink) GroupsListed(shard string, l shards.GroupList) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.groups[shard] = l
}

func (k *sink) InstancesListed(shard string, l shards.InstanceList) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.instances[shard] = l
	k.lists++
}

func (k *sink) GroupEvent(_ string, e *nstancev1.GroupEvent) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.changes = append(k.changes, e)
}

func (k *sink) InstanceEvent(_ string, e *nstancev1.InstanceEvent) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.events = append(k.events, e)
}

func (k *sink) ErrorEvent(_ string, e *nstancev1.ErrorEvent) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.failures = append(k.failures, e)
}

// path returns the states of a shard in order, since the last call.
func (k *sink) path(shard string) []shards.State {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []shards.State
	for _, st := range k.states[shard] {
		if len(out) == 0 || out[len(out)-1] != st.State {
			out = append(out, st.State)
		}
	}
	k.states[shard] = nil
	return out
}

func (k *sink) restarted() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := k.restarts
	k.restarts = nil
	slices.Sort(out)
	return out
}

func (k *sink) instancesOf(shard string) shards.InstanceList {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.instances[shard]
}

// statuses returns the status of every event about an instance since the last call.
func (k *sink) statuses() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []string
	for _, e := range k.events {
		out = append(out, e.GetStatus())
	}
	k.events = nil
	return out
}

// world is a cluster with an operator that runs.
type world struct {
	*shardtest.Cluster
	*sink
	t   *testing.T
	set *shards.Set
}

// inWorld runs a test in a bubble, with shards "a" and "b" at the addresses "a:1" and
// "b:1" and a set of which nothing is connected yet.
func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := shardtest.NewCluster(t)
		c.Shard("a").Serve("a:1")
		c.Shard("b").Serve("b:1")
		k := newSink()
		w := &world{Cluster: c, sink: k, t: t}
		w.set = shards.NewSet(shards.Options{
			Cluster: c.ID, Tenant: tenant, Credentials: c.Operator(tenant), Sink: k, Streams: k.streams(), Manager: "me",
			CoordinatesDrains: true, Dial: c.DialContext, Random: func() float64 { return 0.5 },
			Observer: shards.Observer{
				Restart: func(_, stream, reason string) {
					k.mu.Lock()
					defer k.mu.Unlock()
					k.restarts = append(k.restarts, stream+" "+reason)
				},
				ForeignTenant: func(string) {
					k.mu.Lock()
					defer k.mu.Unlock()
					k.foreign++
				},
			},
		})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.set.Run(ctx) }()
		defer func() {
			stop()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("the set ended with %v", err)
			}
		}()
		test(t, w)
	})
}

// apply makes the set be these shards and lets time pass until all is quiet.
func (w *world) apply(targets ...shards.Target) {
	w.set.Apply(targets)
	w.after(time.Second)
}

func (w *world) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (w *world) shard(name string) *shards.Shard {
	w.t.Helper()
	s, ok := w.set.Shard(name)
	if !ok {
		w.t.Fatalf("there is no shard %q", name)
	}
	return s
}

func (w *world) expect(shard string, want shards.State, reason shards.Reason) {
	w.t.Helper()
	if st := w.shard(shard).Status(); st.State != want || st.Reason != reason {
		w.t.Errorf("shard %s is %s %q (%s), want %s %q", shard, st.State, st.Reason, st.Message, want, reason)
	}
}

func at(shard string, addresses ...string) shards.Target {
	return shards.Target{Shard: shard, Addresses: addresses}
}

func size(n int32) *nstancev1.GroupConfig { return &nstancev1.GroupConfig{Size: &n} }
