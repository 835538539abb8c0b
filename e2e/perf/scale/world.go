package scale

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"nstance.dev/e2e/env/kube"
	"nstance.dev/operator/shards/shardtest"
)

// The kinds that are looked at.
var (
	machinePools    = schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta2", Resource: "machinepools"}
	machines        = schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta2", Resource: "machines"}
	shardGroups     = schema.GroupVersionResource{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1", Resource: "nstanceshardgroups"}
	nodes           = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	nstanceMachines = schema.GroupVersionResource{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1", Resource: "nstancemachines"}
)

// world is the cluster that is measured.
type world struct {
	*kube.Cluster

	t       testing.TB
	size    Size
	pools   []Pool // as they are by now
	shards  *shardtest.Cluster
	ports   map[string]string // of shards: host:port
	heard   *heard
	core    kubernetes.Interface // objects of Kubernetes itself
	custom  dynamic.Interface    // those of Cluster API, and ours
	program program

	operator *operator // the last one that was started; nil: none was
}

// elsewhere is a namespace for the controllers of Cluster API to look after. Nothing is in
// it: their webhooks are asked, and what they would make is made here (see own).
const elsewhere = "default"

// gogc lets what is not measured collect its garbage less often: memory is there.
const gogc = "GOGC=400"

// newWorld starts the control plane and the shards, with their groups, and installs the
// operator's chart. There are no Nodes and no operator yet. The controllers of Cluster API look
// after one namespace.
func newWorld(t testing.TB, size Size, lookedAfter string) *world {
	t.Helper()
	w := &world{t: t, size: size, pools: size.Layout(), shards: shardtest.NewCluster(t), ports: map[string]string{}, heard: newHeard()}
	var both sync.WaitGroup
	both.Go(w.serveShards)
	w.Cluster = kube.Start(t, kube.Config{
		ClusterAPI:       true,
		NodeMonitorGrace: 24 * time.Hour, // kubelets renew their Leases; nobody does here
		Flags: map[kube.Component][]string{
			// The Nodes are made as they are once they are ready.
			kube.APIServer: {"--disable-admission-plugins=TaintNodesByCondition"},
			// Pods are made here, and what owns them is not to make more. The time for which
			// kubelets remember Secrets, which the other one writes to each Node, is nobody's.
			kube.ControllerManager: {"--controllers=*,-replicaset-controller,-ttl-controller"},
			kube.ClusterAPI:        {"--namespace=" + lookedAfter},
		},
		Env: map[kube.Component][]string{kube.APIServer: {gogc}, kube.ControllerManager: {gogc}, kube.ClusterAPI: {gogc}},
	})
	both.Wait()
	admin := w.Admin()
	admin.WarningHandler = rest.NoWarnings{} // about names in the objects of Cluster API
	var err error
	if w.custom, err = dynamic.NewForConfig(admin); err != nil {
		t.Fatal(err)
	}
	admin.ContentType = runtime.ContentTypeProtobuf
	if w.core, err = kubernetes.NewForConfig(admin); err != nil {
		t.Fatal(err)
	}
	w.install()
	return w
}

// serveShards makes the shards with the groups of all pools, behind ports of this box.
func (w *world) serveShards() {
	for i, name := range shards {
		shard := w.shards.Shard(name)
		for _, pool := range w.pools {
			shard.AddGroup(tenant, shardtest.Group{
				Key: pool.Name, Size: int32(pool.Sizes[i]), DrainTimeout: drainTime, InstanceType: "m7i.xlarge", //nolint:gosec // a few
			})
		}
		shard.OnCall(func(call shardtest.Call) { w.heard.call(name, call) })
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			w.t.Error(err)
			return
		}
		w.ports[name] = listener.Addr().String()
		shard.ServeOn(listener)
	}
}

// all lists the objects of a kind in the operator's namespace.
func (w *world) all(ctx context.Context, kind schema.GroupVersionResource) ([]unstructured.Unstructured, error) {
	list, err := w.custom.Resource(kind).Namespace(namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// count returns nil once there are as many objects of a kind as wanted of which is is true.
func (w *world) count(kind schema.GroupVersionResource, want int, is func(unstructured.Unstructured) bool) func(context.Context) error {
	return func(ctx context.Context) error {
		all, err := w.all(ctx, kind)
		if err != nil {
			return err
		}
		n := 0
		for _, object := range all {
			if is(object) {
				n++
			}
		}
		if n < want {
			return fmt.Errorf("%d of %d", n, want)
		}
		return nil
	}
}

// patience is how long a cluster may take for anything, on a busy box.
const patience = 10 * time.Minute

// await waits until check returns nil, and looks again after every pause. It does not wait
// for an operator that has ended.
func (w *world) await(what string, pause time.Duration, check func(context.Context) error) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	var last atomic.Value
	last.Store("not looked at yet")
	done := w.follow(what, func() string { return last.Load().(string) })
	defer done()
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		last.Store(err.Error())
		if w.operator.Ended() {
			w.t.Fatalf("%s: %v; the operator has ended", what, err)
		}
		select {
		case <-ctx.Done():
			w.t.Fatalf("%s: %v", what, err)
		case <-time.After(pause):
		}
	}
}
