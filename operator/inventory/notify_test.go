package inventory_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"nstance.dev/operator/collect"
	"nstance.dev/operator/inventory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func instance(id string) inventory.Change {
	return inventory.Change{Kind: inventory.InstanceChanged, Group: "web", Instance: id}
}

func request(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}
}

// controller is a queue that a source fills, and what its keys were asked for.
type controller struct {
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]

	mu    sync.Mutex
	asked [][]inventory.ShardChange
}

// attach starts a source that wakes one object for each instance and each shard.
func attach(t *testing.T, ctx context.Context, hub *inventory.Hub) *controller {
	t.Helper()
	return attachFor(t, ctx, hub, collect.Soon)
}

func attachFor(t *testing.T, ctx context.Context, hub *inventory.Hub, delay time.Duration) *controller {
	t.Helper()
	c := &controller{queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())}
	t.Cleanup(c.queue.ShutDown)
	keys := func(_ context.Context, changes []inventory.ShardChange) []reconcile.Request {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.asked = append(c.asked, changes)
		var out []reconcile.Request
		for _, change := range changes {
			if change.Instance != "" {
				out = append(out, request(change.Instance))
			} else {
				out = append(out, request(change.Shard))
			}
		}
		return out
	}
	if err := hub.Source(delay, keys).Start(ctx, c.queue); err != nil {
		t.Fatal(err)
	}
	return c
}

// queued takes everything out of the queue.
func (c *controller) queued() []string {
	var names []string
	for c.queue.Len() > 0 {
		item, _ := c.queue.Get()
		c.queue.Done(item)
		names = append(names, item.Name)
	}
	return names
}

func (c *controller) rounds() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.asked)
}

func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestChangesAreCollected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer stop()
		hub := inventory.NewHub()
		hub.Changed("a", instance("early")) // nobody listens yet
		c := attach(t, ctx, hub)

		hub.Changed("a", instance("one"), instance("two"))
		after(collect.Soon - time.Millisecond)
		hub.Changed("a", instance("one"))
		hub.Changed("b", inventory.Change{Kind: inventory.ShardChanged})
		if got := c.queued(); got != nil {
			t.Errorf("too early: %v", got)
		}
		after(time.Millisecond)
		if diff := cmp.Diff([]string{"one", "two", "b"}, c.queued()); diff != "" {
			t.Error(diff)
		}
		if c.rounds() != 1 {
			t.Errorf("%d rounds, want 1", c.rounds())
		}

		hub.Changed("a", instance("one"))
		after(collect.Soon)
		if diff := cmp.Diff([]string{"one"}, c.queued()); diff != "" {
			t.Error(diff)
		}
	})
}

// Who acts hears of a change before who writes it down.
func TestWhoActsHearsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer stop()
		hub := inventory.NewHub()
		acts, tells := attachFor(t, ctx, hub, collect.Soon), attachFor(t, ctx, hub, collect.Later)
		hub.Changed("a", instance("one"))
		after(collect.Soon)
		if diff := cmp.Diff([]string{"one"}, acts.queued()); diff != "" {
			t.Error(diff)
		}
		if got := tells.queued(); got != nil {
			t.Errorf("too early: %v", got)
		}
		hub.Changed("a", instance("one"))
		after(collect.Later - collect.Soon)
		if diff := cmp.Diff([]string{"one"}, tells.queued()); diff != "" || tells.rounds() != 1 {
			t.Errorf("%d rounds: %s", tells.rounds(), diff)
		}
	})
}

func TestEveryControllerHears(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		hub := inventory.NewHub()
		one, other := attach(t, ctx, hub), attach(t, t.Context(), hub)
		stop()
		synctest.Wait()
		last := attach(t, t.Context(), hub)
		hub.Changed("a", instance("x"))
		after(time.Second)
		for name, c := range map[string]*controller{"other": other, "last": last} {
			if diff := cmp.Diff([]string{"x"}, c.queued()); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}
		if got := one.queued(); got != nil {
			t.Errorf("the one that has ended hears %v", got)
		}
	})
}

// The streams of all shards go on while a controller thinks.
func TestNobodyWaitsForAController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := inventory.NewHub()
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		defer queue.ShutDown()
		thinking := make(chan struct{})
		var seen int
		keys := func(ctx context.Context, changes []inventory.ShardChange) []reconcile.Request {
			seen += len(changes)
			select {
			case <-thinking:
			case <-ctx.Done():
			}
			return nil
		}
		if err := hub.Source(collect.Soon, keys).Start(t.Context(), queue); err != nil {
			t.Fatal(err)
		}
		var streams sync.WaitGroup
		for shard := range 4 {
			streams.Go(func() {
				for i := range 1000 {
					hub.Changed(fmt.Sprint(shard), instance(fmt.Sprint(i)))
				}
			})
		}
		after(time.Second)
		streams.Wait()
		close(thinking)
		after(time.Second)
		if seen != 4000 {
			t.Errorf("%d changes were seen, want all 4000", seen)
		}
	})
}
