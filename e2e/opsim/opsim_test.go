//go:build !race

package opsim_test

import (
	"runtime/debug"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"nstance.dev/e2e/opsim"
	"nstance.dev/e2e/sim/seeds"
)

var search = seeds.New(seeds.Options{
	Test: "./e2e/opsim -run 'TestOpsim$'", Seeds: 2, Shrinks: 60, Stuck: 4 * time.Minute, Generate: opsim.Generate, Guest: opsim.New,
})

// TestMain lets the heap grow, as that of package sim does.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())  // informers say that watches break, as they are meant to
	utilruntime.ErrorHandlers = nil //nolint:reassign // they count time across bubbles
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}

// TestOpsim runs the plans of many seeds, and demands that every promise is kept on both
// sides.
func TestOpsim(t *testing.T) { search.Run(t) }
