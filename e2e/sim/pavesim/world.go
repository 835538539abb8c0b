package pavesim

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nstance.dev/e2e/sim"
	"nstance.dev/e2e/sim/pavesim/cluster"
	"nstance.dev/e2e/sim/pavesim/machine"
	"nstance.dev/e2e/sim/pavesim/shard"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// world is all of one run.
type world struct {
	settings
	agenda

	plan   sim.Plan
	opts   sim.Options
	start  time.Time
	random *rand.Rand
	wake   chan struct{}

	api       *cluster.Server
	shard     *shard.Shard
	hosts     []*host // in the order of their names
	processes map[string]*process
	outage    outage
	oracle    *oracle
	calm      bool            // the faults have ended
	requests  int             // for certificates
	hashes    map[string]int  // numbers of templates
	mended    map[int]bool    // of templates that had a fault
	stuck     map[string]bool // machines whose Pods do not leave
	executors []*executor
	result    sim.Result
}

// agenda is what is done at a time.
type agenda struct{ alarms []alarm }

type alarm struct {
	at time.Time
	do func()
}

// after has something done later.
func (a *agenda) after(d time.Duration, do func()) {
	a.alarms = append(a.alarms, alarm{time.Now().Add(d), do})
}

// every has something done again and again.
func (a *agenda) every(d time.Duration, do func()) {
	a.after(d, func() { do(); a.every(d, do) })
}

// host is a host with its agent, and the HostMachine that stands for it.
type host struct {
	*machine.Host

	name     string
	id       identity.ID
	agent    agent
	kubelets map[string]*kubelet            // by boot of the node machine
	told     []*nstancev1.MachineAssignment // all that the paver was ever told
}

// outage is what calls to the API server get for a while.
type outage struct {
	kind  string // 403, 404, 500, timeout or away
	until time.Time
}

// defaults are the settings of a plan that does not say otherwise.
var defaults = map[string]string{
	"mode": "safety", "processes": "1", "machines": "2", "length": "20m",
	"hit": "0", "with": "", // the call that writes, counted from 1, and what hits it: before, after, lost or refused
	"rolling": "0", "window": "", // how many machines may be unavailable; 0: nothing is rolled out; and for how long a window is open
	"executors": "0",             // processes of an executor that carries packetCapture out
	"step":      "0", "dies": "", // the step of a paver, counted from 1, and how its process dies: before, within or after
}

// settings are those of a plan.
type settings map[string]string

func (s settings) text(name string) string { return cmp.Or(s[name], defaults[name]) }

func (s settings) number(name string) int {
	n, err := strconv.Atoi(s.text(name))
	if err != nil {
		panic(fmt.Sprintf("setting %s: %v", name, err))
	}
	return n
}

// Run carries out a plan, inside a bubble of testing/synctest.
func Run(t *testing.T, p sim.Plan, o sim.Options) sim.Result {
	t.Helper()
	w := &world{
		settings: p.Settings, plan: p, opts: o, start: time.Now(), random: rand.New(rand.NewPCG(p.Seed, 19)), wake: make(chan struct{}, 1),
		api: cluster.New(t), processes: map[string]*process{}, hashes: map[string]int{}, mended: map[int]bool{}, stuck: map[string]bool{},
	}
	w.result.Fired = map[string]int{}
	w.oracle = newOracle(w)
	w.api.Changed = w.oracle.changed
	w.people(t.TempDir())
	length, err := time.ParseDuration(w.text("length"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range p.Events {
		w.after(e.At, func() { w.do(e) })
	}
	for end := w.start.Add(length); time.Now().Before(end); {
		w.step(end)
	}
	settling{w}.settle()
	w.oracle.secrets()
	w.end()
	w.result.Log = w.result.History
	return w.result
}

// people puts all into the world that is there from the beginning.
func (w *world) people(dir string) {
	var ids []identity.ID
	for i := range w.number("machines") {
		name := fmt.Sprintf("m%d", i)
		id, err := identity.FromUUID("knc", [16]byte{6: 0x70, 8: 0x80, 15: byte(i)})
		if err != nil {
			panic(fmt.Sprintf("pavesim: %v", err))
		}
		ids = append(ids, id)
		of, err := machine.New(machine.Options{
			Name: name, Dir: filepath.Join(dir, name), Wake: w.wake, Fetch: w.fetch, Reachable: func() error { return w.refusal(true) },
		})
		if err != nil {
			panic(fmt.Sprintf("pavesim: %v", err))
		}
		h := &host{Host: of, name: name, id: id, kubelets: map[string]*kubelet{}}
		w.hosts = append(w.hosts, h)
		w.after(w.drawn(5*time.Second), func() { w.startPaver(h) })
		w.after(w.drawn(5*time.Second), func() { h.agent.up = true })
		w.every(5*time.Second, func() { w.live(h) })
		w.make(h)
	}
	w.shard = shard.New(ids, w.written, w.oracle.stored)
	w.after(w.drawn(time.Second), w.lead)
	for _, name := range []string{"a", "b"}[:w.number("processes")] {
		w.after(w.drawn(time.Second), func() { w.launch(name) })
	}
	w.every(20*time.Second, w.nodesAge)
	if w.number("executors") > 0 {
		w.hire()
	}
}

// make makes the HostMachine of a host.
func (w *world) make(h *host) {
	m := &hostsv1.HostMachine{ObjectMeta: metav1.ObjectMeta{Name: h.name}}
	m.Spec = hostsv1.HostMachineSpec{
		Provisioner: hostsv1.ProvisionerNstance,
		Instance:    &hostsv1.InstanceReference{Shard: shard.Name, Tenant: shard.Tenant, Group: "web", ID: hostsv1.InstanceID(h.id)},
	}
	w.notef("HostMachine %s is made: %v", h.name, w.api.Create("inventory", m))
}

// end ends all that runs.
func (w *world) end() {
	for _, name := range []string{"a", "b"} {
		w.stop(name)
	}
	for _, h := range w.hosts {
		h.Kill()
	}
	w.shard.End()
}

func (w *world) notef(format string, args ...any) {
	w.result.Events++
	w.opts.Progress.Reach(time.Since(w.start), 1)
	w.result.History = append(w.result.History, fmt.Sprintf("%v ", time.Since(w.start))+fmt.Sprintf(format, args...))
}

func (w *world) violate(promise, format string, args ...any) {
	v := sim.Violation{Promise: promise, At: time.Since(w.start), What: fmt.Sprintf(format, args...)}
	if w.opts.FailFast {
		panic(v.String())
	}
	w.notef("broken: %s", v)
	w.result.Violations = append(w.result.Violations, v)
}

// chance is true as often as the weather says.
func (w *world) chance(kind string) bool {
	if w.calm || w.plan.Weather[kind] == 0 || w.random.Float64() >= w.plan.Weather[kind] {
		return false
	}
	w.result.Fired[kind]++
	return true
}

// drawn is a time of at most so long.
func (w *world) drawn(most time.Duration) time.Duration {
	return time.Duration(w.random.Int64N(int64(most)))
}

// step does one thing that can be done now, or lets time pass: to the next one, and at most until.
func (w *world) step(until time.Time) {
	synctest.Wait()
	w.reap()
	now := time.Now()
	doable, next := w.doable(now)
	if len(doable) == 0 {
		timer := time.NewTimer(max(min(next.Sub(now), until.Sub(now)), time.Millisecond))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-w.wake:
		}
		return
	}
	doable[w.random.IntN(len(doable))]()
	synctest.Wait()
	w.oracle.look()
	time.Sleep(time.Duration(1+w.random.IntN(10)) * time.Millisecond)
}

// doable is what can be done now, in an order that is the same in each run, and when the next thing
// can be of which the time is known.
func (w *world) doable(now time.Time) (all []func(), next time.Time) {
	next = now.Add(time.Hour)
	can := func(at time.Time, do func()) {
		if at.After(now) {
			next = slices.MinFunc([]time.Time{next, at}, time.Time.Compare)
			return
		}
		all = append(all, do)
	}
	for i, a := range w.alarms {
		can(a.at, func() {
			w.alarms = slices.Delete(w.alarms, i, i+1)
			a.do()
		})
	}
	for _, name := range []string{"a", "b"} {
		if p := w.processes[name]; p != nil && !p.working {
			p.doable(now, can)
		}
	}
	for _, h := range w.hosts {
		w.doableOf(h, now, can)
	}
	return all, next
}

// doableOf adds what a host and its agent can do.
func (w *world) doableOf(h *host, now time.Time, can func(time.Time, func())) {
	if c := h.Waits(); c != nil {
		can(now, func() { w.goOn(h, c) })
	}
	if id := h.GoesDown(); id != "" {
		can(now, func() {
			w.oracle.rebooted(h, id)
			w.rebootHost(h)
		})
	}
	w.agentOf(h, now, can)
}

// reap takes those away that have ended, and lets them start again.
func (w *world) reap() {
	for _, name := range []string{"a", "b"} {
		if p := w.processes[name]; p != nil && p.dead && !p.working {
			w.stop(name)
			w.after(2*time.Second+w.drawn(20*time.Second), func() { w.launch(name) })
		}
	}
	for _, h := range w.hosts {
		if h.Killed() {
			h.Kill()
			w.notef("%s: the paver has ended", h.name)
			w.after(time.Second+w.drawn(5*time.Second), func() { w.startPaver(h) })
		}
	}
	if w.shard.Dead() {
		w.endTerm()
		w.after(time.Second+w.drawn(20*time.Second), w.lead)
	}
}

// lead begins a leader's term.
func (w *world) lead() {
	if w.shard.Leads() {
		return
	}
	if err := w.shard.Lead(); err != nil {
		panic(fmt.Sprintf("pavesim: %v", err))
	}
	w.notef("a leader begins")
}

func (w *world) endTerm() {
	w.shard.End()
	w.notef("the leader has ended")
}

// written is what becomes of a write to object storage.
func (w *world) written(key string) shard.Write {
	for kind, of := range []string{shard.Refused: "refused", shard.Lost: "lost", shard.Before: "before", shard.After: "after"} {
		if of != "" && w.chance(of) {
			w.notef("server: write of %s: %s", key, of)
			return shard.Write(kind)
		}
	}
	return shard.Done
}

// errAway is what a client knows of an API server that does not answer.
var errAway = errors.New("the API server does not answer")
