package aggregate

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	"nstance.dev/protos/needs"
)

// TestE3_AGroupIsPinnedToTheDomainThatItRunsIn: kube-scheduler puts its Pods nowhere else, so neither
// may what is bought for them stand elsewhere.
func TestE3_AGroupIsPinnedToTheDomainThatItRunsIn(t *testing.T) {
	in := func(values ...string) []needs.Requirement {
		return []needs.Requirement{{Key: "rack", Operator: needs.In, Values: values}}
	}
	for name, tt := range map[string]struct {
		key     string // of the co-location; empty: there is none
		domains []string
		want    []needs.Requirement // but that it is the Same
	}{
		"nothing runs":                 {"rack", nil, nil},
		"in one rack":                  {"rack", []string{"r1"}, in("r1")},
		"in two":                       {"rack", []string{"r2", "r1", "r2"}, in("r1", "r2")},
		"on a host":                    {corev1.LabelHostname, []string{"node-1"}, nil},
		"no co-location":               {"", []string{"r1"}, nil},
		"more than fit":                {"rack", slices.Repeat([]string{"r1"}, demandv1.MostValues+1), in("r1")},
		"more than fit, and different": {"rack", many(demandv1.MostValues + 1), nil},
	} {
		t.Run(name, func(t *testing.T) {
			spec := &demandv1.CapacityRequestSpec{Resources: demandv1.Resources{Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}}}
			if tt.key != "" {
				spec.CoLocation = &demandv1.CoLocation{TopologyKey: tt.key, Namespaces: []string{"d"}, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}}
			}
			a := New(Options{})
			for _, domains := range [][]string{nil, tt.domains} { // the first Pod is placed between the two
				if err := a.Set(Item{ID: "p", Spec: spec, Domains: domains}); err != nil {
					t.Fatal(err)
				}
			}
			rows := a.Rows()
			if len(rows) != 1 {
				t.Fatalf("%d rows", len(rows))
			}
			got := slices.DeleteFunc(slices.Clone(rows[0].Profile.Requirements), func(r needs.Requirement) bool { return r.Operator == needs.Same })
			if !slices.EqualFunc(got, tt.want, func(a, b needs.Requirement) bool {
				return a.Key == b.Key && a.Operator == b.Operator && slices.Equal(a.Values, b.Values)
			}) {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

func many(n int) (all []string) {
	for i := range n {
		all = append(all, string(rune('a'+i%26))+string(rune('a'+i/26)))
	}
	return all
}
