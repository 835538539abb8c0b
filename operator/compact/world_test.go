package compact

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
)

// world is an informer of Pods that runs, before an API server without streams of lists. It notes what a handler
// hears of.
type world struct {
	informer toolscache.SharedIndexInformer

	mu     sync.Mutex
	list   corev1.PodList
	events *watch.FakeWatcher // of the last watch
	heard  []string
}

// runInformer runs a test beside an informer that has listed three Pods.
func runInformer(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		w.pods("1", workload("web", 1), workload("web", 2), workload("jobs", 3))
		w.informer = Informers(toolscache.NewSharedIndexInformer)(w, &corev1.Pod{}, 0,
			toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc, "app": ofApp})
		if err := w.informer.SetTransform(seen); err != nil {
			t.Fatal(err)
		}
		if err := w.informer.AddIndexers(toolscache.Indexers{"node": onNode}); err != nil {
			t.Fatal(err)
		}
		handler := toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(o any) { w.note("+", o) }, DeleteFunc: func(o any) { w.note("-", o) },
			UpdateFunc: func(old, now any) { w.note("was", old); w.note("is", now) },
		}
		if _, err := w.informer.AddEventHandler(handler); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go w.informer.RunWithContext(ctx)
		if !toolscache.WaitForCacheSync(ctx.Done(), w.informer.HasSynced) {
			t.Fatal("nothing is listed")
		}
		synctest.Wait()
		test(t, w)
		cancel()
		synctest.Wait()
	})
}

// seen is the transform of a cache.
func seen(o any) (any, error) {
	if p, ok := o.(*corev1.Pod); ok {
		p.Annotations = map[string]string{"seen": "by the cache"}
	}
	return o, nil
}

// moved is a Pod of the list that is on another Node now.
func moved() *corev1.Pod {
	p := workload("web", 1)
	p.Spec.NodeName, p.ResourceVersion = "another", "2000"
	return p
}

// List implements [toolscache.ListerWatcher].
func (w *world) List(metav1.ListOptions) (runtime.Object, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.list.DeepCopy(), nil
}

// Watch implements [toolscache.ListerWatcher].
func (w *world) Watch(metav1.ListOptions) (watch.Interface, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = watch.NewFake()
	return w.events, nil
}

// IsWatchListSemanticsUnSupported is what informers ask a client for.
func (*world) IsWatchListSemanticsUnSupported() bool { return true }

// pods sets what a list returns. A watch that runs does not hear of it.
func (w *world) pods(version string, all ...*corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list.ResourceVersion, w.list.Items = version, nil
	for _, p := range all {
		w.list.Items = append(w.list.Items, *p)
	}
}

func (w *world) watched() *watch.FakeWatcher {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.events
}

func (w *world) note(what string, o any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if unknown, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
		what, o = what+" unseen", unknown.Obj
	}
	p := o.(*corev1.Pod) //nolint:forcetypeassert // it panics
	w.heard = append(w.heard, fmt.Sprint(what, " ", p.Name, " ", p.Spec.NodeName, " ", p.Annotations["seen"]))
}

// take returns what was heard of since the last call.
func (w *world) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	heard := w.heard
	w.heard = nil
	return heard
}

func ofApp(o any) ([]string, error) {
	return []string{o.(*corev1.Pod).Labels["app"]}, nil //nolint:forcetypeassert // it panics
}

func onNode(o any) ([]string, error) {
	return []string{o.(*corev1.Pod).Spec.NodeName}, nil //nolint:forcetypeassert // it panics
}
