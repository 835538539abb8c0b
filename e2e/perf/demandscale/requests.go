package demandscale

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"nstance.dev/e2e/env/demandcluster"
	"nstance.dev/e2e/env/kube"
	"nstance.dev/e2e/perf/bench"
)

const (
	atOnceRequests = 1000 // that come at once
	probes         = 30   // that machines are made for, one after another

	acknowledgedPhase = "Acknowledged"

	acknowledgeGoal = 6 * time.Second
	decideSoon      = 1500 * time.Millisecond
	stateGoal       = 250 * time.Millisecond
)

// MeasureRequests measures CapacityRequests that no Pod stands behind: how soon those that come at
// once are acknowledged, and how soon a machine is made for one where there are so many.
func MeasureRequests(t testing.TB, many int) []bench.Row {
	t.Helper()
	w := newWorld(t, nil)
	requests := w.watchRequests()
	began := time.Now()
	w.request("first", atOnceRequests)
	w.acknowledged(requests, atOnceRequests)
	took := requests.lastAcknowledged().Sub(began)
	rows := []bench.Row{promise("G14", fmt.Sprintf("%d CapacityRequests at once, all acknowledged", atOnceRequests), "s", took.Seconds(), acknowledgeGoal.Seconds())}

	w.request("more", many-atOnceRequests)
	w.acknowledged(requests, many)
	s, stop := w.watch()
	defer stop()
	var delays []time.Duration
	for i := range probes {
		name := fmt.Sprintf("probe-%d", i)
		if err := w.capacityRequest(w.t.Context(), name, "1500m", corev1.LabelTopologyZone, shard); err != nil {
			t.Fatal(err)
		}
		w.await(s, machineMade, i+1)
		kube.Await(t, "the watch shows "+name, func(context.Context) error {
			if requests.made(name).IsZero() {
				return fmt.Errorf("not yet")
			}
			return nil
		})
		delays = append(delays, s.last(machineMade).Sub(requests.made(name)))
	}
	slices.Sort(delays)
	rows = append(rows,
		promise("G12", fmt.Sprintf("a CapacityRequest beside %d others, until its machine is made, at most of %d (p50 %.2f s)", many, probes, delays[probes/2].Seconds()),
			"s", delays[probes-1].Seconds(), decideSoon.Seconds()),
		promise("G14", "a change of a machine until its UpcomingNode says so, p99", "s", w.stateTime(), stateGoal.Seconds()))
	w.deleteRequests()
	kube.Await(t, "nothing is left over", w.Left)
	return rows
}

// request makes so many requests for what no shard has.
func (w *world) request(prefix string, n int) {
	w.t.Helper()
	g, ctx := errgroup.WithContext(w.t.Context())
	g.SetLimit(atOnce)
	for i := range n {
		g.Go(func() error {
			return w.capacityRequest(ctx, fmt.Sprintf("%s-%d", prefix, i), "100m", corev1.LabelTopologyZone, "nowhere")
		})
	}
	if err := g.Wait(); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) capacityRequest(ctx context.Context, name, cpu, key, value string) error {
	return w.bareObject(ctx, demandcluster.CapacityRequests, "CapacityRequest", metav1.NamespaceDefault, name, map[string]any{
		"requirements": []any{map[string]any{"key": key, "operator": "In", "values": []any{value}}},
		"resources":    map[string]any{"requests": map[string]any{"cpu": cpu}},
	})
}

// deleteRequests deletes all of them.
func (w *world) deleteRequests() {
	w.t.Helper()
	err := w.Custom.Resource(demandcluster.CapacityRequests).Namespace(metav1.NamespaceDefault).DeleteCollection(w.t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
}

// requests is when CapacityRequests were seen, and seen to be acknowledged. It is safe for
// concurrent use.
type requests struct {
	mu                   sync.Mutex
	seen, acknowledgedAt map[string]time.Time
}

// watchRequests watches all CapacityRequests until the test ends.
func (w *world) watchRequests() *requests {
	w.t.Helper()
	r := &requests{seen: map[string]time.Time{}, acknowledgedAt: map[string]time.Time{}}
	ctx, stop := context.WithCancel(w.t.Context())
	watcher, err := w.watchAgain(ctx)
	if err != nil {
		stop()
		w.t.Fatal(err)
	}
	var reader sync.WaitGroup
	reader.Go(func() {
		// An API server ends watches of a kind whose definition has changed, as it has right after
		// it was installed; the next one begins with all that there is.
		for ; err == nil; watcher, err = w.watchAgain(ctx) {
			for event := range watcher.ResultChan() {
				r.note(event)
			}
		}
	})
	w.t.Cleanup(func() {
		stop()
		reader.Wait()
	})
	return r
}

// watchAgain begins a watch of all CapacityRequests, however often that fails before ctx ends.
func (w *world) watchAgain(ctx context.Context) (watch.Interface, error) {
	for {
		watcher, err := w.Custom.Resource(demandcluster.CapacityRequests).Watch(ctx, metav1.ListOptions{})
		if err == nil || ctx.Err() != nil {
			return watcher, err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (r *requests) note(event watch.Event) {
	object, is := event.Object.(*unstructured.Unstructured)
	if !is {
		return
	}
	now, name := time.Now(), object.GetName()
	phase, _, _ := unstructured.NestedString(object.Object, "status", "phase")
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, before := r.seen[name]; !before {
		r.seen[name] = now
	}
	if _, before := r.acknowledgedAt[name]; !before && phase == acknowledgedPhase {
		r.acknowledgedAt[name] = now
	}
}

// made is when a request was seen first.
func (r *requests) made(name string) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen[name]
}

func (r *requests) lastAcknowledged() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.MaxFunc(slices.Collect(maps.Values(r.acknowledgedAt)), time.Time.Compare)
}

// acknowledged waits until so many are.
func (w *world) acknowledged(r *requests, n int) {
	w.t.Helper()
	kube.Await(w.t, fmt.Sprintf("%d CapacityRequests are acknowledged", n), func(context.Context) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if have := len(r.acknowledgedAt); have < n {
			return fmt.Errorf("%d", have)
		}
		return nil
	})
}
