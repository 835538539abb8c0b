package hostsim

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"

	"nstance.dev/e2e/sim/objects"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// informers are the cache of one process. It has what was handed over so far.
type informers struct {
	*informertest.FakeInformers
	*objects.View

	mu sync.Mutex // the fakes have no lock
}

// informer is that of one kind. Handlers hear first of all that is there.
type informer struct {
	*controllertest.FakeInformer

	of   *informers
	kind string
}

func newInformers(a *api) *informers {
	c := &informers{
		FakeInformers: &informertest.FakeInformers{Scheme: a.Scheme(), InformersByGVK: map[schema.GroupVersionKind]toolscache.SharedIndexInformer{}},
		View:          a.NewView(kinds),
	}
	for _, kind := range kinds {
		c.InformersByGVK[hostsv1.GroupVersion.WithKind(kind)] = &informer{controllertest.NewFakeInformer(controllertest.Synced), c, kind}
	}
	return c
}

// AddEventHandlerWithOptions implements cache.Informer.
func (i *informer) AddEventHandlerWithOptions(h toolscache.ResourceEventHandler, o toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	i.of.mu.Lock()
	all := i.of.Objects(i.kind)
	r, err := i.FakeInformer.AddEventHandlerWithOptions(h, o)
	i.of.mu.Unlock()
	for _, object := range all {
		h.OnAdd(object, true)
	}
	return r, err
}

// handOver takes the next change of a kind in and tells the handlers.
func (c *informers) handOver(kind string) {
	of, ok := c.InformersByGVK[hostsv1.GroupVersion.WithKind(kind)].(*informer)
	switch ch := c.HandOver(kind); {
	case !ok:
	case ch.Before == nil:
		of.Add(ch.After)
	case ch.After == nil:
		of.Delete(ch.Before)
	default:
		of.Update(ch.Before, ch.After)
	}
}

// Get implements client.Reader.
func (c *informers) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	return c.View.Get(ctx, key, o, opts...)
}

// List implements client.Reader.
func (c *informers) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return c.View.List(ctx, list, opts...)
}

// IndexField implements client.FieldIndexer.
func (c *informers) IndexField(ctx context.Context, o client.Object, name string, of client.IndexerFunc) error {
	return c.View.IndexField(ctx, o, name, of)
}
