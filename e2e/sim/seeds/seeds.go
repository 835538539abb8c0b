// Package seeds looks for a seed whose plan breaks a promise. The tests of the simulators
// share it: what a plan is made of, and who is a guest in its world, is for each of them.
//
// A [Search] runs one plan after another on each processor until its time is over or a
// promise is broken, cuts the plan that broke it down, and says how to repeat it. Stories
// and scenarios, which have plans of their own, are run by [Search.Play].
package seeds

import (
	"flag"
	"fmt"
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

	"nstance.dev/e2e/sim"
)

// Search is what the flags of a test binary say of a search. [New] makes one.
type Search struct {
	Options

	seed    *uint64
	first   *uint64
	seeds   *int
	lasting *time.Duration
	mode    *string
	logs    *bool
	keepOn  *bool
	fast    *bool
	shrinks *int
}

// Options are what differs between simulators. Guest, Begin, Run and World may be nil, all else is required.
type Options struct {
	Test     string        // that searches, as a person repeats it: the arguments of go test
	Seeds    int           // how many, if nothing is said of it
	Shrinks  int           // how often a failing plan is run again to cut it down, by default
	Stuck    time.Duration // see New
	Generate func(seed uint64, mode string) sim.Plan
	Guest    func(testing.TB) func(sim.Ground) sim.Guest
	Begin    func(sim.Plan) // is called before each run; may be nil

	// Run carries out a plan of a world that has no goroutines, and so needs no bubble; nil is
	// [sim.Run].
	Run func(sim.Plan, sim.Options) sim.Result
	// World carries out a plan of another world than [sim.Run]'s, in a bubble; nil is that one.
	World func(*testing.T, sim.Plan, sim.Options) sim.Result
}

// New defines the flags of a search. It is for a variable of a test's package, so that they
// are there when flags are parsed.
//
// What a world does in its own time is bounded, and says so where the bound is broken; but a
// loop in which no such time passes ends never, and nobody would know in which seed. A world
// that stands still for Options.Stuck of real time is taken for one, and ends the program.
func New(o Options) *Search {
	return &Search{
		Options: o,
		seed:    flag.Uint64("seed", 0, "repeat this seed alone, with its log"),
		first:   flag.Uint64("first", 1, "the first seed"),
		seeds:   flag.Int("seeds", o.Seeds, "how many seeds, with no -for"),
		lasting: flag.Duration("for", 0, "run seeds for so long"),
		mode:    flag.String("mode", "", "safety or liveness; both in turn"),
		logs:    flag.Bool("logs", false, "show the logs of the servers of -seed"),
		keepOn:  flag.Bool("keep-on", false, "go on after a seed has failed"),
		fast:    flag.Bool("fail-fast", false, "panic at the first broken promise"),
		shrinks: flag.Int("shrink", o.Shrinks, "how often a failing plan is run again to cut it down"),
	}
}

// FailFast says whether the first broken promise is to end the program.
func (s *Search) FailFast() bool { return *s.fast }

// Play runs a plan in a bubble of its own.
func (s *Search) Play(t *testing.T, p sim.Plan) sim.Result {
	t.Helper()
	return s.play(t, p, sim.Options{FailFast: *s.fast})
}

func (s *Search) play(t *testing.T, p sim.Plan, o sim.Options) (res sim.Result) {
	t.Helper()
	o.Progress = &sim.Progress{}
	if s.Guest != nil {
		o.Guest = s.Guest(t)
	}
	if s.Begin != nil {
		s.Begin(p)
	}
	ended := make(chan struct{})
	defer close(ended)
	go s.watch(p, o.Progress, ended)
	if s.Options.Run != nil {
		return s.Options.Run(p, o)
	}
	var bubble string
	defer func() { forgive(recover(), bubble) }()
	synctest.Test(t, func(t *testing.T) {
		bubble = bubbleOf(stack(false))
		if s.World != nil {
			res = s.World(t, p, o)
			return
		}
		res = sim.Run(p, o)
	})
	return res
}

// watch panics if a world stands still. On a busy box one may take long, and still goes on.
func (s *Search) watch(p sim.Plan, progress *sim.Progress, ended <-chan struct{}) {
	look := time.NewTicker(s.Stuck)
	defer look.Stop()
	for last := time.Duration(-1); ; last = progress.At() {
		select {
		case <-ended:
			return
		case <-look.C:
		}
		if progress.At() == last {
			debug.SetTraceback("all")
			panic(fmt.Sprintf("for %v the world of this plan stands at %v:\n%s", s.Stuck, progress, p))
		}
	}
}

// Run runs the plans of many seeds, or that of one, and demands that every promise is kept.
func (s *Search) Run(t *testing.T) {
	t.Helper()
	if *s.seed != 0 {
		s.repeat(t)
		return
	}
	var (
		began  = time.Now()
		mu     sync.Mutex
		total  tally
		begun  atomic.Int64
		failed atomic.Bool
	)
	next := func() (seed uint64, more bool) {
		n := begun.Add(1) - 1
		more = n < int64(*s.seeds)
		if *s.lasting > 0 {
			more = time.Since(began) < *s.lasting
		}
		return *s.first + uint64(n), more && (*s.keepOn || !failed.Load())
	}
	t.Run("seeds", func(t *testing.T) {
		for worker := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprint(worker), func(t *testing.T) {
				t.Parallel()
				for seed, more := next(); more; seed, more = next() {
					p := s.plan(seed)
					res := s.Play(t, p)
					mu.Lock()
					total.add(res)
					mu.Unlock()
					if len(res.Violations) > 0 {
						failed.Store(true)
						s.report(t, p, res)
					}
				}
			})
		}
	})
	t.Logf("%s", total.report(time.Since(began)))
}

// plan is that of a seed. Seeds take the modes in turn, unless the flags want one.
func (s *Search) plan(seed uint64) sim.Plan {
	mode := []string{"liveness", "safety"}[seed%2]
	if *s.mode != "" {
		mode = *s.mode
	}
	return s.Generate(seed, mode)
}

// onOneProcessor makes goroutines run one at a time, in the order in which they begin, until
// what it returns is called.
func onOneProcessor() (back func()) {
	were := runtime.GOMAXPROCS(1)
	return func() { runtime.GOMAXPROCS(were) }
}

// repeat runs one seed and shows everything.
func (s *Search) repeat(t *testing.T) {
	t.Helper()
	defer onOneProcessor()()
	p, o := s.plan(*s.seed), sim.Options{FailFast: *s.fast}
	if *s.logs {
		o.Log = os.Stderr
	}
	res := s.play(t, p, o)
	t.Logf("plan:\n%s\nlog:\n%s\n", p, strings.Join(res.Log, "\n"))
	var total tally
	total.add(res)
	t.Log(total.report(0))
	if len(res.Violations) > 0 {
		s.report(t, p, res)
	}
}

// report says what was violated, and by how little. The whole history goes before it: where
// a seed does not repeat, it is all that is left of what happened.
func (s *Search) report(t *testing.T, p sim.Plan, res sim.Result) {
	t.Helper()
	t.Logf("seed %d, all that happened:\n%s\n", p.Seed, strings.Join(res.History, "\n"))
	was := res.Violations[0].Promise
	least := sim.Shrink(p, *s.shrinks, func(less sim.Plan) bool {
		return slices.ContainsFunc(s.play(t, less, sim.Options{}).Violations, func(v sim.Violation) bool { return v.Promise == was })
	})
	t.Errorf("seed %d: %s\nrepeat it with: go test %s -seed=%d -mode=%s\ncut down to:\n%s",
		p.Seed, first(res.Violations), s.Test, p.Seed, p.Settings["mode"], least)
}

// first is the first few violations.
func first(all []sim.Violation) string {
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
