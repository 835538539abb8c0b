// Package informers has functions hear of the objects of a cache as they come, change and go.
//
// What is concluded from them is the caller's, and so is every kind: a cache may be ahead of
// what was heard, so who counts changes keeps what it has heard. Controllers have watches of
// their own, which wake up their queues instead.
package informers

import (
	"context"
	"fmt"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Source has an informer of each kind; a [cache.Cache] is one.
type Source interface {
	GetInformer(ctx context.Context, of client.Object, options ...cache.InformerGetOption) (cache.Informer, error)
}

// Hear has f hear of each object of the kind of one, as it is when it comes or changes, and as
// it was last when it is gone, until ctx ends. One that was made again under its name is another one, also where its end
// was missed. One goroutine calls f, so f may wait, and delays
// nobody else. The answer says whether f has heard of all objects that were there at first. The
// error is that of an informer that cannot be had. Without options Hear waits until the informer has listed.
func Hear[O client.Object](ctx context.Context, from Source, one O, f func(o O, gone bool), options ...cache.InformerGetOption) (toolscache.InformerSynced, error) {
	informer, err := from.GetInformer(ctx, one, options...)
	if err != nil {
		return nil, fmt.Errorf("watch %T: %w", one, err)
	}
	tell := func(o any, gone bool) {
		if unknown, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
			o = unknown.Obj
		}
		if o, ok := o.(O); ok {
			f(o, gone)
		}
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { tell(o, false) }, DeleteFunc: func(o any) { tell(o, true) },
		UpdateFunc: func(old, now any) {
			if another(old, now) { // which the watch has missed
				tell(old, true)
			}
			tell(now, false)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watch %T: %w", one, err)
	}
	context.AfterFunc(ctx, func() { _ = informer.RemoveEventHandler(registration) })
	return registration.HasSynced, nil
}

// another reports whether two objects of one name are different ones.
func another(a, b any) bool {
	one, ok1 := a.(client.Object)
	other, ok2 := b.(client.Object)
	return ok1 && ok2 && one.GetUID() != other.GetUID()
}
