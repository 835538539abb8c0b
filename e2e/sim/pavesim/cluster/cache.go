package cluster

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Cache is what a process knows of the objects: all that there was when it began, and since then
// what was handed over. Of kinds that nothing is handed over of it knows what there is.
type Cache struct {
	server  *Server
	seen    map[string]map[string]client.Object // by kind and name
	at      map[string]int                      // changes of the kind that were handed over
	indexes map[string]client.IndexerFunc
}

// NewCache returns a cache of all that there is now.
func (s *Server) NewCache(indexes map[string]client.IndexerFunc) *Cache {
	c := &Cache{server: s, seen: map[string]map[string]client.Object{}, at: map[string]int{}, indexes: indexes}
	for _, kind := range Kinds() {
		c.seen[kind], c.at[kind] = maps.Clone(s.now[kind]), len(s.journal[kind])
		if c.seen[kind] == nil {
			c.seen[kind] = map[string]client.Object{}
		}
	}
	return c
}

// Waits reports whether there is a change of a kind that was not handed over.
func (c *Cache) Waits(kind string) bool { return c.at[kind] < len(c.server.journal[kind]) }

// HandOver takes in the next change of a kind, and returns it.
func (c *Cache) HandOver(kind string) Change {
	ch := c.server.journal[kind][c.at[kind]]
	c.at[kind]++
	if ch.After != nil {
		c.seen[kind][ch.After.GetName()] = ch.After
	} else {
		delete(c.seen[kind], ch.Before.GetName())
	}
	return ch
}

func (c *Cache) get(key client.ObjectKey, o client.Object) error {
	kind := c.server.kind(o)
	known, watched := c.seen[kind]
	if !watched {
		known = c.server.now[kind]
	}
	is, there := known[key.Name]
	if !there {
		return apierrors.NewNotFound(schema.GroupResource{Resource: kind}, key.Name)
	}
	reflect.ValueOf(o).Elem().Set(reflect.ValueOf(is.DeepCopyObject()).Elem())
	return nil
}

func (c *Cache) list(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	kind := c.server.kind(list)
	if _, watched := c.seen[kind]; !watched {
		return nil // there are none in this world
	}
	var o client.ListOptions
	o.ApplyOptions(opts)
	var items []runtime.Object
	for _, object := range c.selected(kind, o) {
		items = append(items, object.DeepCopyObject())
	}
	if err := meta.SetList(list, items); err != nil {
		return fmt.Errorf("list: %w", err)
	}
	return ctx.Err()
}

func (c *Cache) selected(kind string, o client.ListOptions) (all []client.Object) {
	for _, object := range c.seen[kind] {
		if o.LabelSelector != nil && !o.LabelSelector.Matches(labels.Set(object.GetLabels())) {
			continue
		}
		if o.FieldSelector != nil && slices.ContainsFunc(o.FieldSelector.Requirements(), func(r fields.Requirement) bool {
			return !slices.Contains(c.indexes[r.Field](object), r.Value)
		}) {
			continue
		}
		all = append(all, object)
	}
	slices.SortFunc(all, func(a, b client.Object) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return all
}

// Known returns the objects of a kind that a cache has. They are not to be changed.
func Known[T client.Object](c *Cache) (all []T) {
	for _, o := range c.selected(reflect.TypeFor[T]().Elem().Name(), client.ListOptions{}) {
		if typed, ok := o.(T); ok {
			all = append(all, typed)
		}
	}
	return all
}

// Objects returns all objects of a kind that a cache has, by name. They are not to be changed.
func (c *Cache) Objects(kind string) []client.Object { return c.selected(kind, client.ListOptions{}) }
