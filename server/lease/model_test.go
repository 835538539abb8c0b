package lease_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/memory"
	"pgregory.net/rapid"
)

// step is one event of a random story.
type step struct {
	What  string
	Node  int
	After time.Duration // how long the cluster runs on afterwards
}

var events = []string{"cut", "heal", "suspend", "wall clock", "crash", "restart", "stop", "store down", "store up", "delete lock",
	"peers cut", "peers refused", "peers heal"}

// TestModel_AtMostOneActs lives through random stories of two to five servers:
// partitions, pauses, clock jumps, crashes, a lock deleted by hand, and a store
// that delays, refuses, and loses answers. At no instant may two act, and terms
// must grow strictly. Afterwards, with all faults gone, one server must lead.
func TestModel_AtMostOneActs(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		nodes := rapid.IntRange(2, 5).Draw(rt, "nodes")
		seed := rapid.Uint64().Draw(rt, "seed of the store's faults")
		trouble := rapid.IntRange(0, 60).Draw(rt, "calls in 100 that go wrong")
		story := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) step {
			return step{
				What:  rapid.SampledFrom(events).Draw(rt, "what"),
				Node:  rapid.IntRange(0, nodes-1).Draw(rt, "node"),
				After: time.Duration(rapid.IntRange(0, 20_000).Draw(rt, "after ms")) * time.Millisecond,
			}
		}), 1, 15).Draw(rt, "story")
		peerMode := rapid.Bool().Draw(rt, "peer mode")
		var problems []string
		synctest.Test(t, func(t *testing.T) {
			m := &model{cluster: newCluster(t), peerMode: peerMode}
			m.store.SetFaults(faults(seed, trouble))
			problems = m.live(nodes, story)
		})
		if len(problems) > 0 {
			rt.Fatalf("%q", problems)
		}
	})
}

// faults returns a store's troubles, reproducibly for one order of calls.
func faults(seed uint64, percent int) memory.Faults {
	r := rand.New(rand.NewPCG(seed, 1))
	errs := []error{objectstore.ErrConflict, objectstore.ErrThrottled, objectstore.ErrUnavailable, objectstore.ErrPrecondition}
	return func(memory.Call) memory.Fault {
		pause := time.Duration(r.Int64N(int64(4 * time.Second)))
		if r.IntN(100) >= percent {
			return memory.Fault{Latency: pause / 100}
		}
		switch r.IntN(5) {
		case 0:
			return memory.Fault{Before: errs[r.IntN(len(errs))]}
		case 1:
			return memory.Fault{After: objectstore.ErrUnavailable}
		case 2:
			return memory.Fault{Late: pause * 5}
		case 3:
			return memory.Fault{Linger: pause}
		default:
			return memory.Fault{Latency: pause}
		}
	}
}

type model struct {
	*cluster
	nodes    []*node
	alive    []bool
	peerMode bool
	boots    int // each server starts with the clock of another box
}

func (m *model) live(nodes int, story []step) []string {
	for i := range nodes {
		m.nodes, m.alive = append(m.nodes, nil), append(m.alive, false)
		m.boot(i)
	}
	m.run(2 * leaseL)
	for _, s := range story {
		m.apply(s)
		m.run(s.After)
	}
	m.store.Down(false)
	m.store.SetFaults(nil)
	for i := range m.nodes {
		m.boot(i)
		m.nodes[i].net.set(false)
		m.nodes[i].peers.set(answers)
	}
	m.run(4 * leaseL)
	if got := leaders(m.nodes...); len(got) != 1 {
		m.fail("with all faults gone %q lead", got)
	}
	for _, n := range m.nodes {
		if err := n.stop(); err != nil {
			m.fail("%s: %v", n.id, err)
		}
	}
	return m.problems
}

// boot starts a server that is not running, under an id that is not in use.
func (m *model) boot(i int) {
	if m.alive[i] {
		return
	}
	m.boots++
	m.nodes[i] = m.add(fmt.Sprintf("s%d-%d", i, m.boots), func(o *lease.Options) {
		o.NothingStored = func(context.Context) (bool, error) { return time.Since(m.start) < time.Second, nil }
		o.MinTerm = m.writtenTerm
		if m.peerMode {
			o.Ask = m.ask(o.LeaderAddr)
		}
		since := o.Elapsed
		ahead := time.Duration(m.boots) * time.Hour
		o.Elapsed = func() time.Duration { return since() + ahead }
	})
	m.alive[i] = true
}

func (m *model) apply(s step) {
	n := m.nodes[s.Node]
	switch s.What {
	case "cut", "heal":
		n.net.set(s.What == "cut")
	case "peers cut":
		n.peers.set(hangs)
	case "peers refused":
		n.peers.set(refuses)
	case "peers heal":
		n.peers.set(answers)
	case "suspend":
		n.net.freeze(time.Now().Add(s.After)) // it wakes with old answers and late sends
	case "wall clock":
		n.shift(0, s.After*100-1000*time.Second)
	case "crash", "stop":
		if m.alive[s.Node] {
			n.net.set(s.What == "crash")
			_ = n.stop()
			m.alive[s.Node] = false
		}
	case "restart":
		m.boot(s.Node)
	case "store down", "store up":
		m.store.Down(s.What == "store down")
	case "delete lock":
		if o, err := m.store.Get(context.Background(), lockKey); err == nil {
			_ = m.store.DeleteIfMatch(context.Background(), lockKey, o.ETag)
		}
	}
}
