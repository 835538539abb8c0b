package scale

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"nstance.dev/e2e/perf/bench"
)

func TestLayout(t *testing.T) {
	want := []Pool{
		{Name: "pool-000", Sizes: []int{2, 1, 1}},
		{Name: "pool-001", Sizes: []int{1, 1, 1}},
		{Name: "pool-002", Sizes: []int{1, 1, 1}},
	}
	if diff := cmp.Diff(want, Size{Pools: 3, Nodes: 10}.Layout()); diff != "" {
		t.Error(diff)
	}
}

func TestQuantile(t *testing.T) {
	var hundred []time.Duration
	for i := range 100 {
		hundred = append(hundred, time.Duration(i+1))
	}
	for _, test := range []struct {
		sorted []time.Duration
		q      float64
		want   time.Duration
	}{
		{hundred, 0.99, 99},
		{hundred, 0.5, 50},
		{hundred[:50], 0.99, 50}, // of fewer than a hundred it is the worst
		{hundred[:1], 0.5, 1},
	} {
		if got := quantile(test.sorted, test.q); got != test.want {
			t.Errorf("%v of %d: %d, want %d", test.q, len(test.sorted), got, test.want)
		}
	}
}

func TestDelayRow(t *testing.T) {
	tests := []struct {
		name   string
		delays []time.Duration
		want   bench.Row
	}{
		{
			"the worst of a few counts", []time.Duration{3 * time.Second, time.Second, 2 * time.Second},
			bench.Row{Measure: "T4", Name: "x, p99 of 3 (p50 2.00 s)", Unit: "s", Ours: 3, Floor: 2, Against: "the promise", Goal: bench.AtMost(1)},
		},
		{
			"nothing is no number", nil,
			bench.Row{Measure: "T4", Name: "x, p99", Unit: "s", Floor: 2, Against: "the promise", Goal: bench.AtMost(1), Err: errNothing},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, delayRow("x", test.delays, 2*time.Second), cmpopts.EquateErrors()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAgainstBare(t *testing.T) {
	row := bench.Row{Measure: "T4", Ours: 3, Floor: 2, Against: "the promise", Goal: bench.AtMost(1)}
	if diff := cmp.Diff(row, againstBare(row, 100*time.Millisecond)); diff != "" {
		t.Errorf("writes that cost next to nothing: %s", diff)
	}
	want := bench.Row{Measure: "T4", Ours: 3, Floor: 1.5, Against: "as many bare writes", Goal: bench.AtMost(3)}
	if diff := cmp.Diff(want, againstBare(row, 1500*time.Millisecond)); diff != "" {
		t.Errorf("writes that cost more than the goal allows: %s", diff)
	}
}

func TestSamples(t *testing.T) {
	s := parseSamples(`# HELP workqueue_depth Depth
# TYPE workqueue_depth gauge
workqueue_depth{controller="pool",name="pool",priority="0"} 2
workqueue_depth{controller="nodes",name="nodes",priority="0"} 1
workqueue_depth_total 9
controller_runtime_active_workers{controller="pool"} 1
controller_runtime_reconcile_total{controller="pool",result="error"} 3
controller_runtime_reconcile_total{controller="pool",result="success"} 4e+02
controller_runtime_reconcile_total{controller="nodes",result="success"} 5
`)
	if n := s.reconciled("pool"); n != 403 {
		t.Errorf("pool looked %d times, want 403", n)
	}
	if n := s.sum("workqueue_depth"); n != 3 {
		t.Errorf("%v wait, want 3", n)
	}
	if err := s.idle(); err == nil {
		t.Error("it is idle")
	}
	if err := parseSamples("workqueue_depth{name=\"pool\"} 0\n").idle(); err != nil {
		t.Errorf("it is not idle: %v", err)
	}
}

func TestDelaysAreThoseOfTheLastShard(t *testing.T) {
	h := newHeard()
	all := h.expect(map[place]int32{{"a", "web"}: 3, {"b", "web"}: 2})
	h.note(place{"a", "web"}, 3, time.Unix(1, 0))
	h.note(place{"a", "web"}, 3, time.Unix(9, 0)) // said again
	h.note(place{"b", "web"}, 1, time.Unix(2, 0)) // as it was
	h.note(place{"c", "web"}, 1, time.Unix(3, 0)) // nobody waits for it
	select {
	case <-all:
		t.Error("not all have heard")
	default:
	}
	h.note(place{"b", "web"}, 2, time.Unix(4, 0))
	<-all
	if at := h.last("web"); !at.Equal(time.Unix(4, 0)) {
		t.Errorf("last at %v", at)
	}
}

func TestMedian(t *testing.T) {
	row := func(ours float64) bench.Row { return promise("", "s", ours, 2) }
	for _, test := range []struct {
		of   []float64
		want float64
	}{{[]float64{7}, 7}, {[]float64{3, 1}, 3}, {[]float64{9, 1, 4}, 4}} {
		var rows []bench.Row
		for _, ours := range test.of {
			rows = append(rows, row(ours))
		}
		if got := median(rows).Ours; got != test.want {
			t.Errorf("the median of %v is %v, want %v", test.of, got, test.want)
		}
	}
}
