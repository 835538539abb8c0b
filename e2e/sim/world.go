package sim

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/objectstore/memory"
	"nstance.dev/server/pki"
	"nstance.dev/server/secrets"
)

const (
	cluster   = "sim"
	shardName = "s1"
)

var owner = driver.Owner{Cluster: cluster, Shard: shardName}

// Violation is a promise that was not kept.
type Violation struct {
	Promise string        // its number, such as S5
	At      time.Duration // since the start
	What    string
}

func (v Violation) String() string { return fmt.Sprintf("%s at %v: %s", v.Promise, v.At, v.What) }

// Result is what came of a run.
type Result struct {
	Violations []Violation
	Events     int            // calls, messages and what the plan did
	Fired      map[string]int // how often each kind of fault and event happened
	Made       int            // machines
	Log        []string       // what a person would tell of it

	// History is every call, message and fault with its moment, in their order. What
	// happens at the same moment is in the order of its words, for it has no other.
	History []string
}

// Options are what a run needs beside its plan.
type Options struct {
	Log io.Writer // of the servers, for people; nobody

	// FailFast panics at the first broken promise: after it a server that is wrong on
	// purpose may not even end.
	FailFast bool

	// Progress is kept up to date; nobody's.
	Progress *Progress

	// Guest makes who plays the operator, where the plan says so.
	Guest func(Ground) Guest
}

// Run carries out a plan, inside a bubble of testing/synctest, and returns once
// nothing of it runs any more.
func Run(p Plan, opts Options) Result {
	w := newWorld(p, opts)
	w.play()
	w.heal()
	if w.settles() {
		w.restartAll()
	}
	w.close()
	return w.result()
}

// world is a shard with everything around it.
type world struct {
	plan     Plan
	dice     dice
	ctx      context.Context //nolint:containedctx // the run's: everything ends with it
	end      context.CancelFunc
	start    time.Time
	interval time.Duration
	logger   *slog.Logger
	failFast bool

	store   *memory.Store
	cloud   *drivertest.Cloud
	keys    *pki.Keys
	net     *network
	weather *weather
	truth   *truth
	history *history
	boxes   map[string]*box
	inOrder []*box

	guest    Guest // nobody, if the plan has none
	progress *Progress
	calls    sync.WaitGroup // everything that is not a server's

	mu         sync.Mutex
	machines   map[identity.ID]*machine
	cycled     map[identity.ID]*cycles // the last power cycle of each
	cycles     int                     // how many power cycles were asked for
	struck     map[identity.ID]bool    // what somebody has done something to
	barren     map[groupID]bool        // groups whose machines never register
	config     configuration
	acked      map[identity.ID]bool      // somebody said that they are drained
	ackedAt    map[identity.ID]time.Time // when that was promised
	wished     map[identity.ID]bool      // somebody asked for their end
	paused     map[groupID]time.Time     // since when somebody was promised that
	resuming   map[groupID]int           // calls under way that end a pause
	resumed    map[groupID]time.Time     // when the last pause of a group ended, or was asked to
	planted    map[identity.ID]bool      // foreign machines
	keyOf      map[string]string         // public key by the nonce it was certified for
	skew       time.Duration             // the largest of any server's clock so far
	log        []string
	traced     []string // as in Result.History, in any order
	violations []Violation
}

func newWorld(p Plan, opts Options) *world {
	w := &world{
		plan: p, dice: dice{p.Seed}, start: time.Now(), interval: p.duration("interval"),
		machines: map[identity.ID]*machine{}, cycled: map[identity.ID]*cycles{}, struck: map[identity.ID]bool{}, barren: map[groupID]bool{}, boxes: map[string]*box{},
		acked: map[identity.ID]bool{}, ackedAt: map[identity.ID]time.Time{}, wished: map[identity.ID]bool{}, keyOf: map[string]string{},
		planted: map[identity.ID]bool{}, paused: map[groupID]time.Time{}, resuming: map[groupID]int{}, resumed: map[groupID]time.Time{},
		config: newConfiguration(p), failFast: opts.FailFast, progress: cmp.Or(opts.Progress, &Progress{}),
	}
	w.ctx, w.end = context.WithCancel(context.Background())
	w.logger = slog.New(slog.DiscardHandler)
	if opts.Log != nil {
		w.logger = slog.New(slog.NewTextHandler(opts.Log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	w.weather, w.net, w.history = newWeather(p), newNetwork(w), newHistory()
	w.truth = newTruth(w)
	w.store = memory.New(memory.Options{OnWrite: w.truth.accepted})
	w.cloud = drivertest.New(drivertest.Options{
		Conditions: w.conditions(), Limits: limits, Lag: max(w.plan.duration("lag"), 0),
		OnCreate: w.boot, OnDown: w.crash,
	})
	w.cloud.SetFaults(func(c drivertest.Call) drivertest.Fault {
		f := w.weather.cloud(c)
		w.trace("cloud: %s %s: %+v", c.Op, c.ID, f)
		return f
	})
	w.keys = w.newKeys()
	w.guest = nobody{}
	if w.guested(identity.DefaultTenant) {
		w.guest = opts.Guest(Ground{w})
	}
	for n := range p.number("servers") {
		b := &box{w: w, name: string(rune('a' + n))}
		w.boxes[b.name], w.inOrder = b, append(w.inOrder, b)
	}
	return w
}

// limits are what the provider grants; servers keep to them (S21).
var limits = driver.Limits{
	Calls: driver.Bucket{Rate: 5, Burst: 10}, Instances: driver.Bucket{Rate: 10, Burst: 20},
	Deletes: driver.Bucket{Rate: 5, Burst: 10}, Reads: driver.Bucket{Rate: 20, Burst: 40},
}

// conditions are the provider's in good times. Machines that boot or go at the same
// moment do so one after another: each create or delete has a moment of its own.
func (w *world) conditions() drivertest.Conditions {
	return drivertest.Conditions{
		BootTime: w.plan.duration("boot"), DeleteTime: w.plan.duration("delete"), ListLag: w.plan.duration("lag"),
	}
}

func (w *world) newKeys() *pki.Keys {
	must := func(err error) {
		if err != nil {
			panic(err) // a store without faults
		}
	}
	sealed, err := secrets.NewSealed(w.store, "secret/", nil)
	must(err)
	ca, err := pki.EnsureCA(w.ctx, sealed, w.store, cluster, pki.CATemplate{}, pki.Options{Create: true})
	must(err)
	nonces, err := pki.EnsureNonceKeys(w.ctx, sealed, pki.Options{Create: true})
	must(err)
	signer, err := pki.NewNonceSigner(nonces, nil)
	must(err)
	return &pki.Keys{
		Authority: pki.NewAuthority(ca, cluster, nil, nil),
		Nonces:    signer, Verifier: pki.NewNonceVerifier(cluster, nonces),
	}
}

// jitter is what pauses are moved about by: nothing in good weather.
func (w *world) jitter() float64 {
	if len(w.plan.Weather) == 0 {
		return 0.5
	}
	return w.dice.unit("jitter", time.Since(w.start))
}

// newID makes the ids of a kind in a fixed order.
func (w *world) newID(prefix string) (identity.ID, error) {
	n := w.weather.number("id " + prefix)
	ms, luck := time.Now().UnixMilli(), binary.LittleEndian.AppendUint64(nil, w.dice.roll("id", prefix, n))
	return identity.ParseStorageKey(fmt.Sprintf("%08x-%04x-7%03x-80%02x-%x-%s",
		ms>>16, ms&0xffff, n&0xfff, luck[0], luck[1:7], prefix))
}

// play carries out the events of the plan, each in its time.
func (w *world) play() {
	for _, b := range w.inOrder {
		b.start()
		_ = pause(w.ctx, w.dice.between(0, time.Second, b.name, "starts"))
	}
	w.attend()
	w.guest.Start()
	for _, e := range w.plan.Events {
		_ = pause(w.ctx, e.At-time.Since(w.start))
		w.event("plan: %s", e)
		w.weather.note("event " + e.Verb)
		verbs[e.Verb](w, e.Args)
	}
	_ = pause(w.ctx, w.plan.duration("length")-time.Since(w.start))
}

// leader is the process that leads and serves, or nil.
func (w *world) leader() *process {
	for _, b := range w.inOrder {
		if p := b.running(); p != nil && !p.stuck() && p.elector.IsLeader() {
			if _, err := p.shard.Term(); err == nil {
				return p
			}
		}
	}
	return nil
}

// close ends everything.
func (w *world) close() {
	w.guest.Stop()
	for _, b := range w.inOrder {
		b.stop()
	}
	w.end()
	ended := make(chan struct{})
	go func() {
		w.calls.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(stopTime):
		panic(fmt.Sprintf("the world of seed %d does not end within %v: a goroutine ignores its context", w.plan.Seed, stopTime))
	}
	synctest.Wait()
}

// stopTime is the longest that anything may take that was told to end.
const stopTime = 5 * time.Minute

// await waits until nothing of a process runs any more.
func (w *world) await(p *process) {
	select {
	case <-p.done:
	case <-time.After(stopTime):
		debug.SetTraceback("all")
		panic(fmt.Sprintf("server %s of seed %d does not end within %v", p.box.name, w.plan.Seed, stopTime))
	}
}

func (w *world) result() Result {
	w.mu.Lock()
	defer w.mu.Unlock()
	return Result{
		Violations: w.violations, Events: int(w.progress.events.Load()), Fired: w.weather.fired,
		Made: w.cloud.Created(), Log: w.log, History: slices.Sorted(slices.Values(w.traced)),
	}
}

// violate notes a broken promise.
func (w *world) violate(promise, format string, args ...any) {
	v := Violation{Promise: promise, At: time.Since(w.start), What: fmt.Sprintf(format, args...)}
	if w.failFast {
		panic(v.String())
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violations = append(w.violations, v)
	w.traced = append(w.traced, fmt.Sprintf("%018.9f VIOLATED %s: %s", v.At.Seconds(), promise, v.What))
	w.log = append(w.log, fmt.Sprintf("%s VIOLATED %s: %s", stamp(v.At), promise, v.What))
	w.logger.Error("violated", "promise", promise, "what", v.What)
}

// logf notes what a person would tell.
func (w *world) logf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, stamp(time.Since(w.start))+" "+text)
	w.traced = append(w.traced, fmt.Sprintf("%018.9f told: %s", time.Since(w.start).Seconds(), text))
	w.logger.Info("world", "what", text)
}

// stamp is a time since the start, to the second.
func stamp(d time.Duration) string {
	s := int(d / time.Second)
	return fmt.Sprintf("%02d:%02d:%02d", s/3600, s/60%60, s%60)
}

// vms are the machines of a group that exist, the oldest first.
func (w *world) vms(g groupID) []drivertest.VM {
	return slices.DeleteFunc(w.cloud.Machines(), func(vm drivertest.VM) bool {
		return vm.Tenant != g.tenant || vm.Group != g.name
	})
}

// machine is the agent in a VM, or nil.
func (w *world) machine(id identity.ID) *machine {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.machines[id]
}

// nameOf is how an instance is called in the log.
func (w *world) nameOf(id identity.ID) string { return w.truth.name(id) }
