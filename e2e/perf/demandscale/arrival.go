package demandscale

import (
	"fmt"
	"testing"
	"time"

	"nstance.dev/e2e/perf/bench"
	"nstance.dev/e2e/perf/usage"
)

// arrival is Pods that come at once.
type arrival struct {
	measure        string
	pods, machines int
	cpu            string // of a Pod: so that pods/machines of them fill a machine, of whose 1930m nothing is left over

	first, last, bound time.Duration // goals; first 0: none
	processor          time.Duration // goal; 0: none
	resident           float64       // goal, MiB; 0: none
}

// The arrivals that are measured.
var (
	thousand = arrival{
		measure: "D1", pods: 1000, machines: 143, cpu: "275m",
		first: 1500 * time.Millisecond, last: 3 * time.Second, bound: 10 * time.Second, processor: 4 * time.Second, resident: 120,
	}
	oneEach = arrival{measure: "D2", pods: 200, machines: 200, cpu: "1930m", last: 2500 * time.Millisecond, bound: 11 * time.Second}
)

// requestsGoal is how many requests an operator makes for D1 that writes no CapacityRequests.
const requestsGoal = 1300

// arrive measures an arrival in a cluster without Nodes, and leaves the Pods there.
func (w *world) arrive(a arrival) []bench.Row {
	w.t.Helper()
	w.atLeast(rollupsMetric, 1) // the operator has started, which is no part of what is measured
	s, stop := w.watch()
	defer stop()
	before := w.taken()
	w.deploy(a.pods, a.cpu)
	w.await(s, podBound, a.pods)
	after := w.taken()
	began := s.first(podMade)
	w.t.Logf("measured: %s: %s", a.measure, s.timeline(began, podMade, machineMade, nodeMade, podBound))
	name := fmt.Sprintf("%d Pods, %d to a Node: ", a.pods, (a.pods+a.machines-1)/a.machines)
	rows := []bench.Row{
		promise(a.measure, name+"last machine made", "s", since(began, s.last(machineMade)), a.last.Seconds()),
		promise(a.measure, name+"all bound", "s", since(began, s.last(podBound)), a.bound.Seconds()),
		promise(a.measure, name+"machines", "1", float64(s.count(machineMade)), float64(a.machines)),
	}
	if a.first > 0 {
		rows = append([]bench.Row{promise(a.measure, name+"first machine made", "s", since(began, s.first(machineMade)), a.first.Seconds())}, rows...)
	}
	if a.processor > 0 {
		rows = append(rows, promise(a.measure, name+"processor time of operator and server until then", "s", after.processor(before).Seconds(), a.processor.Seconds()))
	}
	if a.resident > 0 {
		rows = append(rows,
			promise(a.measure, name+"resident memory of the operator, at most", "MiB", usage.MiB(after.operator.Peak), a.resident),
			promise(a.measure, name+"resident memory of the server, at most", "MiB", usage.MiB(after.server.Peak), a.resident))
	}
	return rows
}

// Measure measures Pods that come at once and go at once.
func Measure(t testing.TB) []bench.Row {
	t.Helper()
	w := newWorld(t, nil)
	floor := w.floor(thousand)
	rows := w.arrive(thousand)
	rows = append(rows, bench.Row{
		Measure: "D1", Name: "1000 Pods: all bound, against bare writes", Unit: "s", Ours: rows[2].Ours, Floor: floor.Seconds(),
		Against: "the same objects, made by a bare client", Goal: bench.AtMost(bareGoal),
	})
	rows = append(rows, w.leave(thousand.machines)...)
	rows = append(rows, w.arrive(oneEach)...)
	w.leave(oneEach.machines)
	return rows
}

// bareGoal is how many times as long as bare writes of the same objects an arrival may last: nobody
// schedules, decides or boots meanwhile.
const bareGoal = 3

// MeasureDirect measures the requests of an operator that takes Pods as they are.
func MeasureDirect(t testing.TB) []bench.Row {
	t.Helper()
	w := newWorld(t, map[string]any{"demand": map[string]any{"podSource": "direct"}})
	before := w.requests()
	rows := w.arrive(thousand)
	for i := range rows {
		rows[i].Name = "Pods as they are, " + rows[i].Name
	}
	rows = append(rows, promise("D1", "Pods as they are, 1000 Pods: requests of the operator to the API server", "1", float64(w.requests()-before), requestsGoal))
	w.leave(thousand.machines)
	return rows
}

// requests is how many the operator has made.
func (w *world) requests() (n int) {
	w.t.Helper()
	all, err := w.Audit()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range all {
		if r.User == w.OperatorUser() {
			n++
		}
	}
	return n
}
