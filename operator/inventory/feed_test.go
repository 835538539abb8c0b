package inventory_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"nstance.dev/operator/collect"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/shards"
	"nstance.dev/operator/shards/shardtest"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

const tenant = "default"

// world is a shard "a" with two instances of the group "web", connected to a feed.
type world struct {
	*shardtest.Shard
	t    *testing.T
	feed *inventory.Feed
	set  *shards.Set

	mu    sync.Mutex
	woken []inventory.Kind
	said  []string
}

func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := shardtest.NewCluster(t)
		w := &world{Shard: c.Shard("a"), t: t}
		w.Serve("a:1")
		w.AddGroup(tenant, shardtest.Group{Key: "web", Size: 2})
		hub := inventory.NewHub()
		w.feed = inventory.NewFeed(tenant, hub, time.Now)
		w.feed.OnError(func(shard string, e *nstancev1.ErrorEvent) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.said = append(w.said, shard+": "+e.GetError())
		})
		w.feed.Inventory().Configure([]string{"a"})
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		t.Cleanup(queue.ShutDown)
		if err := hub.Source(collect.Soon, w.wake).Start(t.Context(), queue); err != nil {
			t.Fatal(err)
		}
		set := shards.NewSet(shards.Options{
			Cluster: c.ID, Tenant: tenant, Credentials: c.Operator(tenant), Sink: w.feed, Streams: w.feed.Streams(), Dial: c.DialContext,
			Random: func() float64 { return 0.5 },
		})
		w.set = set
		set.Apply([]shards.Target{{Shard: "a", Addresses: []string{"a:1"}}})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = set.Run(ctx) // the reason of ctx
		}()
		t.Cleanup(func() {
			stop()
			<-done
		})
		w.after(time.Second)
		test(t, w)
	})
}

func (w *world) wake(_ context.Context, changes []inventory.ShardChange) []reconcile.Request {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range changes {
		w.woken = append(w.woken, c.Kind)
	}
	return nil
}

// heard returns the kinds of changes since the last call, each once and sorted.
func (w *world) heard() []inventory.Kind {
	w.mu.Lock()
	defer w.mu.Unlock()
	kinds := w.woken
	w.woken = nil
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

func (w *world) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// expect compares what is known of the shard.
func (w *world) expect(instances int, synced bool) {
	w.t.Helper()
	w.feed.Inventory().Read("a", func(s *inventory.Shard) {
		if n := len(s.Instances("web")); n != instances || s.State().Synced() != synced {
			w.t.Errorf("%d instances, synced %v; want %d, %v", n, s.State().Synced(), instances, synced)
		}
	})
}

func TestWhatAShardSaysIsKnown(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.expect(2, true)
		want := []inventory.Kind{inventory.GroupChanged, inventory.InstanceChanged, inventory.ShardChanged}
		if got := w.heard(); !slices.Equal(got, want) {
			t.Errorf("woken for %v, want %v", got, want)
		}
		w.after(5 * time.Minute)
		if got := w.heard(); got != nil {
			t.Errorf("woken for nothing new: %v", got)
		}
		w.ReportError(tenant, &nstancev1.ErrorEvent{Error: "no room"})
		w.after(time.Second)
		if !slices.Equal(w.said, []string{"a: no room"}) {
			t.Errorf("errors %v", w.said)
		}
	})
}

// That calls fail and others succeed is nothing new about a shard: whoever calls knows, and
// nobody else is woken. That it is out of sight is.
func TestO7_ACallThatFailsWakesNobody(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.heard()
		shard, _ := w.set.Shard("a")
		w.Break(shardtest.Faults{Refuse: map[string]error{"UpsertGroup": shardtest.Refusal(codes.Internal, "", "storage refuses writes")}})
		for range 20 {
			if _, err := shard.UpsertGroup(t.Context(), &nstancev1.UpsertGroupRequest{Key: "web"}); err == nil {
				t.Fatal("the call succeeds")
			}
			w.after(5 * time.Second)
		}
		if got := w.heard(); got != nil {
			t.Errorf("woken by a call that failed: %v", got)
		}
		w.Break(shardtest.Faults{Refuse: map[string]error{"": shardtest.Refusal(codes.Unavailable, "", "nobody there")}})
		w.after(2 * time.Minute)
		if got := w.heard(); !slices.Contains(got, inventory.ShardChanged) {
			t.Errorf("a shard that is out of sight wakes nobody: %v", got)
		}
	})
}

// A configuration that differs is news: what was refused before may be accepted now. The same
// once more, with every heartbeat, is none.
func TestO5_AnotherConfigurationWakesControllers(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		for _, digest := range []string{"c1", "c2"} {
			w.SetConfigDigest(digest)
			w.heard()
			w.after(16 * time.Second)
			if got := w.heard(); !slices.Equal(got, []inventory.Kind{inventory.ShardChanged}) {
				t.Errorf("%s: woken for %v within a heartbeat", digest, got)
			}
			w.after(5 * time.Minute)
			if got := w.heard(); got != nil {
				t.Errorf("%s: woken for nothing new: %v", digest, got)
			}
		}
	})
}

// A leader that knows nothing yet takes nothing away.
func TestO7_ANewLeaderTakesNothingAway(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Restart()
		w.after(20 * time.Second)
		w.expect(2, false)
		w.Rebuilt()
		w.after(10 * time.Second)
		w.expect(2, true)
	})
}

func TestO7_AShardOutOfSightIsNotBelievedToBeEmpty(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Break(shardtest.Faults{Refuse: map[string]error{"": shardtest.Refusal(14, "DOWN", "down")}})
		w.EndStreams()
		w.heard()
		w.after(45 * time.Second)
		w.expect(2, false)
		if got := w.heard(); !slices.Contains(got, inventory.ShardChanged) {
			t.Errorf("woken for %v", got)
		}
	})
}
