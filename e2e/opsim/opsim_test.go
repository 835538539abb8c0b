//go:build !race

package opsim_test

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

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"nstance.dev/e2e/opsim"
	"nstance.dev/e2e/sim"
)

var (
	oneSeed = flag.Uint64("seed", 0, "repeat this seed alone, with its log")
	first   = flag.Uint64("first", 1, "the first seed")
	seeds   = flag.Int("seeds", 2, "how many seeds, with no -for")
	lasting = flag.Duration("for", 0, "run seeds for so long")
	logs    = flag.Bool("logs", false, "show the logs of the servers of -seed")
	keepOn  = flag.Bool("keep-on", false, "go on after a seed has failed")
	fast    = flag.Bool("fail-fast", false, "panic at the first broken promise")
	shrinks = flag.Int("shrink", 60, "how often a failing plan is run again to cut it down")
)

// TestMain lets the heap grow, as that of package sim does.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())  // informers say that watches break, as they are meant to
	utilruntime.ErrorHandlers = nil //nolint:reassign // they count time across bubbles
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}

// modeOf is the mode of a seed: both in turn.
func modeOf(seed uint64) string { return []string{"liveness", "safety"}[seed%2] }

// stuckTime is far more real time than any run takes: a loop in which no time of its own
// passes ends never, and nobody would know in which seed.
const stuckTime = 8 * time.Minute

// run runs a plan in a bubble of its own.
func run(t *testing.T, p sim.Plan, o sim.Options) (res sim.Result) {
	t.Helper()
	o.Guest, o.Progress = opsim.New(t), &sim.Progress{}
	stuck := time.AfterFunc(stuckTime, func() {
		debug.SetTraceback("all")
		panic(fmt.Sprintf("after %v the world of this plan has come to %v, and does not end:\n%s", stuckTime, o.Progress, p))
	})
	defer stuck.Stop()
	synctest.Test(t, func(*testing.T) { res = sim.Run(p, o) })
	return res
}

// TestOpsim runs the plans of many seeds, and demands that every promise is kept on both
// sides.
func TestOpsim(t *testing.T) {
	if *oneSeed != 0 {
		repeat(t, *oneSeed)
		return
	}
	var (
		began  = time.Now()
		mu     sync.Mutex
		total  = tally{fired: map[string]int{}}
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
					p := opsim.Generate(seed, modeOf(seed))
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
	p := opsim.Generate(seed, modeOf(seed))
	o := sim.Options{}
	if *logs {
		o.Log = os.Stderr
	}
	res := run(t, p, o)
	t.Logf("plan:\n%s\nlog:\n%s\n", p, strings.Join(res.Log, "\n"))
	total := tally{fired: map[string]int{}}
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
	var said strings.Builder
	for _, v := range res.Violations[:min(6, len(res.Violations))] {
		fmt.Fprintf(&said, "\n  %s", v)
	}
	t.Errorf("seed %d, %d violations:%s\nrepeat it with: go test ./e2e/opsim -run 'TestOpsim$' -seed=%d\ncut down to:\n%s",
		p.Seed, len(res.Violations), said.String(), p.Seed, least)
}

// tally sums results up.
type tally struct {
	runs, events, made int
	fired              map[string]int
}

func (a *tally) add(r sim.Result) {
	a.runs, a.events, a.made = a.runs+1, a.events+r.Events, a.made+r.Made
	for kind, n := range r.Fired {
		a.fired[kind] += n
	}
}

func (a *tally) report(took time.Duration) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d seeds, %d events (%d a seed), %d machines", a.runs, a.events, a.events/max(a.runs, 1), a.made)
	if took > 0 {
		fmt.Fprintf(&b, ", %.2f seeds/s", float64(a.runs)/took.Seconds())
	}
	for _, kind := range slices.Sorted(maps.Keys(a.fired)) {
		fmt.Fprintf(&b, "\n  %-24s %d", kind, a.fired[kind])
	}
	return b.String()
}
