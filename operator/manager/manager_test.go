package manager

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/indexes"
	"nstance.dev/operator/testworld"
)

func TestWithAFilterOnlyWhatBearsItsLabelIsSeen(t *testing.T) {
	selectors := map[string]string{}
	for kind, by := range (caches{}).options("mine").ByObject {
		if by.Label != nil {
			selectors[by.Label.String()] += "x"
			if !by.Label.Matches(labels.Set{clusterv1.WatchLabel: "mine"}) {
				t.Errorf("%T with the label is not seen", kind)
			}
		}
	}
	if len(selectors) != 1 {
		t.Errorf("selectors %v", selectors)
	}
	for kind, by := range (caches{}).options("").ByObject {
		if by.Label != nil {
			t.Errorf("%T has a selector without a filter", kind)
		}
	}
}

// lists is a cache that notes which objects a List asks for.
type lists struct {
	client.Reader
	fields string
}

func (l *lists) List(_ context.Context, _ client.ObjectList, options ...client.ListOption) error {
	if by := (&client.ListOptions{}).ApplyOptions(options).FieldSelector; by != nil {
		l.fields = by.String()
	}
	return nil
}

// TestTheClientReadsByIndexes: with a filter or without one.
func TestTheClientReadsByIndexes(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := infrav1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for _, filter := range []string{"", "mine"} {
		var cache lists
		c, err := newClient(filter)(&rest.Config{Host: "https://none.invalid"}, client.Options{
			Scheme: scheme, Mapper: meta.NewDefaultRESTMapper(nil), Cache: &client.CacheOptions{Reader: &cache},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.List(t.Context(), &infrav1.NstanceMachineList{}, indexes.OfGroup("web")); err != nil {
			t.Fatal(err)
		}
		if cache.fields != "index.group=web" {
			t.Errorf("filter %q: the cache is asked for %q", filter, cache.fields)
		}
	}
}

func TestWithAFilterWhatIsMadeBearsItsLabel(t *testing.T) {
	c := labelingClient{testworld.NewClientBuilder(t).Build(), "mine"}
	labels := map[string]string{"a": "b"}
	made := &infrav1.NstanceMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", Labels: labels}}
	if err := c.Create(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	var stored infrav1.NstanceMachine
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(made), &stored); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"a": "b", clusterv1.WatchLabel: "mine"}, stored.Labels); diff != "" {
		t.Error(diff)
	}
	if len(labels) != 1 {
		t.Error("the caller's labels were changed")
	}
}
