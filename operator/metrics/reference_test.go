package metrics_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"nstance.dev/operator/metrics"
)

var update = flag.Bool("update", false, "write the table into the page")

// page has the table between two lines.
const (
	page  = "../../docs/kubernetes/operator.md"
	begin = "<!-- metrics: begin, written by go test ./operator/metrics -update -->\n"
	end   = "<!-- metrics: end -->\n"
)

func TestThePageHasEveryMetric(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s lacks the lines around the table", page)
	}
	want := before + begin + metrics.Reference() + end + after
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(text) != want {
		t.Errorf("%s is out of date; run go test ./operator/metrics -update", page)
	}
}
