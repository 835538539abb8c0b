package kubeclient

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// repeatPause is how long a watch that broke rests before everything is listed again.
const repeatPause = time.Second

// Change is what happened to an object, in the words of the watch API.
type Change struct {
	Type   watch.EventType // ADDED, MODIFIED or DELETED
	Object client.Object
}

// follower knows what its handler was told of.
type follower struct {
	client *Client
	list   func() client.ObjectList
	opts   []client.ListOption
	told   map[string]client.Object
	handle func(Change) error
}

// Follow hands on all objects of a kind, in the order of their names, and then each one that changes, until ctx ends or handle
// fails. A watch that breaks is opened again, which trouble is told of; what happened in between is found by comparing.
func (c *Client) Follow(ctx context.Context, list func() client.ObjectList, handle func(Change) error, trouble func(error), opts ...client.ListOption) error {
	f := &follower{client: c, list: list, opts: opts, told: map[string]client.Object{}, handle: handle}
	for round := 0; ; round++ {
		err := f.once(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if failed, ok := errors.AsType[*handlerError](err); ok {
			return failed.err
		}
		if round == 0 && len(f.told) == 0 && err != nil || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err) {
			return err
		}
		if err != nil {
			trouble(err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(repeatPause):
		}
	}
}

// handlerError is an error of the handler: it ends everything.
type handlerError struct{ err error }

func (e *handlerError) Error() string { return e.err.Error() }

// once lists, and watches until the watch ends.
func (f *follower) once(ctx context.Context) error {
	all := f.list()
	if err := f.client.List(ctx, all, f.opts...); err != nil {
		return err
	}
	if err := f.compare(all); err != nil {
		return err
	}
	from := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: all.GetResourceVersion()}}
	w, err := f.client.api.Watch(ctx, f.list(), append(f.opts[:len(f.opts):len(f.opts)], from)...)
	if err != nil {
		return f.client.wrap(err)
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		o, ok := event.Object.(client.Object)
		if event.Type == watch.Error || !ok {
			return nil // such as a resource version that is too old: list again
		}
		if event.Type == watch.Deleted {
			err = f.gone(o)
		} else if event.Type != watch.Bookmark {
			err = f.tell(o)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// compare tells what differs between a list and what was told.
func (f *follower) compare(list client.ObjectList) error {
	exists := map[string]bool{}
	err := meta.EachListItem(list, func(item runtime.Object) error {
		o := item.(client.Object) //nolint:forcetypeassert // every kind that is listed is one
		exists[o.GetName()] = true
		return f.tell(o)
	})
	if err != nil {
		return err
	}
	for name, o := range f.told {
		if !exists[name] {
			if err := f.gone(o); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *follower) tell(o client.Object) error {
	kind := watch.Added
	if last := f.told[o.GetName()]; last != nil {
		if last.GetResourceVersion() == o.GetResourceVersion() {
			return nil
		}
		kind = watch.Modified
	}
	f.told[o.GetName()] = o
	return f.call(Change{kind, o})
}

func (f *follower) gone(o client.Object) error {
	if f.told[o.GetName()] == nil {
		return nil
	}
	delete(f.told, o.GetName())
	return f.call(Change{watch.Deleted, o})
}

func (f *follower) call(c Change) error {
	if err := f.handle(c); err != nil {
		return &handlerError{err}
	}
	return nil
}
