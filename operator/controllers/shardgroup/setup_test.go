package shardgroup

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
	for _, name := range []string{"db--a", "web--a", "web--b"} {
		group, shard := name[:len(name)-3], name[len(name)-1:]
		builder.WithObjects(&infrav1.NstanceShardGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
			Spec:       infrav1.NstanceShardGroupSpec{Group: group, Shard: shard},
		})
	}
	r := &Reconciler{Client: builder.Build()}
	for _, test := range []struct {
		change inventory.ShardChange
		want   []string
	}{
		{inventory.ShardChange{Shard: "a", Change: inventory.Change{Kind: inventory.GroupChanged, Group: "web"}}, []string{"web--a"}},
		{inventory.ShardChange{Shard: "b", Change: inventory.Change{Kind: inventory.InstanceGone, Group: "web", Instance: "i"}}, []string{"web--b"}},
		{inventory.ShardChange{Shard: "a", Change: inventory.Change{Kind: inventory.ShardChanged}}, []string{"db--a", "web--a"}},
		{inventory.ShardChange{Shard: "c", Change: inventory.Change{Kind: inventory.GroupChanged, Group: "web"}}, nil},
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
