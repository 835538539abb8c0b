package shardgroup

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"k8s.io/utils/ptr"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/controllers/machinepool/planner"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

const (
	one = "wrk00000000000000000000000001"
	two = "wrk00000000000000000000000002"
)

// retiring makes instances leave on purpose: the size is already without them.
func retiring(ids ...string) func(*shardGroup) {
	return func(p *shardGroup) {
		*p.object.Spec.Size -= int32(len(ids))
		p.object.Spec.Retiring = ids
		for _, id := range ids {
			p.instances = append(p.instances, &nstancev1.InstanceStatus{InstanceId: id, Status: "running"})
		}
	}
}

func condemned(id, reason string) func(*shardGroup) {
	return func(p *shardGroup) {
		for _, in := range p.instances {
			if in.GetInstanceId() == id {
				in.Condemned = &nstancev1.Condemned{Reason: reason}
			}
		}
	}
}

func serverSize(n int32) func(*shardGroup) { return func(p *shardGroup) { p.group.Size = n } }

func largest(p *shardGroup) { p.object.Spec.Size = ptr.To[int32](planner.MaxSize) }

// The size that is pushed never makes a server choose a victim of its own while one that
// we chose is still leaving.
func TestO6_SizeWhileInstancesAreRetiring(t *testing.T) {
	gone := func(id string) func(*shardGroup) { return func(p *shardGroup) { p.gone = append(p.gone, id) } }
	ending := func(id string) func(*shardGroup) { return func(p *shardGroup) { p.ending = append(p.ending, id) } }
	unsynced := func(p *shardGroup) { p.synced.InstancesSynced = false }
	grown := func(by int32) func(*shardGroup) { return func(p *shardGroup) { *p.object.Spec.Size += by } }
	for _, test := range []struct {
		name       string
		shardGroup shardGroup
		want       int32
		drifted    bool
	}{
		{"nobody retires", quiet(), 3, false},
		{"one retires: nothing is said", quiet(retiring(one)), 3, false},
		{"one retires, and the pool grows", quiet(retiring(one), grown(2)), 5, true},
		{"two retire", quiet(retiring(one, two)), 3, false},
		{"its deletion is asked for, not heard of", quiet(retiring(one), ending(one)), 3, false},
		{"its deletion is asked for, and counted", quiet(retiring(one), ending(one), serverSize(2)), 2, false},
		{"it is condemned, and counted", quiet(retiring(one), condemned(one, "requested"), serverSize(2)), 2, false},
		{"the server condemned it by itself", quiet(retiring(one), condemned(one, "spot-termination")), 3, false},
		{"its server came back, and has not said who is there", quiet(retiring(one), unsynced, serverSize(2)), 2, false},
		{"the same, and it was not counted", quiet(retiring(one), unsynced), 3, false},
		{"it is gone", quiet(retiring(one), gone(one), serverSize(2)), 2, false},
		{"it is gone, and was not counted", quiet(retiring(one), gone(one)), 2, false},
		{"it may be counted, and the pool grows: one later rather than one too many", quiet(retiring(one), ending(one), serverSize(2), grown(2)), 4, true},
		{"somebody else made it greater", quiet(retiring(one), serverSize(9)), 3, true},
		{"somebody else made it smaller", quiet(serverSize(1)), 3, true},
		{"as large as can be, and one retires", quiet(largest, retiring(one), grown(1), serverSize(planner.MaxSize)), planner.MaxSize, false},
		{"as large as can be, and it was counted", quiet(largest, retiring(one), ending(one), grown(1), serverSize(planner.MaxSize-1)), planner.MaxSize, false},
		{"as large as can be, and somebody else made it smaller", quiet(largest, serverSize(planner.MaxSize-1)), planner.MaxSize, true},
		{"a new group", quiet(retiring(one), func(p *shardGroup) { p.group = nil }), 3, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.shardGroup.size(); got != test.want {
				t.Errorf("size %d, want %d", got, test.want)
			}
			if got := test.shardGroup.drifted(); got != test.drifted {
				t.Errorf("drifted: %v", got)
			}
		})
	}
}

func TestO5_Request(t *testing.T) {
	full := func(p *shardGroup) {
		p.object.Spec.Subnets, p.object.Spec.InstanceType = "workers", "large"
		p.object.Spec.Vars, p.object.Spec.LoadBalancers = infrav1.Vars{"A": "1"}, []string{"front"}
	}
	size := proto.Int32(3)
	etag := proto.String("e1")
	for _, test := range []struct {
		name       string
		shardGroup shardGroup
		static     bool
		want       *nstancev1.UpsertGroupRequest
	}{
		{"what the spec does not say stays the server's", quiet(), false, &nstancev1.UpsertGroupRequest{
			Key: "web", ExpectedEtag: etag, Config: &nstancev1.GroupConfig{Size: size, Template: proto.String("base")},
		}},
		{"everything", quiet(full), false, &nstancev1.UpsertGroupRequest{
			Key: "web", ExpectedEtag: etag, Config: &nstancev1.GroupConfig{
				Size: size, Template: proto.String("base"), SubnetPool: proto.String("workers"), InstanceType: proto.String("large"),
				Vars:          &nstancev1.StringMap{Values: map[string]string{"A": "1"}},
				LoadBalancers: &nstancev1.StringList{Values: []string{"front"}},
			},
		}},
		{"of a static group what is not locked", quiet(full), true, &nstancev1.UpsertGroupRequest{
			Key: "web", ExpectedEtag: etag, Config: &nstancev1.GroupConfig{
				Size: size, InstanceType: proto.String("large"), Vars: &nstancev1.StringMap{Values: map[string]string{"A": "1"}},
			},
		}},
		{"what was said before and is not any more is cleared", quiet(func(p *shardGroup) { p.object.Status.Sent = []string{"loadBalancers", "vars"} }), false,
			&nstancev1.UpsertGroupRequest{Key: "web", ExpectedEtag: etag, Config: &nstancev1.GroupConfig{
				Size: size, Template: proto.String("base"), Vars: &nstancev1.StringMap{}, LoadBalancers: &nstancev1.StringList{},
			}}},
		{"a group that is not there", quiet(func(p *shardGroup) { p.group = nil }), false, &nstancev1.UpsertGroupRequest{
			Key: "web", Config: &nstancev1.GroupConfig{Size: size, Template: proto.String("base")},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, test.shardGroup.request(test.static), protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestO14_Drift(t *testing.T) {
	wants := func(change func(*infrav1.NstanceShardGroupSpec)) func(*shardGroup) {
		return func(p *shardGroup) { change(&p.object.Spec) }
	}
	vars := wants(func(s *infrav1.NstanceShardGroupSpec) { s.Vars = infrav1.Vars{"A": "1"} })
	large := wants(func(s *infrav1.NstanceShardGroupSpec) { s.InstanceType = "large" })
	has := func(change func(*nstancev1.GroupStatus)) func(*shardGroup) {
		return func(p *shardGroup) { change(p.group) }
	}
	for _, test := range []struct {
		name       string
		shardGroup shardGroup
		want       bool
	}{
		{"as it was told", quiet(), false},
		{"another template", quiet(has(func(g *nstancev1.GroupStatus) { g.Template = "x" })), true},
		{"another template of a static group", quiet(has(func(g *nstancev1.GroupStatus) { g.Template, g.IsStatic = "x", true })), false},
		{"another type", quiet(large), true},
		{"the type that it was told", quiet(large, has(func(g *nstancev1.GroupStatus) {
			g.Dynamic = &nstancev1.GroupConfig{InstanceType: proto.String("large")}
		})), false},
		{"a type that nobody said", quiet(has(func(g *nstancev1.GroupStatus) { g.InstanceType = "x" })), false},
		{"other vars", quiet(vars, has(func(g *nstancev1.GroupStatus) {
			g.Dynamic = &nstancev1.GroupConfig{Vars: &nstancev1.StringMap{Values: map[string]string{"A": "1", "B": "2"}}}
		})), true},
		{"its vars, among those of the template", quiet(vars, has(func(g *nstancev1.GroupStatus) { g.Vars = map[string]string{"A": "1", "T": "t"} })), false},
		{"its vars are gone", quiet(vars), true},
		{"it is being deleted", quiet(draining), true},
		{"load balancers in another order", quiet(
			wants(func(s *infrav1.NstanceShardGroupSpec) { s.LoadBalancers = []string{"b", "a"} }),
			has(func(g *nstancev1.GroupStatus) { g.LoadBalancers = []string{"a", "b"} })), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.shardGroup.drifted(); got != test.want {
				t.Errorf("drifted: %v", got)
			}
		})
	}
}
