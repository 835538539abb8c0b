package compact

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
)

// NewInformer makes an informer, as a cache's options take it.
type NewInformer = func(toolscache.ListerWatcher, runtime.Object, time.Duration, toolscache.Indexers) toolscache.SharedIndexInformer

// Informers returns what makes informers as another function does, which keep Pods and CapacityRequests
// compactly. Those of other kinds are as the other function makes them.
func Informers(plain NewInformer) NewInformer {
	return func(lw toolscache.ListerWatcher, of runtime.Object, resync time.Duration, by toolscache.Indexers) toolscache.SharedIndexInformer {
		var f form
		switch of.(type) {
		case *corev1.Pod:
			f = pods()
		case *demandv1.CapacityRequest:
			f = requests()
		default:
			return plain(lw, of, resync, by)
		}
		i := informer{plain(lw, of, resync, f.indexers(by)), f}
		_ = i.SetTransform(nil) // it has not started, and so this cannot fail
		return i
	}
}

// informer is one whose objects are kept in a form.
type informer struct {
	toolscache.SharedIndexInformer

	form form
}

// SetTransform implements [toolscache.SharedInformer].
func (i informer) SetTransform(first toolscache.TransformFunc) error {
	return i.SharedIndexInformer.SetTransform(i.form.transform(first))
}

// AddEventHandler implements [toolscache.SharedInformer].
func (i informer) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandler(handler{h, i.form})
}

// AddEventHandlerWithResyncPeriod implements [toolscache.SharedInformer].
func (i informer) AddEventHandlerWithResyncPeriod(h toolscache.ResourceEventHandler, resync time.Duration) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandlerWithResyncPeriod(handler{h, i.form}, resync)
}

// AddEventHandlerWithOptions implements [toolscache.SharedInformer].
func (i informer) AddEventHandlerWithOptions(h toolscache.ResourceEventHandler, o toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandlerWithOptions(handler{h, i.form}, o)
}

// AddIndexers implements [toolscache.SharedIndexInformer].
func (i informer) AddIndexers(by toolscache.Indexers) error {
	return i.SharedIndexInformer.AddIndexers(i.form.indexers(by))
}

// GetStore implements [toolscache.SharedInformer].
func (i informer) GetStore() toolscache.Store { return i.GetIndexer() }

// GetIndexer implements [toolscache.SharedIndexInformer].
func (i informer) GetIndexer() toolscache.Indexer {
	return indexer{i.SharedIndexInformer.GetIndexer(), i.form}
}

// handler hears of whole objects.
type handler struct {
	next toolscache.ResourceEventHandler
	form form
}

// OnAdd implements [toolscache.ResourceEventHandler].
func (h handler) OnAdd(o any, initial bool) { h.next.OnAdd(h.form.whole(o), initial) }

// OnUpdate implements [toolscache.ResourceEventHandler].
func (h handler) OnUpdate(old, now any) { h.next.OnUpdate(h.form.whole(old), h.form.whole(now)) }

// OnDelete implements [toolscache.ResourceEventHandler].
func (h handler) OnDelete(o any) { h.next.OnDelete(h.form.whole(o)) }

// indexer returns whole objects. What is put in is kept as it is given: only the informer itself does that.
type indexer struct {
	toolscache.Indexer

	form form
}

// List implements [toolscache.Store].
func (i indexer) List() []any { return i.form.allWhole(i.Indexer.List()) }

// Get implements [toolscache.Store].
func (i indexer) Get(o any) (any, bool, error) {
	found, ok, err := i.Indexer.Get(o)
	return i.form.whole(found), ok, err
}

// GetByKey implements [toolscache.Store].
func (i indexer) GetByKey(key string) (any, bool, error) {
	found, ok, err := i.Indexer.GetByKey(key)
	return i.form.whole(found), ok, err
}

// Index implements [toolscache.Indexer].
func (i indexer) Index(name string, o any) ([]any, error) {
	all, err := i.Indexer.Index(name, o)
	return i.form.allWhole(all), err
}

// ByIndex implements [toolscache.Indexer].
func (i indexer) ByIndex(name, value string) ([]any, error) {
	all, err := i.Indexer.ByIndex(name, value)
	return i.form.allWhole(all), err
}

// AddIndexers implements [toolscache.Indexer].
func (i indexer) AddIndexers(by toolscache.Indexers) error {
	return i.Indexer.AddIndexers(i.form.indexers(by))
}
