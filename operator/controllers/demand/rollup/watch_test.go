package rollup_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	"nstance.dev/operator/controllers/demand/rollup"
	"nstance.dev/operator/demand/tally"
	"nstance.dev/operator/informers"
)

// slow is a cache that has listed everything but CapacityRequests, which take a while, and another kind, if there is one.
type slow struct {
	requests *informer
	other    client.Object
}

// informer is one whose handlers can be removed.
type informer struct{ *controllertest.FakeInformer }

func newSlow() *slow { return &slow{requests: &informer{controllertest.NewFakeInformer()}} }

// GetInformer implements [informers.Source].
func (s *slow) GetInformer(_ context.Context, of client.Object, options ...cache.InformerGetOption) (cache.Informer, error) {
	if s.other != nil && reflect.TypeOf(of) == reflect.TypeOf(s.other) {
		return &informer{controllertest.NewFakeInformer()}, nil
	}
	if _, ok := of.(*demandv1.CapacityRequest); !ok {
		return &informer{controllertest.NewFakeInformer(controllertest.Synced)}, nil
	}
	var o cache.InformerGetOptions
	for _, option := range options {
		option(&o)
	}
	if o.BlockUntilSynced == nil || *o.BlockUntilSynced {
		return nil, errors.New("waits for requests")
	}
	return s.requests, nil
}

// unowned is a request of so many cores that was made for no Pod.
func (w *world) unowned(name string, cores int64, label ...string) *demandv1.CapacityRequest {
	w.t.Helper()
	r := &demandv1.CapacityRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-" + name)}}
	if len(label) > 0 {
		r.Labels = map[string]string{label[0]: label[1]}
	}
	r.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(cores, resource.DecimalSI)}
	if err := w.api.Create(w.t.Context(), r); err != nil {
		w.t.Fatal(err)
	}
	return r
}

// TestTheFirstRollupDoesNotWaitForRequestsOfPods: a Pod counts by itself until its request is known, so two seconds
// after all else was heard of shards are told of the Pods, and of the requests that no Pod owns.
func TestTheFirstRollupDoesNotWaitForRequestsOfPods(t *testing.T) {
	for _, source := range []tally.Source{"", tally.Both, tally.Pods} {
		t.Run("source "+string(source), func(t *testing.T) {
			objects := newSlow()
			runFrom(t, func() informers.Source { return objects }, func(o *rollup.Options) { o.Tally.Source = source }, func(t *testing.T, w *world) {
				p := pod("p", 2)
				owned, batch := w.requestOf(p), w.unowned("batch", 5)
				empty := w.unowned("empty", 1, demandv1.LabelOwnedByPod, "") // anybody may write that
				w.pod(p, false)
				w.c.Opened("a")
				w.after(1900 * time.Millisecond)
				if got := w.take(); len(got) > 0 {
					t.Errorf("sent %+v at once", got)
				}
				w.after(200 * time.Millisecond)
				w.last("before requests were heard of", 8)
				if got := w.patched(); len(got) > 0 {
					t.Errorf("acknowledged before they were heard of: %q", got)
				}

				// One was deleted before the list of all was made, which therefore does not say so.
				if err := w.api.Delete(t.Context(), batch); err != nil {
					t.Fatal(err)
				}
				for _, r := range []*demandv1.CapacityRequest{owned, empty} {
					w.cache.put(r, false)
					objects.requests.Add(r)
				}
				w.after(time.Second)
				w.take()
				objects.requests.Synced()
				w.after(1500 * time.Millisecond) // nothing else happens: the loop is told that all were heard of
				w.last("the unowned one is gone", 3)
				w.request(batch, false)
				w.after(2 * time.Second)
				w.last("it was made again", 8)
			})
		})
	}
}

// TestWhatWasListedEarlyCountsOnce: requests that are heard of afterwards are those that were listed.
func TestWhatWasListedEarlyCountsOnce(t *testing.T) {
	objects := newSlow()
	runFrom(t, func() informers.Source { return objects }, nil, func(t *testing.T, w *world) {
		batch := w.unowned("batch", 5)
		w.c.Opened("a")
		w.after(3 * time.Second)
		w.last("listed", 5)
		batch.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(6, resource.DecimalSI)}
		w.cache.put(batch, false)
		objects.requests.Add(batch)
		objects.requests.Synced()
		w.after(20 * time.Second)
		w.last("changed since", 6)
		if got := w.patched(); len(got) == 0 {
			t.Error("not acknowledged")
		}
	})
}

// TestNothingIsSentBeforeAllElseIsListed: a roll-up that lacks Pods, or what makes their Nodes ours, would give machines back.
func TestNothingIsSentBeforeAllElseIsListed(t *testing.T) {
	for _, kind := range []client.Object{
		&corev1.Pod{}, &corev1.Node{}, &demandv1.UpcomingNode{}, &appsv1.DaemonSet{}, &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}, &storagev1.StorageClass{},
	} {
		t.Run(fmt.Sprintf("%T", kind), func(t *testing.T) {
			objects := newSlow()
			objects.other = kind
			runFrom(t, func() informers.Source { return objects }, nil, func(t *testing.T, w *world) {
				objects.requests.Synced()
				w.pod(pod("p", 2), false)
				w.c.Opened("a")
				w.after(time.Minute)
				if got := w.take(); len(got) > 0 {
					t.Errorf("sent %+v", got)
				}
			})
		})
	}
}

// TestRequestsThatAreNeverListedAreNamed: sessions look well then, and new requests that no Pod owns do not count.
func TestRequestsThatAreNeverListedAreNamed(t *testing.T) {
	objects := newSlow()
	runFrom(t, func() informers.Source { return objects }, nil, func(_ *testing.T, w *world) {
		w.c.Opened("a")
		w.after(50 * time.Second)
		if log := w.log.Take(); log != "" {
			t.Errorf("log %q", log)
		}
		w.after(15 * time.Second)
		if log := w.log.Take(); !strings.Contains(log, "requests not read yet") {
			t.Errorf("log %q", log)
		}
	})
}

// TestRequestsAloneAreWaitedFor: where Pods count by nothing else, and where requests cannot be listed, a roll-up
// without them would give machines back that are needed.
func TestRequestsAloneAreWaitedFor(t *testing.T) {
	away := func(o *rollup.Options) {
		api := o.Writer.(client.WithWatch) //nolint:forcetypeassert // it panics
		o.Writer = interceptor.NewClient(api, interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return errors.New("the API server is away")
		}})
	}
	for name, tt := range map[string]struct {
		change func(*rollup.Options)
		log    string
	}{
		"requests alone count":         {func(o *rollup.Options) { o.Tally.Source = tally.Requests }, ""},
		"requests could not be listed": {away, "list of requests that no Pod owns failed"},
	} {
		t.Run(name, func(t *testing.T) {
			objects := newSlow()
			runFrom(t, func() informers.Source { return objects }, tt.change, func(t *testing.T, w *world) {
				p := pod("p", 2)
				owned := w.requestOf(p)
				w.pod(p, false)
				w.c.Opened("a")
				w.after(time.Minute)
				if got := w.take(); len(got) > 0 {
					t.Errorf("sent %+v before requests were heard of", got)
				}
				if log := w.log.Take(); !strings.Contains(log, tt.log) || tt.log == "" && log != "" {
					t.Errorf("log %q", log)
				}
				w.cache.put(owned, false)
				objects.requests.Add(owned)
				objects.requests.Synced()
				w.after(2 * time.Second)
				w.last("all heard of", 2)
			})
		})
	}
}
