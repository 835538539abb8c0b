//go:build kube

package operator_test

import (
	"flag"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"nstance.dev/e2e/env/kube"
	"nstance.dev/e2e/env/shards"
)

// systems is how many tests have a system of the usual kind at the same time.
var systems = flag.Int("systems", 4, "tests that run beside each other")

// hostFleet is how many host machines the tests of whole fleets have.
var hostFleet = flag.Int("hosts", 100, "host machines of a fleet, from 50 on")

// kind is what sets a system apart.
type kind string

const (
	plain kind = "plain"
	gated kind = "gated" // its operator serves webhooks, and came to groups that there were
	hasty kind = "hasty" // its servers do not wait long for a drain
	alone kind = "alone" // nobody else is in its cluster

	hosting kind = "hosting" // as that, and its operator has host machines on
)

// shared is the testing.TB of the cluster that all systems are in.
var shared lasting

// common is what the tests share.
var common places

// places are where tests find a system. Those who wait are served in the order in which
// they came, which is that of the source, but for long tests, which come first.
type places struct {
	cluster *core          // nil before the first test that needs it
	using   sync.WaitGroup // tests that have a system, or wait for one

	mu        sync.Mutex
	queues    map[kind]*queue
	installed []*installation
}

// add remembers an installation, if it is in the common cluster.
func (p *places) add(i *installation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cluster != nil && i.Cluster == p.cluster.Cluster {
		p.installed = append(p.installed, i)
	}
}

// queue is some places of one kind, and who waits for one.
type queue struct {
	free    []*place
	waiting []chan *place
}

// place is one system, which its first test starts.
type place struct {
	name    string // of the system's namespace and release
	kind    kind
	servers []shards.Option // what its shards do otherwise, beside what the kind has them do
	tb      lasting
	begun   bool
	system  *system // nil until it has been started
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
	common.cluster = newWhole(&shared)
	common.queues = map[kind]*queue{
		plain: {}, gated: {free: []*place{{name: "nstance-operator", kind: gated}}},
		hasty: {free: []*place{{name: "nstance-operator-hasty", kind: hasty}}},
	}
	for n := range *systems {
		common.queues[plain].free = append(common.queues[plain].free, &place{name: fmt.Sprintf("nstance-operator-%d", n+1), kind: plain})
	}
}

// newWhole starts a cluster for systems.
func newWhole(t testing.TB) *core {
	t.Helper()
	c := newCore(t, "", kube.Config{Scheduler: true, NodeMonitorGrace: 5 * heartbeat})
	installDefinitions(t, c.Cluster) // of which the operators may come in any order
	return c
}

// when says when a test runs.
type when int

const (
	beside when = iota // the others
	long               // beside the others, and before most
)

// afterAll waits for all tests that have a system in the common cluster, and returns what was
// asked of its API server. It must come first in a test.
func afterAll(t *testing.T) []kube.Request {
	t.Helper()
	startCluster(t, kube.ReadAudit)
	t.Parallel()
	common.using.Wait()
	requests, err := common.cluster.Audit()
	if err != nil {
		t.Fatal(err)
	}
	return requests
}

// enter gives a test a system of a kind.
func (p *places) enter(t *testing.T, of kind, at when) *system {
	t.Helper()
	p.using.Add(1)
	t.Cleanup(p.using.Done)
	queue := p.queues[of]
	place := p.take(t, queue, at)
	began := time.Now()
	place.tb.TB = t
	t.Cleanup(func() {
		t.Logf("measured: had %s for %v", place.name, time.Since(began).Round(100*time.Millisecond))
		place.tb.pass()
		p.mu.Lock()
		defer p.mu.Unlock()
		queue.free = append(queue.free, place)
		queue.serve()
	})
	return place.enter(t, p.cluster)
}

// take waits for a place.
func (p *places) take(t *testing.T, queue *queue, at when) *place {
	t.Helper()
	turn := make(chan *place, 1)
	p.mu.Lock()
	if at == long {
		queue.waiting = slices.Insert(queue.waiting, 0, turn)
	} else {
		queue.waiting = append(queue.waiting, turn)
	}
	p.mu.Unlock()
	t.Parallel()
	p.mu.Lock()
	queue.serve()
	p.mu.Unlock()
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
		began := time.Now()
		p.system = p.build(&p.tb, cluster)
		t.Logf("measured: %s is there after %v", p.name, time.Since(began).Round(100*time.Millisecond))
	}
	if p.system == nil {
		t.Fatalf("%s could not be started by the test before", p.name)
	}
	p.system.enter(t)
	kube.Await(t, "the operator is there, and so are its shards", p.system.connected)
	return p.system
}
