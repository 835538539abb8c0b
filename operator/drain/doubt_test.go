package drain_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/inventory"
)

// address returns the address that the shard says of an instance.
func (w *world) address(i int) (ip string) {
	w.t.Helper()
	w.Inventory.Read("a", func(s *inventory.Shard) {
		if all := s.Instance(w.ids[i]).GetAddresses(); len(all) > 0 {
			ip = all[0]
		}
	})
	if ip == "" {
		w.t.Fatalf("%s has no address", w.ids[i])
	}
	return ip
}

// giveAddress makes a Node say that it has an internal address.
func (w *world) giveAddress(i int, ip string) {
	w.t.Helper()
	n := w.node(i)
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ip}}
	if err := w.client.Status().Update(w.t.Context(), n); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) create(o client.Object) {
	w.t.Helper()
	if err := w.client.Create(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) acknowledged() int { return w.Shard("a").Count("AcknowledgeDrained") }

// Each way in which a Node may be an instance's and is not recognised as such. None of them
// is the same as "there is no Node", for work may run on it.
func TestS20_AnUncertainNodeIsNeverAcknowledgedBeforeTheDeadline(t *testing.T) {
	stale := func(w *world, change func(*corev1.Node)) {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "stale", UID: "stale"}}
		change(n)
		w.create(n)
	}
	for _, tt := range []struct {
		name    string
		prepare func(w *world)
		pods    int // left of two, once the Nodes that have the address are drained
	}{
		{"two nodes with its provider id, neither with its address", func(w *world) {
			stale(w, func(n *corev1.Node) { n.Spec.ProviderID = w.node(0).Spec.ProviderID })
		}, 2},
		{"two nodes with its provider id, one with its address", func(w *world) {
			w.giveAddress(0, w.address(0))
			stale(w, func(n *corev1.Node) { n.Spec.ProviderID = w.node(0).Spec.ProviderID })
		}, 0},
		{"two nodes with its provider id and its address", func(w *world) {
			w.giveAddress(0, w.address(0))
			stale(w, func(n *corev1.Node) {
				n.Spec.ProviderID = w.node(0).Spec.ProviderID
				n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: w.address(0)}}
			})
		}, 0},
		{"its label and address, and the provider id of another machine", func(w *world) {
			w.giveAddress(0, w.address(0))
			n := w.node(0)
			n.Labels, n.Spec.ProviderID = map[string]string{infrav1.LabelInstanceID: w.ids[0]}, "other:///zone/x"
			w.update(n)
		}, 0},
		{"its label alone", func(w *world) {
			n := w.node(0)
			n.Labels, n.Spec.ProviderID = map[string]string{infrav1.LabelInstanceID: w.ids[0]}, ""
			w.update(n)
		}, 2},
		{"its address alone", func(w *world) {
			n := w.node(0)
			n.Spec.ProviderID = ""
			w.update(n)
			w.giveAddress(0, w.address(0))
		}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, 1, func(t *testing.T, w *world) {
				tt.prepare(w)
				w.condemn(0, 5*time.Minute)
				w.live(4*time.Minute + 30*time.Second)
				if got := w.acknowledged(); got != 0 || w.gone(0) {
					t.Fatalf("acknowledged %d times before the deadline; gone: %t", got, w.gone(0))
				}
				if w.pods() != tt.pods {
					t.Errorf("%d pods are left, not %d", w.pods(), tt.pods)
				}
				if n := w.node(0); n.Spec.Unschedulable != (tt.pods == 0) {
					t.Errorf("cordoned: %t", n.Spec.Unschedulable)
				}
				if !w.said("NodeUncertain: NstanceMachine") {
					t.Errorf("nobody is warned: %q", w.Events.All())
				}
				w.live(time.Minute)
				if !w.gone(0) {
					t.Error("the deadline ends nothing")
				}
			})
		})
	}
}

func (w *world) update(n *corev1.Node) {
	w.t.Helper()
	if err := w.client.Update(w.t.Context(), n); err != nil {
		w.t.Fatal(err)
	}
}

// Once the Node that is not the instance's is gone, the drain of the other one counts.
func TestS20_AnUncertainNodeThatIsCorrectedIsAcknowledged(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.giveAddress(0, w.address(0))
		stale := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "stale", UID: "stale"}, Spec: corev1.NodeSpec{ProviderID: w.node(0).Spec.ProviderID}}
		w.create(stale)
		w.condemn(0, 5*time.Minute)
		w.live(time.Minute)
		if w.pods() != 0 || w.acknowledged() != 0 {
			t.Fatalf("%d pods, %d acknowledgements", w.pods(), w.acknowledged())
		}
		if err := w.client.Delete(t.Context(), stale); err != nil {
			t.Fatal(err)
		}
		w.live(20 * time.Second)
		if !w.gone(0) {
			t.Error("it is not acknowledged after the stale node went")
		}
	})
}

// A Node that is recognised as that of another instance has nothing to do with this one,
// whatever name or address they share.
func TestS20_TheNodeOfAnotherInstanceIsNeitherDrainedNorWaitedFor(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		if err := w.client.Delete(t.Context(), w.node(0)); err != nil {
			t.Fatal(err)
		}
		w.giveAddress(1, w.address(0)) // networks overlap
		w.condemn(0, 5*time.Minute)
		w.live(30 * time.Second)
		if !w.gone(0) {
			t.Error("it waits for the node of another instance")
		}
		if n := w.node(1); n.Spec.Unschedulable || n.Annotations[infrav1.AnnotationDrainInstance] != "" {
			t.Errorf("the node of another instance is drained: %+v", n)
		}
	})
}

// When the instance is to live after all, every Node that was drained for it is as it was.
func TestO10_AllCandidatesOfACancelledDrainAreUncordoned(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.giveAddress(0, w.address(0))
		w.create(&corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "node-9", UID: types.UID("node-9")}, Spec: corev1.NodeSpec{ProviderID: w.node(0).Spec.ProviderID},
			Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: w.address(0)}}},
		})
		w.still = true
		w.condemn(0, 5*time.Minute)
		w.live(time.Minute)
		for _, i := range []int{0, 9} {
			if n := w.node(i); !n.Spec.Unschedulable {
				t.Errorf("node %d is not cordoned", i)
			}
		}
		w.Shard("a").Pardon(w.ids[0])
		w.live(time.Minute)
		for _, i := range []int{0, 9} {
			if n := w.node(i); n.Spec.Unschedulable || n.Annotations[infrav1.AnnotationDrainInstance] != "" {
				t.Errorf("node %d stays cordoned: %v", i, n.Annotations)
			}
		}
	})
}
