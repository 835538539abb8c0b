package node_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/controllers/node"
	"nstance.dev/operator/nodes"
	"nstance.dev/operator/shards/shardtest"
	"nstance.dev/operator/testworld"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is one running instance with a machine, and a Node that a test describes.
type world struct {
	*testworld.ShardWorld
	t        *testing.T
	client   client.WithWatch
	instance *nstancev1.InstanceStatus
	options  node.Options
}

func inWorld(t *testing.T, describe func(*corev1.Node, *nstancev1.InstanceStatus), walk func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t}
		w.ShardWorld = testworld.NewShardWorld(t, func(c *shardtest.Cluster) {
			c.Shard("a").AddGroup(testworld.Tenant, shardtest.Group{Key: "web", Size: 1})
		}, "a")
		w.instance = w.Shard("a").Instances(testworld.Tenant, "web")[0]
		object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n"}}
		describe(object, w.instance)
		labels := map[string]string{clusterv1.ClusterNameLabel: "c"}
		owner := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: testworld.Namespace, Name: "m", UID: "m", Labels: labels}}
		m := &infrav1.NstanceMachine{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: testworld.Namespace, Name: w.id(), UID: "i", Labels: labels,
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, clusterv1.GroupVersion.WithKind("Machine"))},
			},
			Spec: infrav1.NstanceMachineSpec{
				Mode: infrav1.MachineManaged, InstanceID: w.id(), ProviderID: w.instance.GetProviderUri(),
				MachineSettings: infrav1.MachineSettings{GroupRef: infrav1.GroupReference{Name: "web"}, Shard: "a"},
			},
		}
		b := testworld.NewClientBuilder(t).WithObjects(object, owner, m)
		for field, index := range nodes.NodeIndexes() {
			b.WithIndex(&corev1.Node{}, field, index)
		}
		for field, index := range nodes.MachineIndexes() {
			b.WithIndex(&infrav1.NstanceMachine{}, field, index)
		}
		w.client = b.Build()
		w.options = node.Options{
			Client: w.client, Workload: w.client, Namespace: testworld.Namespace, Cluster: "c", Inventory: w.Inventory,
			Events: w.Events, MachineEvents: w.Events, SetProviderID: true, DeleteEnded: true,
		}
		walk(t, w)
	})
}

func (w *world) id() string { return w.instance.GetInstanceId() }

func (w *world) correlate() {
	w.t.Helper()
	for range 3 { // the same again changes nothing
		_, err := node.NewCorrelator(w.options).Reconcile(w.t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: testworld.Namespace, Name: w.id()}})
		if err != nil {
			w.t.Fatal(err)
		}
	}
}

// machine returns the machine and its Machine.
func (w *world) machine() (*infrav1.NstanceMachine, *clusterv1.Machine) {
	w.t.Helper()
	m, owner := &infrav1.NstanceMachine{}, &clusterv1.Machine{}
	for name, o := range map[string]client.Object{w.id(): m, "m": owner} {
		if err := w.client.Get(w.t.Context(), client.ObjectKey{Namespace: testworld.Namespace, Name: name}, o); err != nil {
			w.t.Fatal(err)
		}
	}
	return m, owner
}

// node returns the Node, nil if it is gone.
func (w *world) node() *corev1.Node {
	w.t.Helper()
	node := &corev1.Node{}
	err := w.client.Get(w.t.Context(), client.ObjectKey{Name: "n"}, node)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return node
}

func byProviderID(n *corev1.Node, in *nstancev1.InstanceStatus) {
	n.Spec.ProviderID = in.GetProviderUri()
}

func byLabel(address string) func(*corev1.Node, *nstancev1.InstanceStatus) {
	return func(n *corev1.Node, in *nstancev1.InstanceStatus) {
		n.Labels = map[string]string{infrav1.LabelInstanceID: in.GetInstanceId()}
		if address == "" {
			address = in.GetAddresses()[0]
		}
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
	}
}

func TestO13_ANodeIsFoundByItsProviderID(t *testing.T) {
	inWorld(t, byProviderID, func(t *testing.T, w *world) {
		w.correlate()
		m, owner := w.machine()
		if m.Status.NodeRef == nil || *m.Status.NodeRef != (infrav1.NodeReference{Name: "n", UID: "n"}) || owner.Status.NodeRef.Name != "n" {
			t.Errorf("%+v %+v", m.Status, owner.Status)
		}
		if n := w.node(); n.Labels[infrav1.LabelInstanceID] != w.id() || n.Labels[infrav1.LabelGroup] != "web" || n.Labels[infrav1.LabelShard] != "a" {
			t.Errorf("%+v", n.Labels)
		}
		if events := w.Events.All(); len(events) != 1 || !strings.HasPrefix(events[0], "NodeCorrelated:") {
			t.Errorf("%v", events)
		}
	})
}

func TestO13_AnEmptyProviderIDIsSetOnce(t *testing.T) {
	inWorld(t, byLabel(""), func(t *testing.T, w *world) {
		w.correlate()
		if n := w.node(); n.Spec.ProviderID != w.instance.GetProviderUri() {
			t.Errorf("%+v", n.Spec)
		}
		if _, owner := w.machine(); owner.Status.NodeRef.Name != "n" {
			t.Errorf("%+v", owner.Status)
		}
	})
}

func TestO13_ALabelThatLiesIsRefused(t *testing.T) {
	inWorld(t, byLabel("192.0.2.1"), func(t *testing.T, w *world) {
		w.correlate()
		if m, owner := w.machine(); m.Status.NodeRef != nil || owner.Status.NodeRef.IsDefined() || w.node().Spec.ProviderID != "" {
			t.Errorf("%+v", m.Status)
		}
	})
}

func TestO13_ANodeWithAnotherProviderIDIsReported(t *testing.T) {
	both := func(n *corev1.Node, in *nstancev1.InstanceStatus) {
		byLabel("")(n, in)
		n.Spec.ProviderID = "nstance://a/another"
	}
	inWorld(t, both, func(t *testing.T, w *world) {
		w.correlate()
		m, _ := w.machine()
		mismatch := slices.ContainsFunc(w.Events.All(), func(s string) bool { return strings.HasPrefix(s, "ProviderIDMismatch:") })
		if m.Status.NodeRef != nil || len(w.Events.All()) != 1 || !mismatch {
			t.Errorf("%+v %v", m.Status, w.Events.All())
		}
	})
}

func (w *world) deleteEnded(r *node.Deleter) time.Duration {
	w.t.Helper()
	result, err := r.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "n"}})
	if err != nil {
		w.t.Fatal(err)
	}
	return result.RequeueAfter
}

func readyNode(n *corev1.Node, in *nstancev1.InstanceStatus) {
	byProviderID(n, in)
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
}

func TestO11_TheNodeOfAnInstanceThatEndedGoes(t *testing.T) {
	inWorld(t, readyNode, func(t *testing.T, w *world) {
		w.correlate()
		r := node.NewDeleter(w.options)
		if again := w.deleteEnded(r); again != 0 || w.node() == nil {
			t.Fatalf("its instance lives: %v", again)
		}
		w.Shard("a").Condemn(w.id(), "expired", 0)
		w.Shard("a").Step()
		w.After(time.Second)
		if again := w.deleteEnded(r); again != time.Minute || w.node() == nil {
			t.Fatalf("it goes too early: %v", again)
		}
		w.After(time.Minute)
		if w.deleteEnded(r); w.node() != nil {
			t.Error("it stays")
		}
	})
}

// Its instance ended before anybody saw that they belong together.
func TestO11_ANodeThatCameTooLateGoes(t *testing.T) {
	silent := func(n *corev1.Node, in *nstancev1.InstanceStatus) { n.Spec.ProviderID = in.GetProviderUri() }
	inWorld(t, silent, func(t *testing.T, w *world) {
		r := node.NewDeleter(w.options)
		if w.deleteEnded(r); w.node() == nil {
			t.Fatal("its instance lives")
		}
		w.Shard("a").Condemn(w.id(), "expired", 0)
		w.Shard("a").Step()
		w.After(time.Second)
		if w.deleteEnded(r); w.node() != nil {
			t.Error("it stays")
		}
	})
}

func TestO7_ASilentShardCostsNoNode(t *testing.T) {
	inWorld(t, readyNode, func(t *testing.T, w *world) {
		w.correlate()
		r := node.NewDeleter(w.options)
		w.Shard("a").Restart() // its new leader knows of nothing yet
		w.Shard("a").Vanish(w.id())
		for range 10 {
			w.After(time.Minute)
			w.deleteEnded(r)
		}
		if w.node() == nil {
			t.Error("the node was deleted")
		}
	})
}

// Another tenant's machines are in the same shards, and nobody tells this operator of them.
func TestS12_O14_ANodeOfAnotherTenantStays(t *testing.T) {
	theirs := func(n *corev1.Node, _ *nstancev1.InstanceStatus) {
		n.Spec.ProviderID = "nstance://a/wrk01arz3ndektsv4rrffq69g5fav"
		n.Labels = map[string]string{infrav1.LabelInstanceID: "wrk01arz3ndektsv4rrffq69g5fav", infrav1.LabelShard: "a"}
		n.Annotations = map[string]string{infrav1.AnnotationCluster: "others/c"}
	}
	inWorld(t, theirs, func(t *testing.T, w *world) {
		r := node.NewDeleter(w.options)
		for range 3 {
			if again := w.deleteEnded(r); again != 0 || w.node() == nil {
				t.Fatalf("it is looked at again after %v, %v", again, w.node())
			}
			w.After(time.Minute)
		}
	})
}

// A kubelet writes the labels of its Node; what it says there ends no Node whose machine
// lives.
func TestO7_ALabelEndsNoNodeWhoseMachineLives(t *testing.T) {
	liar := func(n *corev1.Node, in *nstancev1.InstanceStatus) {
		byProviderID(n, in)
		n.Labels = map[string]string{infrav1.LabelInstanceID: "wrk01arz3ndektsv4rrffq69g5fav", infrav1.LabelShard: "a"}
		n.Annotations = map[string]string{infrav1.AnnotationCluster: testworld.Namespace + "/c"}
	}
	inWorld(t, liar, func(t *testing.T, w *world) {
		r := node.NewDeleter(w.options)
		w.deleteEnded(r)
		w.After(2 * time.Minute)
		w.deleteEnded(r)
		if w.node() == nil {
			t.Error("the node was deleted")
		}
	})
}
