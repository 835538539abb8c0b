package machinepool

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/testworld"
)

func TestWhomNewsConcern(t *testing.T) {
	builder := testworld.NewClientBuilder(t)
	for name, shards := range map[string][]string{"db": {"a"}, "web": {"a", "b"}} {
		builder.WithObjects(&infrav1.NstanceMachinePool{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name + "-pool"},
			Spec:       infrav1.NstanceMachinePoolSpec{Group: name, Shards: shards},
		})
	}
	r := &Reconciler{Client: builder.Build()}
	for _, test := range []struct {
		change inventory.ShardChange
		want   []string
	}{
		{inventory.ShardChange{Shard: "a", Change: inventory.Change{Kind: inventory.InstanceChanged, Group: "web", Instance: "i"}}, []string{"web-pool"}},
		{inventory.ShardChange{Shard: "a", Change: inventory.Change{Kind: inventory.ShardChanged}}, []string{"db-pool", "web-pool"}},
		{inventory.ShardChange{Shard: "b", Change: inventory.Change{Kind: inventory.ShardChanged}}, []string{"web-pool"}},
		{inventory.ShardChange{Shard: "c", Change: inventory.Change{Kind: inventory.ShardChanged}}, nil},
	} {
		var got []string
		for _, request := range r.concerned(t.Context(), []inventory.ShardChange{test.change}) {
			got = append(got, request.Name)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%+v: %s", test.change, diff)
		}
	}
}
