package shardgroup

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/inventory"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// S6: a provider id leaves the list only with an instance that is known to be gone.
func TestS6_AProviderIDLeavesWithItsInstanceAlone(t *testing.T) {
	listed := func(uri string) *nstancev1.InstanceStatus {
		return &nstancev1.InstanceStatus{InstanceId: "i", ProviderUri: uri, Status: inventory.StatusRunning, CreatedAt: &timestamppb.Timestamp{Seconds: 1}}
	}
	heard := func(uri string) *nstancev1.InstanceStatus {
		return &nstancev1.InstanceStatus{InstanceId: "j", ProviderUri: uri, Status: inventory.StatusRunning}
	}
	registered := listed("")
	registered.RegisteredAt = &timestamppb.Timestamp{Seconds: 2}
	all := inventory.State{GroupsSynced: true, InstancesSynced: true}
	tests := []struct {
		name       string
		shardGroup shardGroup
		want       []string
	}{
		{"all is known, and one is gone", shardGroup{synced: all, instances: []*nstancev1.InstanceStatus{listed("p:///1")}}, []string{"p:///1"}},
		{"the shard has not listed all", shardGroup{instances: []*nstancev1.InstanceStatus{listed("p:///1")}}, []string{"p:///1", "p:///2"}},
		{"it has not, but one is known to be gone", shardGroup{deleted: []string{"p:///2"}}, []string{"p:///1"}},
		{"nobody knows whose one is", shardGroup{synced: all, unclear: []*nstancev1.InstanceStatus{heard("p:///2")}}, []string{"p:///2"}},
		{"nor by what its provider knows it", shardGroup{synced: all, unclear: []*nstancev1.InstanceStatus{heard("")}}, []string{"p:///1", "p:///2"}},
		{"one is the group's, of which the shard has not said that", shardGroup{synced: all, instances: []*nstancev1.InstanceStatus{heard("")}}, []string{"p:///1", "p:///2"}},
		{"one that is not there yet has none", shardGroup{synced: all, instances: []*nstancev1.InstanceStatus{listed("")}}, nil},
		{"one is there whose provider id a new leader does not know", shardGroup{synced: all, instances: []*nstancev1.InstanceStatus{registered}}, []string{"p:///1", "p:///2"}},
		{"one of another pool is none of this one's", shardGroup{synced: all, unclear: []*nstancev1.InstanceStatus{heard("p:///3")}}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.shardGroup.object = &infrav1.NstanceShardGroup{Status: infrav1.NstanceShardGroupStatus{ProviderIDs: []infrav1.ProviderID{"p:///1", "p:///2"}}}
			if diff := cmp.Diff(tt.want, tt.shardGroup.providerIDs()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
