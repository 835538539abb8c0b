package scale

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"nstance.dev/e2e/perf/bench"
)

// What is done with the pool that Cluster API's own controllers look after.
const (
	byOne   = 10 // how often it is scaled by one
	settled = 15 * time.Second
)

// The promises.
const (
	reconcileGoal = 30          // of all controllers of the operator, for one more instance
	behindCore    = time.Second // how much later than Cluster API could by itself
)

// MeasureCore measures a single pool of so many instances whose Machines are made by Cluster API's own
// controllers: what the operator does for one instance more, and how soon that is a Machine.
func MeasureCore(t testing.TB, instances int) []bench.Row {
	t.Helper()
	w := newWorld(t, Size{Pools: 1, Nodes: instances}, namespace)
	w.fill()
	o := w.operate()
	w.await("every instance is a Machine with its Node", time.Second, w.count(machines, instances, hasText("status", "nodeRef", "name")))
	w.quietly(o)

	w.makeInstances(true)
	var reconciles float64
	var delays, core []time.Duration
	for range byOne {
		before, shown, made, began := w.samples(o), w.watchMachines(), w.watch(machines, namespace, hasProviderID), time.Now()
		w.scale(w.pools, 1)
		ran := w.started(w.pools, began, 1)
		madeAt := w.seen(made, ran)
		delays = append(delays, delaysBetween(ran, madeAt)...)
		core = append(core, delaysBetween(w.seen(shown, ran), madeAt)...)
		w.join(ran)
		after := w.quietly(o)
		w.logWork(before, after)
		reconciles = max(reconciles, after.sum(reconcileTotal)-before.sum(reconcileTotal))
	}
	row := delayRow("running to Machine with provider id, with Cluster API's controllers", delays, behindCore)
	row.Floor += delayRow("", core, behindCore).Ours
	row.Against = "Cluster API, from the NstanceMachine on, and 1 s"
	return []bench.Row{
		promise(fmt.Sprintf("a pool of %d scaled by 1: reconciles of the operator, at most of %d times", instances, byOne), "1", reconciles, reconcileGoal),
		row,
	}
}

// hasProviderID reports whether a Machine or NstanceMachine has a provider id.
func hasProviderID(o *unstructured.Unstructured) bool {
	id, _, _ := unstructured.NestedString(o.Object, "spec", "providerID")
	return id != ""
}

// join makes the Nodes of instances.
func (w *world) join(instances map[string]time.Time) {
	w.t.Helper()
	for _, pool := range w.pools {
		for _, shard := range shards {
			for _, in := range w.shards.Shard(shard).Instances(tenant, pool.Name) {
				if _, joins := instances[in.GetInstanceId()]; !joins {
					continue
				}
				if _, err := w.core.CoreV1().Nodes().Create(w.t.Context(), node(in, shard, time.Now()), metav1.CreateOptions{}); err != nil {
					w.t.Fatal(err)
				}
			}
		}
	}
}

// quietly waits until no controller of the operator has looked at anything for a while, but for what each
// looks at again by the clock: Cluster API's have come to rest too. It returns the metrics as they were
// when the operator came to rest, so that what the clock does while we make sure of that does not count.
func (w *world) quietly(o *operator) samples {
	w.t.Helper()
	var rest samples
	last, since := -1.0, time.Now()
	w.await("operator and Cluster API have nothing to do", look, func(context.Context) error {
		now := w.samples(o)
		if work := now.sum(reconcileTotal) - now.sum(reconcileTotal, `result="requeue_after"`); work != last {
			last, since, rest = work, time.Now(), now
		}
		if quiet := time.Since(since); quiet < settled {
			return fmt.Errorf("quiet for %v", quiet.Round(time.Second))
		}
		return nil
	})
	return rest
}

// reconcileTotal is how often controllers have looked at objects.
const reconcileTotal = "controller_runtime_reconcile_total"

// samples are the metrics of an operator.
func (w *world) samples(o *operator) samples {
	w.t.Helper()
	now, err := o.scrape(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return now
}
