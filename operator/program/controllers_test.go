package program

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"nstance.dev/operator/config"
)

// A controller ends when it is told to, however much is in its queue.
func TestControllersEndWithAFullQueue(t *testing.T) {
	yes := true
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			c, err := controller.NewUnmanaged("full", controller.Options{
				SkipNameValidation: &yes, MaxConcurrentReconciles: 10, UsePriorityQueue: Controllers(config.Settings{}).UsePriorityQueue,
				LogConstructor: func(*reconcile.Request) logr.Logger { return logr.Discard() },
				Reconciler:     reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) { return reconcile.Result{}, nil }),
			})
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			err = c.Watch(source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
				for n := range 2000 {
					q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: fmt.Sprint(n)}})
					if n == 1000 {
						stop()
					}
				}
				return nil
			}))
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Start(ctx); err != nil {
				t.Fatal(err)
			}
		})
	}
}
