package drain_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/testworld"
)

// A Machine is deleted before its Node has joined: Cluster API has nothing to empty and deletes
// the NstanceMachine at once. Where the shard does not act yet, as while the group is paused,
// the Node joins afterwards, the Machine refers to it, and work would come to it.
func TestS20_ANodeThatJoinsAfterItsMachineWasDeletedIsDrained(t *testing.T) {
	for _, after := range []time.Duration{2 * time.Second, time.Minute} { // while it is looked for; later
		inWorld(t, 1, func(t *testing.T, w *world) {
			w.still = true
			provider := w.node(0).Spec.ProviderID
			if err := w.client.Delete(t.Context(), w.node(0)); err != nil {
				t.Fatal(err)
			}
			owner := w.deleteMachine(0)
			w.live(after)
			w.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-0", UID: "late"}, Spec: corev1.NodeSpec{ProviderID: provider}})
			owner.Status.NodeRef.Name = "node-0"
			if err := w.client.Status().Update(t.Context(), owner); err != nil {
				t.Fatal(err)
			}
			w.live(40 * time.Second)
			if n := w.node(0); !n.Spec.Unschedulable || n.Annotations[infrav1.AnnotationDrainPhase] != string(infrav1.DrainDone) || w.pods() != 0 {
				t.Errorf("after %v: %d pods on %+v", after, w.pods(), n)
			}
		})
	}
}

// The watch of Nodes is broken for a while, and the Node joins meanwhile. Its instance is
// condemned: the shard does not hear that there is no Node, and the work is moved.
func TestS20_ANodeThatTheCacheLacksIsDrained(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		node := w.node(0)
		node.Labels = map[string]string{infrav1.LabelInstanceID: w.ids[0]}
		w.update(node)
		w.noNodes = true
		w.After(time.Hour)
		w.condemn(0, 5*time.Minute)
		w.live(time.Second)
		if w.acknowledged() != 0 {
			t.Fatalf("acknowledged %d times with %d pods", w.acknowledged(), w.pods())
		}
		w.live(10 * time.Second)
		if w.acknowledged() != 1 || w.pods() != 0 {
			t.Errorf("acknowledged %d times with %d pods", w.acknowledged(), w.pods())
		}
	})
}

// A Node that the cache lacks and that may be the instance's counts as one that is uncertain: people
// hear of it, once.
func TestS20_AnUncertainNodeThatTheCacheLacksIsSaidOnce(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		node := w.node(0)
		node.Labels, node.Spec.ProviderID = map[string]string{infrav1.LabelInstanceID: w.ids[0]}, ""
		w.update(node)
		w.noNodes = true
		w.After(time.Hour)
		w.condemn(0, 5*time.Minute)
		w.live(time.Minute)
		if w.acknowledged() != 0 {
			t.Errorf("acknowledged %d times", w.acknowledged())
		}
		warnings := 0
		for _, event := range w.Events.All() {
			if strings.Contains(event, "NodeUncertain") {
				warnings++
			}
		}
		if warnings != 1 {
			t.Errorf("%d warnings in a minute, want 1: %q", warnings, w.Events.All())
		}
	})
}

// deleteMachine deletes the Machine of an instance and its NstanceMachine, in a Cluster whose
// Nodes Cluster API drains. It returns the Machine.
func (w *world) deleteMachine(i int) *clusterv1.Machine {
	w.t.Helper()
	key := client.ObjectKey{Namespace: testworld.Namespace, Name: w.ids[i]}
	w.create(&clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "c"},
		Spec:       clusterv1.ClusterSpec{ControlPlaneRef: clusterv1.ContractVersionedObjectReference{Name: "control-plane"}},
	})
	owner := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: types.UID("owner"), Finalizers: []string{clusterv1.MachineFinalizer}}}
	w.create(owner)
	m := &infrav1.NstanceMachine{}
	if err := w.client.Get(w.t.Context(), key, m); err != nil {
		w.t.Fatal(err)
	}
	m.Labels, m.Finalizers = map[string]string{clusterv1.ClusterNameLabel: "c"}, []string{infrav1.FinalizerMachine}
	m.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: key.Name, UID: owner.UID}}
	for _, err := range []error{w.client.Update(w.t.Context(), m), w.client.Delete(w.t.Context(), owner), w.client.Delete(w.t.Context(), m)} {
		if err != nil {
			w.t.Fatal(err)
		}
	}
	if err := w.client.Get(w.t.Context(), key, owner); err != nil {
		w.t.Fatal(err)
	}
	return owner
}
