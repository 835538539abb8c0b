package sim_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"nstance.dev/e2e/sim"
)

var (
	oneSeed = flag.Uint64("seed", 0, "repeat this seed alone, with its log")
	mode    = flag.String("mode", "", "safety or liveness; both in turn")
	first   = flag.Uint64("first", 1, "the first seed")
	seeds   = flag.Int("seeds", 6, "how many seeds, with no -for")
	lasting = flag.Duration("for", 0, "run seeds for so long")
	logs    = flag.Bool("logs", false, "show the logs of the servers of -seed")
	keepOn  = flag.Bool("keep-on", false, "go on after a seed has failed")
	fast    = flag.Bool("fail-fast", false, "panic at the first broken promise")
	shrinks = flag.Int("shrink", 150, "how often a failing plan is run again to cut it down")
)

// TestMain lets the heap grow: a world is small and makes much garbage, and a third
// of the time would be spent on collecting it.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	goleak.VerifyTestMain(m)
}

// modeOf is the mode of a seed: both in turn.
func modeOf(seed uint64) string {
	switch {
	case *mode != "":
		return *mode
	case seed%2 == 0:
		return "liveness"
	default:
		return "safety"
	}
}

// stuckTime is far more real time than any run takes. What a world does in its own time
// is bounded, and says so where the bound is broken; but a loop in which no such time
// passes ends never, and nobody would know in which seed.
const stuckTime = 4 * time.Minute

// run runs a plan in a bubble of its own.
func run(t *testing.T, p sim.Plan, opts sim.Options) (res sim.Result) {
	t.Helper()
	opts.Progress = &sim.Progress{}
	stuck := time.AfterFunc(stuckTime, func() {
		debug.SetTraceback("all")
		panic(fmt.Sprintf("after %v the world of this plan has come to %v, and does not end:\n%s", stuckTime, opts.Progress, p))
	})
	defer stuck.Stop()
	synctest.Test(t, func(*testing.T) { res = sim.Run(p, opts) })
	return res
}

// TestSim runs the plans of many seeds, and demands that every promise is kept.
func TestSim(t *testing.T) {
	if *oneSeed != 0 {
		repeat(t, *oneSeed)
		return
	}
	began := time.Now()
	var (
		mu     sync.Mutex
		total  tally
		begun  atomic.Int64
		failed atomic.Bool
	)
	next := func() (seed uint64, more bool) {
		n := begun.Add(1) - 1
		more = n < int64(*seeds)
		if *lasting > 0 {
			more = time.Since(began) < *lasting
		}
		return *first + uint64(n), more && (*keepOn || !failed.Load())
	}
	t.Run("seeds", func(t *testing.T) {
		for worker := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprint(worker), func(t *testing.T) {
				t.Parallel()
				for seed, more := next(); more; seed, more = next() {
					p := sim.Generate(seed, modeOf(seed))
					res := run(t, p, sim.Options{FailFast: *fast})
					mu.Lock()
					total.add(res)
					mu.Unlock()
					if len(res.Violations) > 0 {
						failed.Store(true)
						report(t, p, res)
					}
				}
			})
		}
	})
	t.Logf("%s", total.report(time.Since(began)))
}

// repeat runs one seed and shows everything.
func repeat(t *testing.T, seed uint64) {
	p := sim.Generate(seed, modeOf(seed))
	opts := sim.Options{}
	if *logs {
		opts.Log = os.Stderr
	}
	res := run(t, p, opts)
	t.Logf("plan:\n%s\nlog:\n%s\n", p, strings.Join(res.Log, "\n"))
	var total tally
	total.add(res)
	t.Log(total.report(0))
	if len(res.Violations) > 0 {
		report(t, p, res)
	}
}

// report says what was violated, and by how little.
func report(t *testing.T, p sim.Plan, res sim.Result) {
	t.Helper()
	was := res.Violations[0].Promise
	least := sim.Shrink(p, *shrinks, func(less sim.Plan) bool {
		return slices.ContainsFunc(run(t, less, sim.Options{}).Violations, func(v sim.Violation) bool { return v.Promise == was })
	})
	t.Errorf("seed %d: %s\nrepeat it with: go test ./e2e/sim -run 'TestSim$' -seed=%d -mode=%s\ncut down to:\n%s",
		p.Seed, list(res.Violations), p.Seed, p.Settings["mode"], least)
}

// list is the first few violations.
func list(all []sim.Violation) string {
	const most = 6
	var b strings.Builder
	for _, v := range all[:min(len(all), most)] {
		fmt.Fprintf(&b, "\n  %s", v)
	}
	if len(all) > most {
		fmt.Fprintf(&b, "\n  and %d more", len(all)-most)
	}
	return b.String()
}

// tally sums results up.
type tally struct {
	runs, events, made int
	fired              map[string]int
}

func (a *tally) add(r sim.Result) {
	if a.fired == nil {
		a.fired = map[string]int{}
	}
	a.runs, a.events, a.made = a.runs+1, a.events+r.Events, a.made+r.Made
	for kind, n := range r.Fired {
		a.fired[kind] += n
	}
}

func (a *tally) report(took time.Duration) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d seeds, %d events (%d a seed), %d machines", a.runs, a.events, a.events/max(a.runs, 1), a.made)
	if took > 0 {
		fmt.Fprintf(&b, ", %.1f seeds/s", float64(a.runs)/took.Seconds())
	}
	for _, kind := range slices.Sorted(maps.Keys(a.fired)) {
		fmt.Fprintf(&b, "\n  %-20s %d", kind, a.fired[kind])
	}
	return b.String()
}
