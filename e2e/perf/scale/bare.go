package scale

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"nstance.dev/e2e/perf/bench"
)

// bareGoal is how many times as long as a bare client's writes may last what the operator
// does at once: it reads, decides and tells shards besides, and writes statuses.
const bareGoal = 3

// atOnce is how many writes are under way at a time, as many as the operator works on
// objects of a kind by default.
const atOnce = 10

// bare writes one annotation on so many objects of a kind and returns how long that took:
// nobody can do anything for each of them in less, before this API server on this machine.
func (w *world) bare(kind schema.GroupVersionResource, in string, n int) time.Duration {
	w.t.Helper()
	resource := w.custom.Resource(kind).Namespace(in)
	list, err := resource.List(w.t.Context(), metav1.ListOptions{Limit: int64(n)})
	if err != nil {
		w.t.Fatal(err)
	}
	began := time.Now()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"test.nstance.dev/bare":%q}}}`, began.Format(time.RFC3339Nano))
	g, ctx := errgroup.WithContext(w.t.Context())
	g.SetLimit(atOnce)
	for i := range list.Items {
		g.Go(func() error { return w.annotate(ctx, kind, in, list.Items[i].GetName(), patch) })
	}
	if err := g.Wait(); err != nil {
		w.t.Fatal(err)
	}
	return time.Since(began)
}

func (w *world) annotate(ctx context.Context, kind schema.GroupVersionResource, in, name string, patch []byte) error {
	_, err := w.custom.Resource(kind).Namespace(in).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// againstBare makes a row one about writes that last as long as floor by themselves. Where
// that is less than the goal for one alone, the goal stays.
func againstBare(row bench.Row, floor time.Duration) bench.Row {
	if bareGoal*floor.Seconds() <= row.Floor {
		return row
	}
	row.Floor, row.Against, row.Goal = floor.Seconds(), "as many bare writes", bench.AtMost(bareGoal)
	return row
}
