package objects

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// View is what a process knows of the objects of some kinds: all that there was when it began, and since then what was
// handed over. Of other kinds it has what there is, and lists nothing.
type View struct {
	store *Store

	mu      sync.Mutex
	seen    map[string]map[string]client.Object // by kind and name
	at      map[string]int                      // changes of the kind that were handed over
	indexes map[string]client.IndexerFunc
}

// NewView returns a view of all objects of some kinds as they are now.
func (s *Store) NewView(kinds []string) *View {
	v := &View{store: s, seen: map[string]map[string]client.Object{}, at: map[string]int{}, indexes: map[string]client.IndexerFunc{}}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, kind := range kinds {
		v.seen[kind], v.at[kind] = map[string]client.Object{}, len(s.journal[kind])
		maps.Copy(v.seen[kind], s.now[kind])
	}
	return v
}

// IndexField implements client.FieldIndexer.
func (v *View) IndexField(_ context.Context, _ client.Object, name string, of client.IndexerFunc) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.indexes[name] = of
	return nil
}

// Waits reports whether there is a change of a kind that was not handed over.
func (v *View) Waits(kind string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.store.mu.Lock()
	defer v.store.mu.Unlock()
	return v.at[kind] < len(v.store.journal[kind])
}

// HandOver takes in the next change of a kind, which there has to be, and returns it.
func (v *View) HandOver(kind string) Change {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.store.mu.Lock()
	c := v.store.journal[kind][v.at[kind]]
	v.store.mu.Unlock()
	v.at[kind]++
	if c.After != nil {
		v.seen[kind][c.After.GetName()] = c.After
	} else {
		delete(v.seen[kind], c.Before.GetName())
	}
	return c
}

// Objects returns the objects of a kind that a view has, in the order of their names. They are not to be changed.
func (v *View) Objects(kind string) []client.Object {
	v.mu.Lock()
	defer v.mu.Unlock()
	return typed[client.Object](v.seen[kind])
}

// Known returns the objects of a type that a view has, in the order of their names. They are not to be changed.
func Known[T client.Object](v *View) []T {
	v.mu.Lock()
	defer v.mu.Unlock()
	return typed[T](v.seen[nameOf[T]()])
}

// Get implements client.Reader.
func (v *View) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	kind := v.store.Kind(o)
	v.mu.Lock()
	known, watched := v.seen[kind]
	is := known[key.Name]
	v.mu.Unlock()
	if !watched {
		is = v.store.Stored(kind, key.Name)
	}
	if is == nil {
		return notFound(kind, key.Name)
	}
	reflect.ValueOf(o).Elem().Set(reflect.ValueOf(is.DeepCopyObject()).Elem())
	return nil
}

// List implements client.Reader. It selects by labels and by the fields that are indexed.
func (v *View) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(opts)
	var items []runtime.Object
	for _, object := range v.Objects(v.store.Kind(list)) {
		if v.selects(object, o) {
			items = append(items, object.DeepCopyObject())
		}
	}
	if err := meta.SetList(list, items); err != nil {
		return fmt.Errorf("list: %w", err)
	}
	return ctx.Err()
}

func (v *View) selects(o client.Object, by client.ListOptions) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if by.LabelSelector != nil && !by.LabelSelector.Matches(labels.Set(o.GetLabels())) {
		return false
	}
	return by.FieldSelector == nil || !slices.ContainsFunc(by.FieldSelector.Requirements(), func(r fields.Requirement) bool {
		return !slices.Contains(v.indexes[r.Field](o), r.Value)
	})
}
