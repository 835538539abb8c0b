//go:build scale

package scale_test

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
	"nstance.dev/e2e/perf/scale"
)

var (
	pools  = flag.Int("pools", 200, "pools, each on three shards")
	nodes  = flag.Int("nodes", 2000, "Nodes, shared out over the pools")
	pods   = flag.Int("pods", 5, "Pods on each Node")
	large  = flag.Int("large", 500, "instances of the pool that Cluster API's own controllers look after")
	report = flag.String("report", "", "write a Markdown page to this file as well")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(kube.OwnNetwork(m)) }

func TestScale(t *testing.T) {
	size := scale.Size{Pools: *pools, Nodes: *nodes, PodsPerNode: *pods}
	var rows []bench.Row
	t.Run("many pools", func(t *testing.T) { rows = scale.Measure(t, size) })
	t.Run("one pool", func(t *testing.T) { rows = append(rows, scale.MeasureCore(t, *large)...) })
	if err := bench.WriteTable(os.Stdout, rows); err != nil || *report == "" || t.Failed() {
		return
	}
	setting := bench.Setting{Commit: commit(t), Date: time.Now()} // before the page is another one than that of the commit
	f, err := os.Create(*report)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := scale.WritePage(f, size, setting, rows); err != nil {
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
