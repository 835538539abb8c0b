package testworld

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"nstance.dev/operator/inventory"
	"nstance.dev/operator/shards"
	"nstance.dev/operator/shards/shardtest"
)

// Tenant and Namespace are those of the operator.
const (
	Tenant    = "default"
	Namespace = "nstance"
)

// ShardWorld is the surroundings of a controller.
type ShardWorld struct {
	Cluster   *shardtest.Cluster
	Set       *shards.Set
	Feed      *inventory.Feed
	Inventory *inventory.Store // what Feed has heard
	Events    *Events
	// Log has what the connections log; what else is to be in it is given its Logger.
	Log *Log
	// Spans are all that were recorded of the operator, by the tracers of Traces.
	Spans  *tracetest.SpanRecorder
	Traces *trace.TracerProvider

	t     testing.TB
	names []string
}

// NewShardWorld returns a world with shards of these names, each at the address name:1, once the
// operator is connected to all of them and knows what they have.
func NewShardWorld(t testing.TB, prepare func(*shardtest.Cluster), names ...string) *ShardWorld {
	t.Helper()
	w := &ShardWorld{Cluster: shardtest.NewCluster(t), Events: &Events{}, Log: &Log{}, t: t, names: names}
	w.Spans = tracetest.NewSpanRecorder()
	w.Traces = trace.NewTracerProvider(trace.WithSpanProcessor(w.Spans))
	w.Feed = inventory.NewFeed(Tenant, inventory.NewHub(), time.Now)
	w.Inventory = w.Feed.Inventory()
	w.Inventory.Configure(names)
	var targets []shards.Target
	for _, name := range names {
		w.Shard(name).Serve(name + ":1")
		targets = append(targets, shards.Target{Shard: name, Addresses: []string{name + ":1"}})
	}
	if prepare != nil {
		prepare(w.Cluster)
	}
	w.Set = shards.NewSet(shards.Options{
		Cluster: w.Cluster.ID, Tenant: Tenant, Credentials: w.Cluster.Operator(Tenant), Sink: w.Feed, Streams: w.Feed.Streams(),
		Dial: w.Cluster.DialContext, CoordinatesDrains: true, Random: func() float64 { return 0.5 }, Log: w.Log.Logger(),
		Traces: w.Traces,
	})
	w.Set.Apply(targets)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = w.Set.Run(ctx) // the reason of ctx
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
	w.After(time.Second)
	return w
}

// Shard returns a shard.
func (w *ShardWorld) Shard(name string) *shardtest.Shard { return w.Cluster.Shard(name) }

// After lets time pass and everything come to rest.
func (w *ShardWorld) After(d time.Duration) {
	w.t.Helper()
	time.Sleep(d)
	synctest.Wait()
}

// Events records events. It is safe for concurrent use, and its zero value is ready.
type Events struct {
	mu   sync.Mutex
	said []string
}

// Eventf implements events.EventRecorder.
func (e *Events) Eventf(about, _ runtime.Object, _, reason, _, note string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	kind := reflect.TypeOf(about).Elem().Name()
	e.said = append(e.said, reason+": "+kind+": "+fmt.Sprintf(note, args...))
}

// All returns what was said, as "Reason: Kind: message".
func (e *Events) All() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.said)
}

// Faults are what goes wrong between a controller and its API server. The zero value:
// nothing. It is not safe for concurrent use.
type Faults struct {
	writes  int
	at      int
	after   bool
	failure error
}

// FailWrite makes the n-th write from now on, counted from 1, fail with an error: before it
// takes effect, or after.
func (f *Faults) FailWrite(n int, after bool, failure error) {
	f.writes, f.at, f.after, f.failure = 0, n, after, failure
}

// Writes returns how many writes there were since FailWrite.
func (f *Faults) Writes() int { return f.writes }

// Through returns a client whose writes may fail.
func (f *Faults) Through(c client.WithWatch) client.WithWatch {
	write := func(do func() error) error {
		f.writes++
		if f.writes != f.at {
			return do()
		}
		if f.after {
			if err := do(); err != nil {
				return err
			}
		}
		return f.failure
	}
	return interceptor.NewClient(c, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return write(func() error { return c.Create(ctx, o, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return write(func() error { return c.Delete(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return write(func() error { return c.Patch(ctx, o, patch, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			return write(func() error { return c.SubResource(sub).Patch(ctx, o, patch, opts...) })
		},
		SubResourceApply: func(ctx context.Context, c client.Client, sub string, o runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
			return write(func() error { return c.SubResource(sub).Apply(ctx, o, opts...) })
		},
	})
}
