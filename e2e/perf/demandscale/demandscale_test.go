//go:build kube && demand

package demandscale_test

import (
	"flag"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"nstance.dev/e2e/env/kube"
	"nstance.dev/e2e/perf/bench"
	"nstance.dev/e2e/perf/demandscale"
)

var (
	report   = flag.String("report", "", "write a Markdown page to this file as well")
	requests = flag.Int("requests", 25_000, "CapacityRequests beside which one is measured")
	pods     = flag.Int("pods", 100_000, "Pods beside which an operator is measured")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(kube.OwnNetwork(m)) }

func TestDemandScale(t *testing.T) {
	var rows []bench.Row
	t.Run("pods", func(t *testing.T) { rows = demandscale.Measure(t) })
	t.Run("direct", func(t *testing.T) { rows = append(rows, demandscale.MeasureDirect(t)...) })
	t.Run("requests", func(t *testing.T) { rows = append(rows, demandscale.MeasureRequests(t, *requests)...) })
	t.Run("many", func(t *testing.T) { rows = append(rows, demandscale.MeasureMany(t, *pods)...) })
	if err := bench.WriteTable(os.Stdout, rows); err != nil || *report == "" || t.Failed() {
		return
	}
	setting := bench.Setting{Commit: commit(t), Date: time.Now()} // before the page is another one than that of the commit
	f, err := os.Create(*report)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := demandscale.WritePage(f, setting, rows); err != nil {
		t.Error(err)
	}
}

// commit names what is measured, as far as git knows.
func commit(t *testing.T) string {
	out, err := exec.CommandContext(t.Context(), "git", "describe", "--always", "--dirty", "--abbrev=12").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
