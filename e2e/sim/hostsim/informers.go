package hostsim

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// informers are the cache of one process. It has what was handed over so far.
type informers struct {
	*informertest.FakeInformers

	api *api

	mu      sync.Mutex
	seen    map[string]map[string]client.Object // by kind and name
	at      map[string]int                      // changes of the kind that were handed over
	indexes map[string]client.IndexerFunc
}

// informer is that of one kind. Handlers hear first of all that is there.
type informer struct {
	*controllertest.FakeInformer

	of   *informers
	kind string
}

func newInformers(a *api) *informers {
	c := &informers{
		FakeInformers: &informertest.FakeInformers{Scheme: a.scheme, InformersByGVK: map[schema.GroupVersionKind]toolscache.SharedIndexInformer{}},
		api:           a, seen: map[string]map[string]client.Object{}, at: map[string]int{}, indexes: map[string]client.IndexerFunc{},
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, kind := range kinds {
		c.seen[kind], c.at[kind] = maps.Clone(a.now[kind]), len(a.journal[kind])
		c.InformersByGVK[hostsv1.GroupVersion.WithKind(kind)] = &informer{controllertest.NewFakeInformer(controllertest.Synced), c, kind}
	}
	return c
}

// AddEventHandlerWithOptions implements cache.Informer.
func (i *informer) AddEventHandlerWithOptions(h toolscache.ResourceEventHandler, o toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	i.of.mu.Lock() // one after another: the fake has no lock
	all := maps.Clone(i.of.seen[i.kind])
	r, err := i.FakeInformer.AddEventHandlerWithOptions(h, o)
	i.of.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		h.OnAdd(all[name], true)
	}
	return r, err
}

// waiting is the next change of a kind that was not handed over; false: there is none.
func (c *informers) waiting(kind string) (change, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.api.mu.Lock()
	defer c.api.mu.Unlock()
	if c.at[kind] == len(c.api.journal[kind]) {
		return change{}, false
	}
	return c.api.journal[kind][c.at[kind]], true
}

// handOver takes the next change in and tells the handlers.
func (c *informers) handOver(kind string) {
	ch, some := c.waiting(kind)
	if !some {
		return
	}
	c.mu.Lock()
	c.at[kind]++
	if ch.after != nil {
		c.seen[kind][ch.after.GetName()] = ch.after
	} else {
		delete(c.seen[kind], ch.before.GetName())
	}
	c.mu.Unlock()
	of, ok := c.InformersByGVK[hostsv1.GroupVersion.WithKind(kind)].(*informer)
	switch {
	case !ok:
	case ch.before == nil:
		of.Add(ch.after)
	case ch.after == nil:
		of.Delete(ch.before)
	default:
		of.Update(ch.before, ch.after)
	}
}

// IndexField implements client.FieldIndexer.
func (c *informers) IndexField(_ context.Context, _ client.Object, name string, of client.IndexerFunc) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.indexes[name] = of
	return nil
}

// Get implements client.Reader.
func (c *informers) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	kind := c.api.kind(o)
	c.mu.Lock()
	defer c.mu.Unlock()
	is, there := c.seen[kind][key.Name]
	if !there {
		return apierrors.NewNotFound(schema.GroupResource{Group: hostsv1.GroupVersion.Group, Resource: kind}, key.Name)
	}
	reflect.ValueOf(o).Elem().Set(reflect.ValueOf(is.DeepCopyObject()).Elem())
	return nil
}

// List implements client.Reader.
func (c *informers) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	var options client.ListOptions
	options.ApplyOptions(opts)
	var items []runtime.Object
	for _, o := range c.selected(c.api.kind(list), options) {
		items = append(items, o.DeepCopyObject())
	}
	if err := meta.SetList(list, items); err != nil {
		return fmt.Errorf("list: %w", err)
	}
	return nil
}

func (c *informers) selected(kind string, o client.ListOptions) (all []client.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
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
