//go:build kube

package operator_test

import (
	"flag"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"nstance.dev/e2e/kube"
)

// systems is how many tests have a system at the same time, besides the one whose system has
// webhooks. They wait more than they compute.
var systems = flag.Int("systems", 5, "tests that run beside each other")

// shared is the testing.TB of the cluster that all systems are in.
var shared lasting

// common is what the tests share.
var common places

// places are where tests find a system. Those who wait are served in the order in which
// they came, which is that of the source, but for long tests, which come first.
type places struct {
	cluster *core          // nil before the first test that needs it
	using   sync.WaitGroup // tests that have a system, or wait for one
	away    span           // when the API server was not ready: it does not know yet then who may what

	mu             sync.Mutex
	plain, guarded queue
	installed      []*installation
}

// add remembers an installation.
func (p *places) add(i *installation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.installed = append(p.installed, i)
}

// span is a stretch of time.
type span struct{ from, to time.Time }

func (s span) has(at time.Time) bool { return at.After(s.from) && at.Before(s.to) }

// queue is some places of one kind, and who waits for one.
type queue struct {
	free    []*place
	waiting []chan *place
}

// place is one system, which its first test starts.
type place struct {
	name     string // of the system's namespace and release
	webhooks bool
	tb       lasting
	begun    bool
	system   *system // nil until it has been started
}

// startCluster starts the cluster for the first test that needs it, unless that cannot do there
// what it has to do. It is the first thing that these tests do, while they still come one after
// another.
func startCluster(t *testing.T, abilities ...kube.Ability) {
	t.Helper()
	kube.Needs(t, abilities...)
	if common.cluster != nil {
		return
	}
	shared.TB = t
	defer shared.pass()
	c := newCore(&shared, "", kube.Config{Scheduler: true, NodeMonitorGrace: 20 * time.Second})
	installDefinitions(&shared, c.Cluster) // of which the operators may come in any order
	common.cluster = c
	common.guarded.free = []*place{{name: "nstance-operator", webhooks: true}}
	for n := range *systems {
		common.plain.free = append(common.plain.free, &place{name: fmt.Sprintf("nstance-operator-%d", n+1)})
	}
}

// when says when a test runs.
type when int

const (
	beside when = iota // the others
	long               // beside the others, and before most
	alone              // before all others
)

// enter gives a test a system of a kind.
func (p *places) enter(t *testing.T, kind *queue, at when) *system {
	t.Helper()
	p.using.Add(1)
	t.Cleanup(p.using.Done)
	place := p.take(t, kind, at)
	began := time.Now()
	place.tb.TB = t
	t.Cleanup(func() {
		t.Logf("measured: had %s for %v", place.name, time.Since(began).Round(100*time.Millisecond))
		place.tb.pass()
		p.mu.Lock()
		defer p.mu.Unlock()
		kind.free = append(kind.free, place)
		if at != alone { // the others do not run yet
			kind.serve()
		}
	})
	return place.enter(t, p.cluster)
}

// take waits for a place.
func (p *places) take(t *testing.T, kind *queue, at when) *place {
	t.Helper()
	turn := make(chan *place, 1)
	p.mu.Lock()
	switch at {
	case alone: // before anybody waits in earnest
		turn <- kind.free[0]
		kind.free = kind.free[1:]
	case long:
		kind.waiting = slices.Insert(kind.waiting, 0, turn)
	default:
		kind.waiting = append(kind.waiting, turn)
	}
	p.mu.Unlock()
	if at != alone {
		t.Parallel()
		p.mu.Lock()
		kind.serve()
		p.mu.Unlock()
	}
	return <-turn
}

// serve gives those who wait what is free. The caller holds the lock.
func (q *queue) serve() {
	for len(q.free) > 0 && len(q.waiting) > 0 {
		q.waiting[0] <- q.free[0]
		q.waiting, q.free = q.waiting[1:], q.free[1:]
	}
}

// enter returns the system of the place, all of which works.
func (p *place) enter(t *testing.T, cluster *core) *system {
	t.Helper()
	if !p.begun {
		p.begun = true
		c := *cluster
		c.namespace = p.name
		s := &system{place: p, ground: &ground{}}
		s.build(&p.tb, &c, p.webhooks)
		p.system = s
	}
	if p.system == nil {
		t.Fatalf("%s could not be started by the test before", p.name)
	}
	p.system.enter(t)
	kube.Await(t, "the operator is there, and so are its shards", p.system.connected)
	return p.system
}
