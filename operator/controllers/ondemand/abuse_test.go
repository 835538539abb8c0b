package ondemand_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/testworld"
)

// A burst of Pods is decided by several workers before the cache shows the first machine.
func TestO12_ALimitHoldsUnderABurst(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.ondemand.Rules.MaxPerNamespace = 2
		behind := true
		w.ondemand.Client = interceptor.NewClient(w.client, interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
				if _, ok := list.(*clusterv1.MachineList); ok && behind {
					return nil
				}
				return c.List(ctx, list, o...)
			},
		})
		uids := make([]types.UID, 6)
		for i := range uids {
			uids[i] = types.UID(fmt.Sprintf("u%d", i))
			w.add("apps", "p-"+string(uids[i]), uids[i])
		}
		pass := func() {
			for _, uid := range uids {
				_, _ = w.ondemand.Reconcile(t.Context(), request(uid)) // once each, as workers beside each other
			}
		}
		pass()
		pass()
		if n := len(w.machines()); n != 2 {
			t.Fatalf("%d machines, the limit is 2", n)
		}
		behind = false
		pass()
		if n := len(w.machines()); n != 2 {
			t.Errorf("%d machines once the cache has caught up", n)
		}
		w.add("other", "q", "q")
		w.work("q")
		if n := len(w.machines()); n != 3 {
			t.Errorf("%d machines: the limit is of each namespace", n)
		}
		w.remove(w.pod("apps", "p-u0"))
		w.work("u0")
		w.after(2 * time.Minute)
		w.work("u0")
		if err := w.client.DeleteAllOf(t.Context(), &infrav1.NstanceMachine{}, client.InNamespace(testworld.Namespace), client.MatchingLabels{infrav1.LabelOnDemandPodUID: "u0"}); err != nil {
			t.Fatal(err) // as its controller does after the Machine
		}
		pass()
		pass()
		if n := len(w.machines()); n != 3 {
			t.Errorf("%d machines after a place became free", n)
		}
	})
}

// Whoever owns a Pod can change its annotations. That gives it no more attempts.
func TestO12_APodsOwnerCannotTakeTriesBack(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.add("apps", "p", "u")
		made := map[types.UID]bool{}
		for range 40 {
			w.work("u")
			for _, m := range w.machines() {
				made[m.UID] = true
				var infra infrav1.NstanceMachine
				if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(&m), &infra); err != nil {
					t.Fatal(err)
				}
				w.after(16 * time.Minute) // no Node comes
				w.work("u")
				_ = w.client.Delete(t.Context(), &infra) // as its controller does
			}
			pod := w.pod("apps", "p")
			for _, key := range []string{infrav1.OnDemandTries, infrav1.OnDemandState, infrav1.OnDemandRetried} {
				delete(pod.Annotations, key)
			}
			if err := w.client.Update(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
			w.after(time.Minute)
		}
		if len(made) != 3 {
			t.Errorf("%d machines were made for one Pod, 3 are to be tried", len(made))
		}
	})
}

func request(uid types.UID) ctrl.Request {
	return ctrl.Request{NamespacedName: client.ObjectKey{Name: string(uid)}}
}
