package compact

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
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
	"k8s.io/apimachinery/pkg/watch"
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
	for range 100 {
		if runtime.GC(); all.len() == 1 {
			break
		}
		time.Sleep(time.Millisecond) // cleanups run after a collection
	}
	if n := all.len(); n != 1 || *kept != "a" || all.of("a", []byte("a")) != kept {
		t.Errorf("%d are kept, %q among them", n, *kept)
	}
}

// source is an API server without streams of lists.
type source struct {
	mu     sync.Mutex
	list   corev1.PodList
	events *watch.FakeWatcher // of the last watch
}

// List implements [toolscache.ListerWatcher].
func (s *source) List(metav1.ListOptions) (k8sruntime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list.DeepCopy(), nil
}

// Watch implements [toolscache.ListerWatcher].
func (s *source) Watch(metav1.ListOptions) (watch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = watch.NewFake()
	return s.events, nil
}

// IsWatchListSemanticsUnSupported is what informers ask a client for.
func (*source) IsWatchListSemanticsUnSupported() bool { return true }

// pods are what there is, of which a watch that goes on hears nothing.
func (s *source) pods(version string, all ...*corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list.ResourceVersion, s.list.Items = version, items(all)
}

func (s *source) watched() *watch.FakeWatcher {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.events
}

func ofApp(o any) ([]string, error) {
	return []string{o.(*corev1.Pod).Labels["app"]}, nil //nolint:forcetypeassert // it panics
}

func onNode(o any) ([]string, error) {
	return []string{o.(*corev1.Pod).Spec.NodeName}, nil //nolint:forcetypeassert // it panics
}

func items(all []*corev1.Pod) (out []corev1.Pod) {
	for _, p := range all {
		out = append(out, *p)
	}
	return out
}

// An informer that keeps Pods so is like any other to those who read from it and hear of its changes; the
// transform that the cache has for Pods runs before.
func TestInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{}
		s.pods("1", workload("web", 1), workload("web", 2), workload("jobs", 3))
		i := Informers(toolscache.NewSharedIndexInformer)(s, &corev1.Pod{}, 0, toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc, "app": ofApp})
		if err := i.SetTransform(func(o any) (any, error) {
			if p, ok := o.(*corev1.Pod); ok {
				p.Annotations = map[string]string{"seen": "by the cache"}
			}
			return o, nil
		}); err != nil {
			t.Fatal(err)
		}
		if err := i.AddIndexers(toolscache.Indexers{"node": onNode}); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var heard []string
		note := func(what string, o any) {
			mu.Lock()
			defer mu.Unlock()
			if unknown, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
				what, o = what+" unseen", unknown.Obj
			}
			p := o.(*corev1.Pod) //nolint:forcetypeassert // it panics
			heard = append(heard, fmt.Sprint(what, " ", p.Name, " ", p.Spec.NodeName, " ", p.Annotations["seen"]))
		}
		handler := toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(o any) { note("+", o) }, DeleteFunc: func(o any) { note("-", o) },
			UpdateFunc: func(old, now any) { note("was", old); note("is", now) },
		}
		if _, err := i.AddEventHandler(handler); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go i.RunWithContext(ctx)
		time.Sleep(time.Second)
		moved := workload("web", 1)
		moved.Spec.NodeName, moved.ResourceVersion = "another", "2000"
		s.watched().Modify(moved)
		s.watched().Delete(workload("jobs", 3))
		time.Sleep(time.Second)
		synctest.Wait()

		want := []string{
			"+ web-00001 node-1 by the cache", "+ web-00002 node-2 by the cache", "+ jobs-00003 node-3 by the cache",
			"was web-00001 node-1 by the cache", "is web-00001 another by the cache", "- jobs-00003 node-3 by the cache",
		}
		mu.Lock()
		first := map[string]bool{}
		for _, line := range heard[:min(3, len(heard))] { // those of a list come in any order
			first[line] = true
		}
		if len(first) != 3 || !first[want[0]] || !first[want[1]] || !first[want[2]] || !cmp.Equal(heard[3:], want[3:]) {
			t.Errorf("heard of %q, want %q", heard, want)
		}
		mu.Unlock()

		moved.Annotations = map[string]string{"seen": "by the cache"}
		one, there, err := i.GetStore().GetByKey("shop/web-00001")
		if diff := cmp.Diff(any(moved), one); diff != "" || !there || err != nil {
			t.Errorf("there: %v, error %v: %s", there, err, diff)
		}
		if same, there, err := i.GetStore().Get(moved); !there || err != nil || !cmp.Equal(same, one) {
			t.Errorf("there: %v, error %v", there, err)
		}
		if _, there, err := i.GetStore().GetByKey("shop/none"); there || err != nil {
			t.Errorf("there: %v, error %v", there, err)
		}
		by := i.GetIndexer()
		for index, value := range map[string]string{"app": "web", "node": "node-2"} {
			all, err := by.ByIndex(index, value)
			if err != nil || len(all) != map[string]int{"app": 2, "node": 1}[index] {
				t.Errorf("%s: %v, error %v", index, all, err)
			}
			for _, o := range all {
				if values, err := by.GetIndexers()[index](o); err != nil || !cmp.Equal(values, []string{value}) {
					t.Errorf("%s: %v, error %v", index, values, err)
				}
			}
			if like, err := by.Index(index, all[0]); err != nil || len(like) != len(all) {
				t.Errorf("%s: %v, error %v", index, like, err)
			}
		}
		if all, err := by.ByIndex(toolscache.NamespaceIndex, "shop"); err != nil || len(all) != 2 {
			t.Errorf("%v, error %v", all, err)
		}
		if all := by.List(); len(all) != 2 {
			t.Errorf("%d Pods", len(all))
		} else if _, ok := all[0].(*corev1.Pod); !ok {
			t.Errorf("%T", all[0])
		}

		// The end of a Pod is missed, and seen by the next list.
		mu.Lock()
		heard = nil
		mu.Unlock()
		s.pods("3000", moved)
		s.watched().Error(&metav1.Status{Status: metav1.StatusFailure, Code: 410, Reason: metav1.StatusReasonExpired})
		s.watched().Stop()
		time.Sleep(time.Minute)
		synctest.Wait()
		mu.Lock()
		if want := []string{"- unseen web-00002 node-2 by the cache"}; !slices.Contains(heard, want[0]) {
			t.Errorf("heard of %q, want %q among it", heard, want)
		}
		mu.Unlock()
		cancel()
		synctest.Wait()
	})
}

// Other kinds are kept as they are.
func TestOtherKinds(t *testing.T) {
	plain := toolscache.NewSharedIndexInformer(&source{}, &corev1.Node{}, 0, nil)
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
