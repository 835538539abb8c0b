package sim

import (
	"errors"
	"maps"
	"sync"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/memory"
)

// Faults that may hit a single call or message, with the likelihood that a plan's
// weather gives them. What lasts for a while is an event instead.
const (
	storeRefused  = "store-refused"  // 503 before anything was done
	storeLost     = "store-lost"     // applied, and the answer lost
	storeLate     = "store-late"     // no answer, and applied up to 20 s later
	storeRepeated = "store-repeated" // applied twice by a proxy: the answer is that of the second, a 412
	storeConflict = "store-conflict" // 409
	storeSlow     = "store-slow"     // up to 4 s
	storeHangs    = "store-hangs"    // for 20 s
	storePaced    = "store-paced"    // one write per second and key, else 429

	cloudLost      = "cloud-lost"
	cloudLate      = "cloud-late"
	cloudRefused   = "cloud-refused"   // a 5xx without effect
	cloudThrottled = "cloud-throttled" // beyond a limit that nobody told us of
	cloudFull      = "cloud-full"      // no capacity
	cloudQuota     = "cloud-quota"     // the account has reached its limit
	cloudSlow      = "cloud-slow"      // up to 8 s
	cloudStill     = "cloud-stillborn" // the machine fails at once
	cloudDies      = "cloud-dies"      // the machine fails within 2 minutes
	cloudEmpty     = "cloud-empty"     // a list without machines and without an error
	cloudPage      = "cloud-page"      // a list that fails in the middle

	netLost  = "net-lost"  // a call of an agent or operator never arrives
	netMute  = "net-mute"  // it is carried out, and the answer lost
	netSlow  = "net-slow"  // up to 5 s
	netBreak = "net-break" // a message breaks its stream

	agentNever = "agent-never" // a machine whose agent never registers
	agentSlow  = "agent-slow"  // one that registers up to two minutes late
	drainNever = "drain-never" // a machine that nobody acknowledges as drained
)

// kinds are all of them, with the highest likelihood that makes sense.
var kinds = map[string]float64{
	storeRefused: 0.2, storeLost: 0.1, storeLate: 0.05, storeRepeated: 0.1, storeConflict: 0.1, storeSlow: 0.1,
	storeHangs: 0.01, storePaced: 1,
	cloudLost: 0.2, cloudLate: 0.1, cloudRefused: 0.2, cloudThrottled: 0.2, cloudFull: 0.2, cloudQuota: 0.05, cloudSlow: 0.2,
	cloudStill: 0.1, cloudDies: 0.1, cloudEmpty: 0.1, cloudPage: 0.2,
	netLost: 0.1, netMute: 0.1, netSlow: 0.1, netBreak: 0.02,
	agentNever: 0.15, agentSlow: 0.2, drainNever: 0.3,
}

// weather hits calls with faults, and counts which ones it did.
type weather struct {
	dice dice

	mu     sync.Mutex
	chance map[string]float64
	calm   bool
	nth    map[string]int            // how often each kind of call was made
	wrote  map[string]time.Time      // the last write of each key
	fated  map[identity.ID]time.Time // machines that are to fail, and until when they will have
	fired  map[string]int
}

func newWeather(p Plan) *weather {
	w := &weather{
		dice: dice{p.Seed}, chance: maps.Clone(p.Weather),
		nth: map[string]int{}, wrote: map[string]time.Time{}, fated: map[identity.ID]time.Time{}, fired: map[string]int{},
	}
	if w.chance == nil {
		w.chance = map[string]float64{}
	}
	return w
}

// clear ends all faults of this kind for good.
func (w *weather) clear() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calm = true
}

// set makes a fault as likely as said, and returns how likely it was.
func (w *weather) set(kind string, chance float64) float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.chance[kind]
	w.chance[kind] = chance
	return before
}

// note counts a fault that was not drawn here.
func (w *weather) note(kind string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fired[kind]++
}

// number counts the calls of one kind, from 1.
func (w *weather) number(what string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nth[what]++
	return w.nth[what]
}

// hits draws whether a fault hits, and counts it.
func (w *weather) hits(kind string, words ...any) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calm || !w.dice.chance(w.chance[kind], append(words, kind)...) {
		return false
	}
	w.fired[kind]++
	return true
}

// store draws what goes wrong with a call of the store: the nth of its kind.
func (w *weather) store(who string, op memory.Op, key string) memory.Fault {
	what := who + " " + string(op) + " " + key
	n := w.number(what)
	f := memory.Fault{Latency: w.dice.between(3*time.Millisecond, 40*time.Millisecond, what, n)}
	hits := func(kind string) bool { return w.hits(kind, what, n) }
	write := op == memory.OpPut || op == memory.OpDelete
	switch {
	case hits(storeRefused):
		f.Before = objectstore.ErrThrottled
	case hits(storeSlow):
		f.Latency += w.dice.between(0, 4*time.Second, what, n, "slow")
	case hits(storeHangs):
		f.Latency += 20 * time.Second
	case !write:
	case w.paced(op, key):
		f.Before = objectstore.ErrThrottled
	case hits(storeConflict):
		f.Before = objectstore.ErrConflict
	case hits(storeLost):
		f.Linger, f.After = w.dice.between(0, time.Second, what, n, "lost"), objectstore.ErrUnavailable
	case hits(storeLate):
		f.Late = w.dice.between(0, 20*time.Second, what, n, "late")
	case hits(storeRepeated):
		f.After = objectstore.ErrPrecondition
	}
	return f
}

// paced reports whether a write comes too soon after the last of its key.
func (w *weather) paced(op memory.Op, key string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, written := w.wrote[key]
	if w.calm || w.chance[storePaced] == 0 || op != memory.OpPut {
		return false
	}
	if written && time.Since(last) < time.Second {
		w.fired[storePaced]++
		return true
	}
	w.wrote[key] = time.Now()
	return false
}

// cloud draws what goes wrong with a call of the provider.
func (w *weather) cloud(c drivertest.Call) drivertest.Fault {
	what := string(c.Op) + " " + c.ID.String()
	n := w.number(what)
	f := drivertest.Fault{Latency: w.dice.between(50*time.Millisecond, 400*time.Millisecond, what, n)}
	hits := func(kind string) bool { return w.hits(kind, what, n) }
	fail := func(kind driver.ErrorClass) {
		f.Before = driver.Fail(kind, string(c.Op), errors.New("as the plan wants"))
	}
	switch {
	case hits(cloudRefused):
		fail(driver.Transient)
	case hits(cloudThrottled):
		fail(driver.Throttled)
	case hits(cloudSlow):
		f.Latency += w.dice.between(0, 8*time.Second, what, n, "slow")
	case c.Op == drivertest.OpList && hits(cloudEmpty):
		f.Empty = true
	case c.Op == drivertest.OpList && hits(cloudPage):
		f.FailPage = 2
	case c.Op == drivertest.OpGet, c.Op == drivertest.OpList:
	case hits(cloudLost):
		f.Linger, f.After = w.dice.between(0, 4*time.Second, what, n, "lost"), driver.Fail(driver.Ambiguous, string(c.Op), errors.New("answer lost"))
	case hits(cloudLate):
		f.Late = w.dice.between(0, 8*time.Second, what, n, "late")
	case c.Op == drivertest.OpDelete:
	case hits(cloudFull):
		fail(driver.Capacity)
	case hits(cloudQuota):
		fail(driver.Quota)
	case w.hits(cloudStill, c.ID):
		f.Dies = true
	case w.hits(cloudDies, c.ID):
		f.Dies, f.DieAfter = true, w.dice.between(time.Second, 2*time.Minute, c.ID, "dies")
		w.fate(c.ID, time.Now().Add(f.Latency+f.DieAfter))
	}
	return f
}

// fate notes when a machine will have failed.
func (w *weather) fate(id identity.ID, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fated[id] = at
}

// dooms reports whether a machine is still to fail.
func (w *weather) dooms(id identity.ID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !time.Now().After(w.fated[id])
}
