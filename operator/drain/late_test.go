package drain_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "nstance.dev/operator/api/infrastructure/v1beta1"
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
			if n := w.node(0); !n.Spec.Unschedulable || n.Annotations[api.AnnotationDrainPhase] != string(api.DrainDone) || w.pods() != 0 {
				t.Errorf("after %v: %d pods on %+v", after, w.pods(), n)
			}
		})
	}
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
	m := &api.NstanceMachine{}
	if err := w.client.Get(w.t.Context(), key, m); err != nil {
		w.t.Fatal(err)
	}
	m.Labels, m.Finalizers = map[string]string{clusterv1.ClusterNameLabel: "c"}, []string{api.FinalizerMachine}
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
