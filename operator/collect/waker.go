package collect

import (
	"context"
	"sync"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Waker asks one controller for requests that follow from no event of an object. Its zero value is
// ready, and asks for nothing before the controller has started. It is safe for concurrent use.
type Waker struct {
	mu  sync.Mutex
	add func(reconcile.Request)
}

// Source is what the controller watches.
func (w *Waker) Source() source.Source {
	return source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.add = func(request reconcile.Request) { queue.Add(request) }
		return nil
	})
}

// Wake asks for the requests with these keys, which are in no namespace.
func (w *Waker) Wake(keys ...string) {
	w.mu.Lock()
	add := w.add
	w.mu.Unlock()
	if add == nil {
		return
	}
	for _, key := range keys {
		add(reconcile.Request{NamespacedName: client.ObjectKey{Name: key}})
	}
}
