package scale

import (
	"context"
	"fmt"
	"testing"
	"time"

	"nstance.dev/e2e/perf/bench"
	"nstance.dev/e2e/perf/usage"
)

// What is done at once.
const (
	inTurn     = 100 // pools that are scaled one after another, and others in bursts
	burst      = 20  // pools that are scaled together
	allTimes   = 3   // how often all pools are
	drained    = 50  // Nodes whose machines go, one after another and together
	quietFor   = time.Minute
	scrapeTime = 30 * time.Second // how often metrics are read while it is quiet
)

// The promises.
const (
	scaleGoal  = time.Second
	appearGoal = time.Second
	cordonGoal = 2 * time.Second
	startGoal  = 15 * time.Second
	memoryGoal = 300 // MiB
	quietGoal  = 10  // percent of a core
)

// Measure makes a cluster of a size and measures the operator in it. The order matters:
// what makes the cluster larger than it is said to be comes last.
func Measure(t testing.TB, size Size) []bench.Row {
	t.Helper()
	began := time.Now()
	defer func() { t.Logf("measured: everything after %v", time.Since(began).Round(time.Second)) }()
	w := newWorld(t, size, elsewhere)
	w.populate()

	o, start := w.startAgain()
	rows := append([]bench.Row{promise("start, until all was looked at", "s", start.Seconds(), startGoal.Seconds())}, w.quiet(o)...)
	rows = append(rows, w.scales(o)...)
	return append(rows, w.drains()...)
}

// scales measures how soon shards hear of pools that are scaled.
func (w *world) scales(o *operator) []bench.Row {
	w.t.Helper()
	half := min(inTurn, len(w.pools)/2)
	one := w.scaleInTurn(w.pools[:half], 1)
	w.rest(o)
	floor := w.bare(shardGroups, namespace, min(burst, half)*len(shards))
	w.rest(o)
	some := w.scaleInBursts(o, w.pools[half:2*half], len(shards))
	all := w.scaleAll(o)
	shown := w.appearInTurn(o, w.pools[:half])
	w.rest(o)
	return []bench.Row{
		delayRow("scale to UpsertGroup, by 1, one pool after another", one, scaleGoal),
		delayRow("running to NstanceMachine with provider id", shown, appearGoal),
		againstBare(delayRow(fmt.Sprintf("scale to UpsertGroup, by %d, %d pools at once", len(shards), min(burst, half)), some, scaleGoal), floor),
		all,
	}
}

// drains measures how soon Nodes are cordoned whose machines are to go.
func (w *world) drains() []bench.Row {
	w.t.Helper()
	c := w.watchNodes()
	victims := w.victims()
	each := min(drained, len(victims)/2)
	turn := w.drainInTurn(c, victims[:each])
	floor := w.bare(nodes, "", each)
	together := w.drain(c, victims[each:2*each])
	return []bench.Row{
		delayRow("pending_deletion to cordoned, one Node after another", turn, cordonGoal),
		againstBare(delayRow(fmt.Sprintf("pending_deletion to cordoned, %d Nodes at once", each), together, cordonGoal), floor),
	}
}

// startAgain starts an operator before what another one has left, and returns how long it
// took until it had looked at everything and had nothing more to do.
func (w *world) startAgain() (*operator, time.Duration) {
	w.t.Helper()
	began := time.Now()
	o := w.operate()
	instances := 0
	for _, pool := range w.pools {
		instances += pool.Total()
	}
	least := map[string]int{"pool": len(w.pools), "shardgroup": len(w.pools) * len(shards), "machine": instances, "nodes": instances}
	w.await("the operator has looked at everything", 100*time.Millisecond, func(ctx context.Context) error {
		now, err := o.scrape(ctx)
		if err != nil {
			return err
		}
		for controller, n := range least {
			if is := now.reconciled(controller); is < n {
				return fmt.Errorf("controller %s: %d of %d", controller, is, n)
			}
		}
		return now.idle()
	})
	return o, time.Since(began)
}

// quiet measures an operator while nobody does anything. Its metrics are read meanwhile, as
// they are in any cluster.
func (w *world) quiet(o *operator) []bench.Row {
	w.t.Helper()
	w.rest(o)
	before, began := w.usage(o), time.Now()
	defer w.follow(fmt.Sprintf("%v of quiet", quietFor), func() string {
		u, err := usage.Of(o.PID())
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("%.0f MiB resident", usage.MiB(u.Resident))
	})()
	first, err := o.scrape(w.t.Context())
	for time.Since(began) < quietFor && err == nil {
		time.Sleep(min(scrapeTime, quietFor-time.Since(began)))
		var now samples
		now, err = o.scrape(w.t.Context())
		w.logWork(first, now)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	after := w.usage(o)
	share := 100 * float64(after.Processor-before.Processor) / float64(time.Since(began))
	what := fmt.Sprintf("%d Nodes, %d Pods", w.size.Nodes, w.size.Nodes*w.size.PodsPerNode)
	return []bench.Row{
		promise(what+": resident memory, quiet", "MiB", usage.MiB(after.Resident), memoryGoal),
		promise(what+": resident memory, at most since the start", "MiB", usage.MiB(after.Peak), memoryGoal),
		promise(what+": share of a core, quiet", "%", share, quietGoal),
	}
}

// logWork says what an operator has done between two readings of its metrics.
func (w *world) logWork(before, after samples) {
	for series, value := range after {
		for _, name := range []string{reconcileTotal + "{", "rest_client_requests_total{"} {
			if more := value - before[series]; len(series) > len(name) && series[:len(name)] == name && more > 0 {
				w.t.Logf("%s +%v", series, more)
			}
		}
	}
}
