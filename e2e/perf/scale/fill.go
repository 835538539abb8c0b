package scale

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// writers is how many objects are made at once.
const writers = 16

// heartbeatEvery is how often a kubelet says of its Node what was true before; its
// setting nodeStatusReportFrequency.
const heartbeatEvery = 5 * time.Minute

// fill makes the Nodes of all instances with their Pods, and has them live.
func (w *world) fill() {
	w.t.Helper()
	var names []string
	var makers []maker
	for _, pool := range w.pools {
		set, err := w.core.AppsV1().ReplicaSets(workNamespace).Create(w.t.Context(), replicaSet(pool.Name, pool.Total()*w.size.PodsPerNode), metav1.CreateOptions{})
		if err != nil {
			w.t.Fatal(err)
		}
		for _, shard := range shards {
			for _, in := range w.shards.Shard(shard).Instances(tenant, pool.Name) {
				names = append(names, in.GetInstanceId())
				makers = append(makers, func(ctx context.Context) error {
					if _, err := w.core.CoreV1().Nodes().Create(ctx, node(in, shard, time.Now()), metav1.CreateOptions{}); err != nil {
						return err
					}
					return w.makePods(ctx, set, in.GetInstanceId())
				})
			}
		}
	}
	w.make(fmt.Sprintf("Nodes with %d Pods each are made", w.size.PodsPerNode), makers)
	w.live(names)
}

// maker makes one object, and what goes with it.
type maker func(context.Context) error

// make has several makers at work at a time.
func (w *world) make(what string, makers []maker) {
	w.t.Helper()
	var made atomic.Int64
	done := w.follow(what, func() string { return fmt.Sprintf("%d of %d", made.Load(), len(makers)) })
	g, ctx := errgroup.WithContext(w.t.Context())
	g.SetLimit(writers)
	for _, one := range makers {
		g.Go(func() error {
			defer made.Add(1)
			return one(ctx)
		})
	}
	err := g.Wait()
	done()
	if err != nil {
		w.t.Fatalf("%s: %v", what, err)
	}
}

// makePods makes the Pods of one Node. They have no status: the operator keeps their names.
func (w *world) makePods(ctx context.Context, set *appsv1.ReplicaSet, node string) error {
	for i := range w.size.PodsPerNode {
		if _, err := w.core.CoreV1().Pods(workNamespace).Create(ctx, pod(set, node, i), metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// live sends the heartbeats of Nodes for as long as the test lasts.
func (w *world) live(names []string) {
	ctx, stop := context.WithCancel(w.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(heartbeatEvery / time.Duration(len(names)))
		defer ticker.Stop()
		for i := 0; ; i = (i + 1) % len(names) {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			_, err := w.core.CoreV1().Nodes().Patch(ctx, names[i], types.StrategicMergePatchType, heartbeat(time.Now()), metav1.PatchOptions{}, "status")
			if err != nil && ctx.Err() == nil {
				w.t.Errorf("heartbeat of %s: %v", names[i], err)
				return
			}
		}
	}()
	w.t.Cleanup(func() {
		stop()
		<-ended
	})
}

// populate has an operator that may hurry make what belongs to the Nodes, makes what
// Cluster API adds to that, and ends the operator.
func (w *world) populate() {
	w.t.Helper()
	w.fill()
	total := 0
	for _, pool := range w.pools {
		total += pool.Total()
	}
	// A busy API server may not hear in time that a leader still leads.
	hasty := w.operate("--kube-api-qps=1000", "--kube-api-burst=2000", "--leader-elect=false")
	w.await("every pool is imported", time.Second, w.count(machinePools, len(w.pools), func(unstructured.Unstructured) bool { return true }))
	w.await("every instance has its Node", time.Second, w.count(nstanceMachines, total, hasText("status", "nodeRef", "name")))
	w.rest(hasty)
	w.own()
	w.rest(hasty)
	if err := hasty.Stop(time.Minute); err != nil {
		w.t.Fatal(err)
	}
}

// hasText reports whether an object has a text in a field.
func hasText(path ...string) func(unstructured.Unstructured) bool {
	return func(o unstructured.Unstructured) bool {
		text, _, err := unstructured.NestedString(o.Object, path...)
		return err == nil && text != ""
	}
}
