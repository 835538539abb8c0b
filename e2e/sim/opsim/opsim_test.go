//go:build !race

//go:debug randseednop=0

package opsim_test

import (
	"math/rand" //nolint:depguard // client-go draws its jitter from the global source, which only this one seeds
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"nstance.dev/e2e/sim"
	"nstance.dev/e2e/sim/opsim"
	"nstance.dev/e2e/sim/seeds"
)

var search = seeds.New(seeds.Options{
	Test: "./e2e/sim/opsim -run 'TestOpsim$'", Seeds: 2, Shrinks: 60, Stuck: 4 * time.Minute, Generate: opsim.Generate, Guest: opsim.New,
	Begin: func(p sim.Plan) {
		rand.Seed(int64(p.Seed)) //nolint:staticcheck // the jitter of client-go has no other source
	},
})

// TestMain lets the heap grow, as that of package sim does. One world runs at a time, and one
// goroutine: with a second processor the order of what happens at one moment would be another
// one each time.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(400)
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())  // informers say that watches break, as they are meant to
	utilruntime.ErrorHandlers = nil //nolint:reassign // they count time across bubbles
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}

// TestOpsim runs the plans of many seeds, and demands that every promise is kept on both
// sides.
func TestOpsim(t *testing.T) { search.Run(t) }
