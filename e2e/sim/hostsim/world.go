package hostsim

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/e2e/sim"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// world is all of one run.
type world struct {
	plan      sim.Plan
	opts      sim.Options
	start     time.Time
	random    *rand.Rand
	api       *api
	oracle    *oracle
	processes map[string]*process
	launches  map[string]time.Time // when a process that has ended starts again
	repave    map[string]int64     // machines whose Node is gone, with the epoch of its assignment
	coming    []join
	calm      bool // the faults have ended
	stood     bool // the call that the plan lets stand still has been found

	mu     sync.Mutex
	parked []*parked
	writes int // calls of processes that write
	result sim.Result
}

// parked is a call that waits for the world.
type parked struct {
	p      *process
	what   string
	writes bool
	until  time.Time
	go_    chan verdict
}

// defaults are the settings of a plan that does not say otherwise.
var defaults = map[string]string{
	"mode": "safety", "processes": "1", "length": "3m",
	"hit": "0", "with": "", // the call that writes, counted from 1, and what hits it: before, after, lost, refused or stall
}

func (w *world) setting(name string) string { return cmp.Or(w.plan.Settings[name], defaults[name]) }

// Run carries out a plan, inside a bubble of testing/synctest.
func Run(t *testing.T, p sim.Plan, o sim.Options) sim.Result {
	t.Helper()
	w := &world{
		plan: p, opts: o, start: time.Now(), random: rand.New(rand.NewPCG(p.Seed, 18)), processes: map[string]*process{},
		launches: map[string]time.Time{}, repave: map[string]int64{},
	}
	w.result.Fired = map[string]int{}
	w.oracle = &oracle{w, map[string]hostsv1.Template{}, map[string]bool{}}
	w.api = newAPI(t, w.oracle.changed)
	w.launches["a"] = w.start
	if w.setting("processes") == "2" {
		w.launches["b"] = w.start
	}
	length, err := time.ParseDuration(w.setting("length"))
	if err != nil {
		t.Fatal(err)
	}
	events := p.Events
	for time.Since(w.start) < length {
		for len(events) > 0 && time.Since(w.start) >= events[0].At {
			w.do(events[0])
			events = events[1:]
		}
		next := length
		if len(events) > 0 {
			next = min(next, events[0].At)
		}
		w.step(w.start.Add(next))
	}
	w.settle()
	for _, name := range []string{"a", "b"} {
		w.stop(name)
	}
	w.result.Log = w.result.History
	return w.result
}

func (w *world) notef(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
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
	w.mu.Lock()
	defer w.mu.Unlock()
	w.result.Violations = append(w.result.Violations, v)
}

// park holds a call until the world lets it go on.
func (w *world) park(p *process, what string, writes bool) verdict {
	if p.isDead() {
		return verdict{dead: true}
	}
	c := &parked{p: p, what: what, writes: writes, go_: make(chan verdict)}
	w.mu.Lock()
	w.parked = append(w.parked, c)
	w.mu.Unlock()
	return <-c.go_
}

// chance is true as often as the weather says.
func (w *world) chance(kind string) bool {
	if w.calm || w.plan.Weather[kind] == 0 || w.random.Float64() >= w.plan.Weather[kind] {
		return false
	}
	w.result.Fired[kind]++
	return true
}

// errLost is what a client knows of a call without an answer.
var errLost = errors.New("the connection breaks")

// judge draws what becomes of a call that goes on.
func (w *world) judge(c *parked) (v verdict) {
	if !c.writes {
		return v
	}
	w.writes++
	hit := ""
	if fmt.Sprint(w.writes) == w.setting("hit") {
		hit = w.setting("with")
	}
	switch {
	case hit == "before" || w.chance("before"):
		c.p.end()
		w.notef("%s: the process ends before it can %s", c.p.name, c.what)
		v.dead = true
	case hit == "after" || w.chance("after"):
		v.dies = true
	case hit == "lost" || w.chance("lost"):
		v.after = errLost
	case hit == "refused" || w.chance("refused"):
		v.before = errLost
	}
	return v
}

// reap lets those go that have ended.
func (w *world) reap() {
	for _, name := range []string{"a", "b"} {
		if p := w.processes[name]; p != nil && p.isDead() {
			w.stop(name)
			w.launches[name] = time.Now().Add(2 * time.Second)
		}
	}
}

// stop ends a process, and waits until nothing of it runs.
func (w *world) stop(name string) {
	delete(w.launches, name)
	p := w.processes[name]
	if p == nil {
		return
	}
	p.end()
	for {
		synctest.Wait()
		w.mu.Lock()
		var its []*parked
		w.parked = slices.DeleteFunc(w.parked, func(c *parked) bool {
			if c.p == p {
				its = append(its, c)
			}
			return c.p == p
		})
		w.mu.Unlock()
		if len(its) == 0 {
			break
		}
		for _, c := range its {
			c.go_ <- verdict{dead: true}
		}
	}
	<-p.ended
	delete(w.processes, name)
	w.notef("%s has ended", name)
}

// step does one thing that can be done now, or lets time pass: to the next one, and at most until.
// It returns false where nothing is left to be done.
func (w *world) step(until time.Time) bool {
	synctest.Wait()
	w.reap()
	now := time.Now()
	doable, next, some := w.doable(now)
	if len(doable) == 0 {
		if !some || next.After(until) {
			next = until
		}
		time.Sleep(max(next.Sub(now), time.Millisecond))
		return some
	}
	doable[w.random.IntN(len(doable))]()
	synctest.Wait()
	time.Sleep(time.Duration(1+w.random.IntN(20)) * time.Millisecond)
	return true
}

// doable is what can be done now, in an order that is the same in each run, and when the next thing
// can be; some: there is something, now or later.
func (w *world) doable(now time.Time) (all []func(), next time.Time, some bool) {
	later := func(at time.Time) {
		if at.After(now) && (next.IsZero() || at.Before(next)) {
			next = at
		}
		some = true
	}
	can := func(at time.Time, do func()) {
		later(at)
		if !at.After(now) {
			all = append(all, do)
		}
	}
	for _, name := range []string{"a", "b"} {
		if at, waits := w.launches[name]; waits {
			can(at, func() {
				delete(w.launches, name)
				w.processes[name] = w.launch(name)
				w.notef("%s starts", name)
			})
		}
		if p := w.processes[name]; p != nil {
			w.process(p, now, can, later)
		}
	}
	w.mu.Lock()
	calls := sortedBy(w.parked, func(c *parked) string { return c.p.name + c.what })
	w.mu.Unlock()
	for _, c := range calls {
		can(c.until, func() { w.goOn(c, now) })
	}
	for _, j := range w.coming {
		can(j.at, func() {
			w.coming = slices.DeleteFunc(w.coming, func(other join) bool { return other == j })
			w.joined(j)
		})
	}
	for _, v := range w.orphans() {
		can(now, func() { w.collect(v) })
	}
	return all, next, some
}

// process adds what a process can do.
func (w *world) process(p *process, now time.Time, can func(time.Time, func()), later func(time.Time)) {
	for _, q := range p.all() {
		for _, r := range q.ready(now) {
			if q.name != versionsQueue || !p.versionsBusy(r.Name) {
				can(now, func() { q.give(r) })
			}
		}
		if at, waits := q.next(); waits {
			later(at)
		}
	}
	for _, kind := range kinds {
		if p.cache.Waits(kind) {
			can(now, func() { p.cache.handOver(kind) })
		}
	}
	for _, m := range p.publishable(now) {
		can(now, func() { p.publish(m) })
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, at := range p.pause {
		if at.After(now) {
			later(at)
		}
	}
}

// goOn lets a call go on, or stand still for some time.
func (w *world) goOn(c *parked, now time.Time) {
	if c.until.IsZero() && w.stalls(c) {
		c.until = now.Add(30 * time.Second)
		w.notef("%s: %s: it stands still until %v", c.p.name, c.what, c.until.Sub(w.start))
		return
	}
	if c.until.IsZero() && w.chance("stall") {
		c.until = now.Add(time.Duration(w.random.Int64N(int64(40 * time.Second))))
		w.notef("%s: %s: it stands still until %v", c.p.name, c.what, c.until.Sub(w.start))
		return
	}
	w.mu.Lock()
	w.parked = slices.DeleteFunc(w.parked, func(other *parked) bool { return other == c })
	w.mu.Unlock()
	c.go_ <- w.judge(c)
}

// stalls is whether the plan lets this very call stand still.
func (w *world) stalls(c *parked) bool {
	if w.stood || !c.writes || w.setting("with") != "stall" || fmt.Sprint(w.writes+1) != w.setting("hit") {
		return false
	}
	w.stood = true
	return true
}

// joins lets the Node of a machine join after some time.
func (w *world) joins(machine string, epoch int64) {
	delete(w.repave, machine)
	w.coming = append(w.coming, join{time.Now().Add(time.Duration(1+epoch%7) * 3 * time.Second), machine, epoch})
}

func sortedBy[T any](all []T, key func(T) string) []T {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b T) int { return cmp.Compare(key(a), key(b)) })
	return all
}
