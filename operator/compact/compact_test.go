package compact

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/randfill"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// filler fills objects with whatever an API server could send.
func filler(seed int64) *randfill.Filler {
	return randfill.NewWithSeed(seed).NilChance(0.3).NumElements(0, 3).Funcs(
		func(t *metav1.Time, c randfill.Continue) { *t = metav1.Unix(1_700_000_000+int64(c.Intn(1000)), 0) },
		func(q *resource.Quantity, c randfill.Continue) {
			*q = *resource.NewMilliQuantity(int64(c.Intn(100_000)), resource.DecimalSI)
		},
		func(f *metav1.FieldsV1, c randfill.Continue) { f.SetRawString(fmt.Sprintf(`{"f:%d":{}}`, c.Intn(10))) },
	)
}

// An object that is read is the one that was kept, in all its fields.
func TestObjectsComeBackWhole(t *testing.T) {
	for seed := range int64(200) {
		fill := filler(seed)
		var pod corev1.Pod
		var request demandv1.CapacityRequest
		fill.Fill(&pod)
		fill.Fill(&request)
		pod.TypeMeta, request.TypeMeta = metav1.TypeMeta{}, metav1.TypeMeta{}
		if seed%2 == 0 { // one that is made for a Pod, or nearly
			request.Labels = map[string]string{demandv1.LabelOwnedByPod: string(pod.UID), "more": "yes"}
			request.OwnerReferences = []metav1.OwnerReference{{Kind: "Pod", Name: pod.Name, UID: pod.UID}, {Kind: "Job", Name: "j"}}[:1+seed/2%2]
		}
		for _, one := range []struct {
			form form
			o    k8sruntime.Object
		}{{pods(), &pod}, {requests(), &request}} {
			want := one.o.DeepCopyObject()
			kept, err := one.form.pack(one.o)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, one.o); diff != "" {
				t.Fatalf("seed %d: the object itself is changed: %s", seed, diff)
			}
			again, err := one.form.pack(kept)
			if err != nil || again != kept {
				t.Fatalf("what is kept already is kept as %T, error %v", again, err)
			}
			if diff := cmp.Diff(any(want), one.form.whole(kept)); diff != "" {
				t.Fatalf("seed %d: %s", seed, diff)
			}
			key, err := toolscache.MetaNamespaceKeyFunc(want)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := toolscache.MetaNamespaceKeyFunc(kept); err != nil || got != key {
				t.Fatalf("key %q, want %q, error %v", got, key, err)
			}
		}
	}
}

// workload returns one of the Pods of a workload.
func workload(name string, i int) *corev1.Pod {
	yes := true
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: fmt.Sprintf("%s-%05d", name, i), UID: types.UID(fmt.Sprintf("%s-%036d", name, i)), ResourceVersion: fmt.Sprint(1000 + i),
			CreationTimestamp: metav1.Unix(1_700_000_000, 0), Labels: map[string]string{"app": name},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: name, UID: types.UID(name), Controller: &yes}},
		},
		Spec: corev1.PodSpec{
			NodeName:     fmt.Sprint("node-", i%10),
			NodeSelector: map[string]string{"zone": name},
			Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("1Gi")},
			}}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
}

// Pods of one workload share all that is equal, and what no Pod has any more is forgotten.
func TestEqualPartsAreKeptOnce(t *testing.T) {
	f := pods()
	var kept []*pod
	for i := range 100 {
		one, err := f.pack(workload([]string{"web", "jobs"}[i%2], i))
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, one.(*pod)) //nolint:forcetypeassert // it panics
	}
	for i, p := range kept {
		same := kept[i%2]
		if p.spec != same.spec || p.meta != same.meta || p.status != kept[0].status {
			t.Fatalf("Pod %d has parts of its own", i)
		}
	}
	if kept[0].spec == kept[1].spec || kept[0].meta == kept[1].meta {
		t.Error("different Pods share a part")
	}
}

// So do the requests of those Pods.
func TestRequestsOfAWorkload(t *testing.T) {
	f := requests()
	var kept []*request
	for i := range 4 {
		p := workload("web", i)
		one, err := f.pack(&demandv1.CapacityRequest{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: p.Namespace, Name: p.Name + "-0f3c9a51", UID: types.UID(fmt.Sprint("request-", i)), Labels: map[string]string{demandv1.LabelOwnedByPod: string(p.UID)},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID}},
			},
			Spec: demandv1.CapacityRequestSpec{Resources: demandv1.Resources{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, one.(*request)) //nolint:forcetypeassert // it panics
	}
	for i, r := range kept {
		if r.spec != kept[0].spec || r.meta != kept[0].meta || r.status != kept[0].status {
			t.Errorf("request %d has parts of its own", i)
		}
	}
}

func TestWhatNobodyHasIsForgotten(t *testing.T) {
	all := newParts[string]()
	kept := all.of("a", []byte("a"))
	for i := range 1000 {
		s := fmt.Sprint(i)
		all.of(s, []byte(s))
	}
	for all.len() > 1 { // cleanups run some time after a collection; if they don't, the test does not end
		runtime.GC()
		runtime.Gosched()
	}
	if n := all.len(); n != 1 || *kept != "a" || all.of("a", []byte("a")) != kept {
		t.Errorf("%d are kept, %q among them", n, *kept)
	}
}

// An informer that keeps Pods so tells of changes like any other; the transform that the cache has for Pods runs before.
func TestHandlersHearOfWholeObjects(t *testing.T) {
	runInformer(t, func(t *testing.T, w *world) {
		first := w.take()
		slices.Sort(first) // those of a list come in any order
		want := []string{"+ jobs-00003 node-3 by the cache", "+ web-00001 node-1 by the cache", "+ web-00002 node-2 by the cache"}
		if !slices.Equal(first, want) {
			t.Errorf("heard of %q, want %q", first, want)
		}
		w.watched().Modify(moved())
		w.watched().Delete(workload("jobs", 3))
		synctest.Wait()
		want = []string{"was web-00001 node-1 by the cache", "is web-00001 another by the cache", "- jobs-00003 node-3 by the cache"}
		if got := w.take(); !slices.Equal(got, want) {
			t.Errorf("heard of %q, want %q", got, want)
		}
	})
}

// The end of a Pod that a watch has missed is seen by the next list.
func TestHandlersHearOfAMissedEnd(t *testing.T) {
	runInformer(t, func(t *testing.T, w *world) {
		w.take()
		w.pods("3000", workload("web", 1), workload("jobs", 3))
		w.watched().Error(&metav1.Status{Status: metav1.StatusFailure, Code: 410, Reason: metav1.StatusReasonExpired})
		w.watched().Stop()
		time.Sleep(time.Minute) // until the informer lists again
		synctest.Wait()
		if got, want := w.take(), "- unseen web-00002 node-2 by the cache"; !slices.Contains(got, want) {
			t.Errorf("heard of %q, want %q among it", got, want)
		}
	})
}

// It is read like any other.
func TestReadersGetWholeObjects(t *testing.T) {
	runInformer(t, func(t *testing.T, w *world) {
		want := workload("web", 1)
		want.Annotations = map[string]string{"seen": "by the cache"}
		one, there, err := w.informer.GetStore().GetByKey("shop/web-00001")
		if diff := cmp.Diff(any(want), one); diff != "" || !there || err != nil {
			t.Errorf("there: %v, error %v: %s", there, err, diff)
		}
		if same, there, err := w.informer.GetStore().Get(want); !there || err != nil || !cmp.Equal(same, one) {
			t.Errorf("there: %v, error %v", there, err)
		}
		if _, there, err := w.informer.GetStore().GetByKey("shop/none"); there || err != nil {
			t.Errorf("there: %v, error %v", there, err)
		}
		by := w.informer.GetIndexer()
		for _, index := range []struct {
			name, value string
			n           int
		}{{"app", "web", 2}, {"node", "node-2", 1}, {toolscache.NamespaceIndex, "shop", 3}} {
			all, err := by.ByIndex(index.name, index.value)
			if err != nil || len(all) != index.n {
				t.Fatalf("%s: %v, error %v", index.name, all, err)
			}
			for _, o := range all {
				if values, err := by.GetIndexers()[index.name](o); err != nil || !slices.Equal(values, []string{index.value}) {
					t.Errorf("%s: %v, error %v", index.name, values, err)
				}
			}
			if like, err := by.Index(index.name, all[0]); err != nil || len(like) != index.n {
				t.Errorf("%s: %v, error %v", index.name, like, err)
			}
		}
		all := by.List()
		if len(all) != 3 {
			t.Errorf("%d Pods", len(all))
		}
		for _, o := range all {
			if _, ok := o.(*corev1.Pod); !ok {
				t.Errorf("%T", o)
			}
		}
	})
}

// Other kinds are kept as they are.
func TestOtherKinds(t *testing.T) {
	plain := toolscache.NewSharedIndexInformer(&world{}, &corev1.Node{}, 0, nil)
	made := Informers(func(toolscache.ListerWatcher, k8sruntime.Object, time.Duration, toolscache.Indexers) toolscache.SharedIndexInformer {
		return plain
	})(nil, &corev1.Node{}, 0, nil)
	if made != plain {
		t.Errorf("%T", made)
	}
}

// What 10,000 Pods of a workload take, in bytes each, as they come and as they are kept.
func BenchmarkMemory(b *testing.B) {
	const n = 10_000
	f := pods()
	for name, keep := range map[string]func(*corev1.Pod) any{
		"whole":   func(p *corev1.Pod) any { return p },
		"compact": func(p *corev1.Pod) any { kept, _ := f.pack(p); return kept },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				all := make([]any, n)
				before := live()
				for i := range all {
					all[i] = keep(workload("web", i))
				}
				b.ReportMetric(float64(live()-before)/n, "bytes/Pod")
				runtime.KeepAlive(all)
			}
		})
	}
}

func live() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // far below
}
