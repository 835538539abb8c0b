package rollup

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
)

// acknowledge has the requests acknowledged that are part of roll-ups which were just queued.
func (c *Controller) acknowledge(ctx context.Context, sent map[string]bool) {
	now := c.opts.Now()
	for uid, r := range c.pending {
		id := r.pod
		if id == "" {
			id = string(uid)
		}
		if shard := c.tally.Share(id); sent[shard] {
			c.acks.add(ctx, uid, r, now)
		}
	}
}

// acknowledger patches requests, some at once. What fails is left to the next roll-up.
type acknowledger struct {
	opts Options

	mu      sync.Mutex
	busy    map[types.UID]bool
	queue   []acknowledgement
	workers int
	running sync.WaitGroup
}

type acknowledgement struct {
	of   request
	uid  types.UID
	sent time.Time // its roll-up
}

func newAcknowledger(o Options) *acknowledger {
	return &acknowledger{opts: o, busy: map[types.UID]bool{}}
}

// add has a request acknowledged, unless it is being so.
func (a *acknowledger) add(ctx context.Context, uid types.UID, r request, sent time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.busy[uid] {
		return
	}
	a.busy[uid] = true
	a.queue = append(a.queue, acknowledgement{r, uid, sent})
	if a.workers < a.opts.Acknowledgements {
		a.workers++
		a.running.Go(func() { a.work(ctx) })
	}
}

func (a *acknowledger) work(ctx context.Context) {
	for {
		next, ok := a.next()
		if !ok {
			return
		}
		if ctx.Err() == nil {
			err := a.patch(ctx, next)
			a.opts.Observer.acknowledged(a.opts.Now().Sub(next.sent), err)
			if err != nil {
				a.opts.Log.DebugContext(ctx, "capacity request not acknowledged; the next roll-up does", "namespace", next.of.key.Namespace, "request", next.of.key.Name, "error", err)
			}
		}
		a.mu.Lock()
		delete(a.busy, next.uid)
		a.mu.Unlock()
	}
}

func (a *acknowledger) next() (acknowledgement, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.queue) == 0 {
		a.queue = nil
		a.workers--
		return acknowledgement{}, false
	}
	next := a.queue[0]
	a.queue = a.queue[1:]
	return next, true
}

// patch acknowledges a request without looking at what else has changed of it. One that is gone
// needs none.
func (a *acknowledger) patch(ctx context.Context, next acknowledgement) error {
	status := struct {
		Status demandv1.CapacityRequestStatus `json:"status"`
	}{demandv1.CapacityRequestStatus{
		Phase: demandv1.CapacityRequestAcknowledged, ObservedGeneration: next.of.generation, AcknowledgedAt: &metav1.Time{Time: a.opts.Now()},
	}}
	patch, err := json.Marshal(status)
	if err != nil {
		return fmt.Errorf("acknowledge capacity request: %w", err)
	}
	to := &demandv1.CapacityRequest{ObjectMeta: metav1.ObjectMeta{Namespace: next.of.key.Namespace, Name: next.of.key.Name}}
	if err := a.opts.Writer.Status().Patch(ctx, to, client.RawPatch(types.MergePatchType, patch)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("acknowledge capacity request %s/%s: %w", next.of.key.Namespace, next.of.key.Name, err)
	}
	return nil
}

// close returns when no patch is under way. The context that patches are made with has ended.
func (a *acknowledger) close() { a.running.Wait() }
