package aggregate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	"nstance.dev/protos/rollup"
)

// profiles are 60 kinds of Pods as a cluster has them: most small, some services, batch,
// stateful ones that are co-located, and GPUs; two fifths are spread.
func profiles() (all []*demandv1.CapacityRequestSpec) {
	sizes := [][2]string{{"300m", "384Mi"}, {"400m", "512Mi"}, {"350m", "400Mi"}, {"2", "4Gi"}, {"4", "8Gi"}, {"8", "16Gi"}}
	for i := range 60 {
		size := sizes[i%len(sizes)]
		s := &demandv1.CapacityRequestSpec{
			Requirements: []demandv1.Requirement{
				{Key: "kubernetes.io/arch", Operator: "In", Values: []string{"amd64"}},
				{Key: "team", Operator: "In", Values: []string{fmt.Sprint(i / 6)}},
			},
			Resources: demandv1.Resources{Requests: corev1.ResourceList{
				"cpu": resource.MustParse(size[0]), "memory": resource.MustParse(size[1]), "pods": resource.MustParse("1"),
			}},
			Tolerations: []demandv1.Toleration{{Key: "dedicated", Operator: "Equal", Value: fmt.Sprint(i % 4), Effect: "NoSchedule"}},
		}
		if i%5 < 2 {
			s.TopologySpread = []demandv1.TopologySpread{{TopologyKey: "topology.kubernetes.io/zone", MaxSkew: 1, WhenUnsatisfiable: "DoNotSchedule"}}
		}
		if i%10 == 9 {
			s.Priority = 1_000_000
		}
		if i%16 == 15 {
			s.CoLocation = &demandv1.CoLocation{TopologyKey: "rack", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprint(i)}}}
		}
		if i%20 == 19 {
			s.Resources.Requests["nvidia.com/gpu"] = resource.MustParse("1")
		}
		all = append(all, s)
	}
	return all
}

func cluster(n int) (all []Item) {
	kinds := profiles()
	r := rand.New(rand.NewPCG(1, 1))
	for i := range n {
		all = append(all, Item{ID: fmt.Sprint("pod-", i), Spec: kinds[r.IntN(len(kinds))].DeepCopy()})
	}
	return all
}

// G10: 25,000 requests from nothing.
func BenchmarkBuild(b *testing.B) {
	all := cluster(25_000)
	b.ReportAllocs()
	for b.Loop() {
		if rows, skipped := Build(Options{}, slices.Values(all)); len(rows) == 0 || skipped > 0 {
			b.Fatalf("%d rows, %d skipped", len(rows), skipped)
		}
	}
}

// G10: the same after 100 of them have changed.
func BenchmarkChange(b *testing.B) {
	all := cluster(25_000)
	a := New(Options{})
	for _, item := range all {
		if err := a.Set(item); err != nil {
			b.Fatal(err)
		}
	}
	a.Rows()
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		for range 100 {
			n++
			item := all[n%len(all)]
			item.Spec = all[(n*7)%len(all)].Spec
			if err := a.Set(item); err != nil {
				b.Fatal(err)
			}
		}
		if len(a.Rows()) == 0 {
			b.Fatal("no rows")
		}
	}
}

// G11: what 100,000 Pods of 60 profiles ask for fits into 32 KB.
func TestTheRollupOfALargeClusterIsSmall(t *testing.T) {
	rows, skipped := Build(Options{}, slices.Values(cluster(100_000)))
	if skipped > 0 {
		t.Fatalf("%d skipped", skipped)
	}
	w := rollup.NewWriter("c")
	for i, most := range []int{32 << 10, 64} {
		parts, err := w.Write(time.UnixMilli(1_800_000_000_000), rows, nil)
		if err != nil {
			t.Fatal(err)
		}
		if size := proto.Size(parts[0]); len(parts) > 1 || size > most {
			t.Errorf("message %d: %d parts, %d bytes, want at most %d", i, len(parts), size, most)
		}
	}
}
