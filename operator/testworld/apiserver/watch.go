package apiserver

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"nstance.dev/operator/compact"
)

// NewCache returns what makes the caches of a manager. By is who they belong to.
func (s *Server) NewCache(by string) cache.NewCacheFunc {
	return func(config *rest.Config, o cache.Options) (cache.Cache, error) {
		o.NewInformer = compact.Informers(func(_ toolscache.ListerWatcher, of runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
			kind, err := apiutil.GVKForObject(of, s.scheme)
			if err != nil {
				panic(err) // the manager has the scheme of the server
			}
			return toolscache.NewSharedIndexInformer(&source{s: s, by: by, kind: kind}, of, resync, indexers)
		})
		// The one of client-go counts time across bubbles.
		o.DefaultWatchErrorHandler = func(context.Context, *toolscache.Reflector, error) {}
		return cache.New(config, o)
	}
}

// source is where one informer lists and watches one kind. It knows how far the informer
// has come, so a watch goes on where the last one ended.
type source struct {
	s    *Server
	by   string
	kind schema.GroupVersionKind

	mu    sync.Mutex
	at    int // events that were handed over
	count int // of all watches
}

var _ toolscache.ListerWatcherWithContext = (*source)(nil)

// IsWatchListSemanticsUnSupported tells informers to list before they watch.
func (*source) IsWatchListSemanticsUnSupported() bool { return true }

// List implements [toolscache.ListerWatcher].
func (l *source) List(o metav1.ListOptions) (runtime.Object, error) {
	return l.ListWithContext(context.Background(), o)
}

// Watch implements [toolscache.ListerWatcher].
func (l *source) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return l.WatchWithContext(context.Background(), o)
}

// ListWithContext implements [toolscache.ListerWatcherWithContext].
func (l *source) ListWithContext(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
	if _, err := l.s.travel(ctx, Call{By: l.by + "'s cache", Verb: "list", Kind: l.kind.Kind}); err != nil {
		return nil, err
	}
	list, err := l.s.scheme.New(l.kind.GroupVersion().WithKind(l.kind.Kind + "List"))
	if err != nil {
		return nil, err
	}
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	j := l.s.journal(l.kind.Kind)
	items := make([]runtime.Object, 0, len(j.now))
	for _, key := range sortedKeys(j.now) {
		items = append(items, j.now[key].DeepCopyObject())
	}
	if err := meta.SetList(list, items); err != nil {
		return nil, err
	}
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", l.kind.Kind, err)
	}
	accessor.SetResourceVersion(strconv.Itoa(len(j.events) + 1))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at = len(j.events)
	return list, nil
}

// WatchWithContext implements [toolscache.ListerWatcherWithContext].
func (l *source) WatchWithContext(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
	if _, err := l.s.travel(ctx, Call{By: l.by + "'s cache", Verb: "watch", Kind: l.kind.Kind}); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	w := &watching{events: make(chan watch.Event), cancel: cancel}
	go l.run(ctx, w)
	return w, nil
}

// watching is one watch.
type watching struct {
	events chan watch.Event
	cancel context.CancelFunc
}

// Stop implements [watch.Interface].
func (w *watching) Stop() { w.cancel() }

// ResultChan implements [watch.Interface].
func (w *watching) ResultChan() <-chan watch.Event { return w.events }

// run hands events over, until the watch is stopped or breaks.
func (l *source) run(ctx context.Context, w *watching) {
	defer close(w.events)
	for {
		event, news, ok := l.next()
		if !ok {
			select {
			case <-ctx.Done():
				return
			case <-news:
			}
			if l.s.isAway() {
				return
			}
			continue
		}
		lag, end := l.s.opts.Faults.Lag(l.by, l.kind.Kind, l.number())
		timer := time.NewTimer(lag)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		if end || l.s.isAway() {
			return
		}
		select {
		case <-ctx.Done():
			return
		case w.events <- event:
			l.mu.Lock()
			l.at++
			l.mu.Unlock()
		}
	}
}

// next returns the first event that was not handed over, or what is closed with it.
func (l *source) next() (watch.Event, <-chan struct{}, bool) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	j := l.s.journal(l.kind.Kind)
	if l.at == len(j.events) {
		return watch.Event{}, j.news, false
	}
	e := j.events[l.at]
	return watch.Event{Type: e.Type, Object: e.Object.DeepCopyObject()}, nil, true
}

func (l *source) number() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	return l.count
}
