package manager

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
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
