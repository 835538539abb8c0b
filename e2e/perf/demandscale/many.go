package demandscale

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nstance.dev/e2e/env/demandcluster"
	"nstance.dev/e2e/env/kube"
	"nstance.dev/e2e/perf/bench"
	"nstance.dev/e2e/perf/usage"
)

const (
	profiles     = 60     // different Pods among the many
	fillQPS      = "2000" // of an operator that writes CapacityRequests for all of them, and acknowledges them
	steady       = time.Minute
	settle       = 30 * time.Second // for the API server, after so many writes
	fillTime     = 30 * time.Minute
	progressPods = 10_000 // and progressTime: how often it is said how far it is
	progressTime = 10 * time.Second
	reportGoal   = 20 * time.Second
	bytesGoal    = 32 // KiB
	directMemory = 250
	bothMemory   = 400
)

// MeasureMany measures an operator beside so many Pods that none schedules and no shard has
// machines for: first one that takes Pods as they are, then one that also has a CapacityRequest
// for each.
func MeasureMany(t testing.TB, pods int) []bench.Row {
	t.Helper()
	w := newWorld(t, nil)
	w.StopOperator()
	w.makeMany(pods)
	rows := w.beside(pods, "direct", directMemory)

	w.StartOperator("--pod-source=both", "--demand-upc-qps="+fillQPS, "--demand-upc-burst="+fillQPS, "--demand-kube-api-qps="+fillQPS, "--demand-kube-api-burst="+fillQPS)
	w.requested(pods)
	w.StopOperator()
	return append(rows, w.beside(pods, "both", bothMemory)...)
}

// profileLabel is that of the Nodes which the Pods of a profile ask for.
const profileLabel = "test.nstance.dev/profile"

// makeMany makes Pods of as many profiles as are measured. No scheduler has the name that they ask
// for, and no machine has the label that they ask for.
func (w *world) makeMany(pods int) {
	w.t.Helper()
	w.makeBareNamespace(w.t.Context())
	g, ctx := errgroup.WithContext(w.t.Context())
	g.SetLimit(atOnce)
	for i := range pods {
		if i%progressPods == 0 {
			w.t.Logf("%d of %d Pods made", i, pods)
		}
		g.Go(func() error {
			t := template("100m")
			t.Spec.SchedulerName = "none"
			t.Spec.NodeSelector = map[string]string{profileLabel: strconv.Itoa(i % profiles)}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("many-%d", i), Labels: t.Labels}, Spec: t.Spec}
			_, err := w.Client.CoreV1().Pods(bareNamespace).Create(ctx, pod, metav1.CreateOptions{})
			return err
		})
	}
	if err := g.Wait(); err != nil {
		w.t.Fatal(err)
	}
}

// requested waits until there is a CapacityRequest for each of so many Pods, and the last one is
// acknowledged. The objects say that: the operator may have to begin again, and its counters with it.
func (w *world) requested(pods int) {
	w.t.Helper()
	all := w.Custom.Resource(demandcluster.CapacityRequests)
	kube.AwaitFor(w.t, fillTime, fmt.Sprintf("%d CapacityRequests are acknowledged", pods), func(ctx context.Context) error {
		list, err := all.List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			return err
		}
		have := len(list.Items)
		if more := list.GetRemainingItemCount(); more != nil {
			have += int(*more)
		}
		if have >= pods {
			if list, err = all.List(ctx, metav1.ListOptions{Limit: 1, FieldSelector: "status.phase!=" + acknowledgedPhase}); err != nil {
				return err
			}
			if len(list.Items) == 0 {
				return nil
			}
		}
		w.t.Logf("%d of %d CapacityRequests made", have, pods)
		select {
		case <-ctx.Done():
		case <-time.After(progressTime):
		}
		return fmt.Errorf("%d were made, and some are not acknowledged", have)
	})
}

// beside starts an operator with its defaults beside so many Pods, some time after they were written, and measures
// its first roll-up and its memory.
func (w *world) beside(pods int, source string, memory float64) []bench.Row {
	w.t.Helper()
	time.Sleep(settle)
	began := time.Now()
	w.StartOperator("--pod-source=" + source)
	w.atLeast(rowsMetric, profiles)
	first := time.Since(began)
	// What an operator takes that has nothing new to do: its timers and full checks are part of it.
	time.Sleep(steady)
	of, err := usage.Of(w.Operator().PID())
	if err != nil {
		w.t.Fatal(err)
	}
	all, err := w.metrics(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	w.StopOperator()
	name := fmt.Sprintf("%d Pods, pod source %s: ", pods, source)
	return []bench.Row{
		promise("G13", name+"resident memory of the operator, at most", "MiB", usage.MiB(of.Peak), memory),
		promise("G13", name+"first roll-up after the start", "s", first.Seconds(), reportGoal.Seconds()),
		promise("G13", name+fmt.Sprintf("roll-up of %d profiles", profiles), "KiB", all.sum(bytesMetric)/1024, bytesGoal),
	}
}

// atLeast waits until a metric of the operator is as much.
func (w *world) atLeast(metric string, much float64) {
	w.t.Helper()
	kube.AwaitFor(w.t, fillTime, fmt.Sprintf("%s is %g", metric, much), func(ctx context.Context) error {
		all, err := w.metrics(ctx)
		if err != nil {
			return err
		}
		if have := all.sum(metric); have < much {
			return fmt.Errorf("%g", have)
		}
		return nil
	})
}
