package testworld

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"nstance.dev/operator/shards"
)

// Cluster is the name of the Cluster that is there.
const Cluster = "example--default"

// World is an API server beside a cluster of shards.
type World struct {
	*ShardWorld
	// Client is the API server.
	Client client.WithWatch

	t    *testing.T
	told int // events that were taken
}

// Run runs a test in a world with these shards, each connected and known.
func Run(t *testing.T, names []string, test func(t *testing.T, w *World)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &World{ShardWorld: NewShardWorld(t, nil, names...), Client: NewClientBuilder(t).Build(), t: t}
		w.Create(&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: Cluster}})
		test(t, w)
	})
}

// Connection returns the status of the connection to a shard; false: there is none.
func (w *World) Connection(name string) (shards.Status, bool) {
	s, ok := w.Set.Shard(name)
	if !ok {
		return shards.Status{}, false
	}
	return s.Status(), true
}

// Told returns the events since the last call, as "Reason: Kind: message".
func (w *World) Told() []string {
	all := w.Events.All()
	told := all[w.told:]
	w.told = len(all)
	return told
}

// Settle lets the shards do all that they have to, and the operator hear of it.
func (w *World) Settle(names ...string) {
	for _, name := range names {
		w.Shard(name).Settle()
	}
	w.After(time.Minute) // more than one listing
}

// Create makes an object in the namespace.
func (w *World) Create(object client.Object) {
	w.t.Helper()
	object.SetNamespace(Namespace)
	if err := w.Client.Create(context.Background(), object); err != nil {
		w.t.Fatal(err)
	}
}

// Get reads an object of the namespace; false: there is none.
func (w *World) Get(name string, object client.Object) bool {
	w.t.Helper()
	err := w.Client.Get(context.Background(), client.ObjectKey{Namespace: Namespace, Name: name}, object)
	if client.IgnoreNotFound(err) != nil {
		w.t.Fatal(err)
	}
	return err == nil
}

// Change reads an object, lets it be changed, and writes it.
func (w *World) Change(name string, object client.Object, change func()) {
	w.t.Helper()
	if !w.Get(name, object) {
		w.t.Fatalf("there is no %T %s", object, name)
	}
	change()
	if err := w.Client.Update(context.Background(), object); err != nil {
		w.t.Fatal(err)
	}
}

// Delete deletes an object of the namespace.
func (w *World) Delete(name string, object client.Object) {
	w.t.Helper()
	object.SetNamespace(Namespace)
	object.SetName(name)
	if err := w.Client.Delete(context.Background(), object); err != nil {
		w.t.Fatal(err)
	}
}

// Connected returns a shard of the set; it fails the test if there is none.
func (w *World) Connected(name string) *shards.Shard {
	w.t.Helper()
	s, ok := w.Set.Shard(name)
	if !ok {
		w.t.Fatalf("shard %s is not connected", name)
	}
	return s
}
