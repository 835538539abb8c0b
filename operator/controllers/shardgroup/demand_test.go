package shardgroup

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"k8s.io/utils/ptr"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/shards"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func TestDemand_Request(t *testing.T) {
	block := &infrav1.DemandSettings{Max: ptr.To[int32](4)}
	types := &infrav1.InstanceRequirements{VCPU: &infrav1.AmountRange{Min: ptr.To[int64](2)}}
	sentBlock := &nstancev1.DemandSettings{Max: proto.Int32(4)}
	sentTypes := &nstancev1.InstanceRequirements{Vcpu: &nstancev1.Range{Min: proto.Int64(2)}}
	demand := func(p *shardGroup) {
		p.object.Spec.Size, p.object.Spec.Demand, p.object.Spec.InstanceRequirements = nil, block, types
		p.object.Spec.Template = ""
	}
	onServer := func(p *shardGroup) {
		p.group.Mode, p.group.Size = "demand", 0
		p.group.Dynamic = &nstancev1.GroupConfig{Mode: proto.String("demand"), Demand: sentBlock, InstanceRequirements: sentTypes}
	}
	static := func(p *shardGroup) { p.group.IsStatic = true }
	for name, c := range map[string]struct {
		with    []func(*shardGroup)
		want    *nstancev1.GroupConfig
		drifted bool
	}{
		"a group becomes one of mode demand, without a size": {
			[]func(*shardGroup){demand},
			&nstancev1.GroupConfig{Mode: proto.String("demand"), Demand: sentBlock, InstanceRequirements: sentTypes}, true,
		},
		"it is one": {
			[]func(*shardGroup){demand, onServer},
			&nstancev1.GroupConfig{Mode: proto.String("demand"), Demand: sentBlock, InstanceRequirements: sentTypes}, false,
		},
		"another client has changed its bounds": {
			[]func(*shardGroup){demand, onServer, func(p *shardGroup) { p.group.Dynamic.Demand = &nstancev1.DemandSettings{Max: proto.Int32(5)} }},
			&nstancev1.GroupConfig{Mode: proto.String("demand"), Demand: sentBlock, InstanceRequirements: sentTypes}, true,
		},
		"another client has changed its types": {
			[]func(*shardGroup){demand, onServer, func(p *shardGroup) { p.group.Dynamic.InstanceRequirements = nil }},
			&nstancev1.GroupConfig{Mode: proto.String("demand"), Demand: sentBlock, InstanceRequirements: sentTypes}, true,
		},
		"its requirements are taken out": {
			[]func(*shardGroup){demand, onServer, func(p *shardGroup) {
				p.object.Spec.InstanceRequirements, p.object.Status.Sent = nil, []string{fieldRequirements}
			}},
			&nstancev1.GroupConfig{Mode: proto.String("demand"), Demand: sentBlock, Clear: []string{"instance_requirements"}}, true,
		},
		"of a static one nothing is said": {
			[]func(*shardGroup){demand, onServer, static}, &nstancev1.GroupConfig{}, false,
		},
		"it gets a fixed size, as many as there are": {
			[]func(*shardGroup){onServer, func(p *shardGroup) { p.object.Spec.Size, p.object.Spec.Template = nil, "" }},
			&nstancev1.GroupConfig{Mode: proto.String("fixed")}, true,
		},
		"it has a fixed size, and nobody has written down which": {
			[]func(*shardGroup){func(p *shardGroup) { p.object.Spec.Size, p.object.Spec.Template, p.group.Size = nil, "", 7 }},
			&nstancev1.GroupConfig{}, false,
		},
		"another client has made a group of fixed size one of mode demand": {
			[]func(*shardGroup){onServer, func(p *shardGroup) { p.object.Spec.Template = "" }},
			&nstancev1.GroupConfig{Mode: proto.String("fixed"), Size: proto.Int32(3)}, true,
		},
		"and its size is 0": {
			[]func(*shardGroup){onServer, func(p *shardGroup) { p.object.Spec.Size, p.object.Spec.Template = ptr.To[int32](0), "" }},
			&nstancev1.GroupConfig{Mode: proto.String("fixed"), Size: proto.Int32(0)}, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := quiet()
			for _, with := range c.with {
				with(&p)
			}
			if diff := cmp.Diff(c.want, p.request(p.static()).GetConfig(), protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
			if p.drifted() != c.drifted {
				t.Errorf("drifted is %t", p.drifted())
			}
		})
	}
}

// A server that does not know the fields would take the request for one without a change.
func TestDemand_AnOldServerIsNotAsked(t *testing.T) {
	p := quiet()
	p.object.Spec.Size, p.object.Spec.Demand = nil, &infrav1.DemandSettings{}
	p.object.Generation++
	p.shard.Missing = []string{shards.DemandGroups}
	d := decide(p, time.Now())
	if d.action != noAction {
		t.Errorf("%+v", d)
	}
	valid := p.configValid(outcome{decision: d}, infrav1.NstanceShardGroupStatus{})
	if valid.Reason != infrav1.ReasonFeatureMissing || valid.Message == "" {
		t.Errorf("%+v", valid)
	}
}

// What is read back as another mode may end instances, and is looked at once more.
func TestDemand_AnotherModeMayEndInstances(t *testing.T) {
	p := quiet()
	p.group.Mode, p.group.Size = "demand", 0
	if !p.endsInstances(decision{action: repair}) {
		t.Error("a size for a group of mode demand ends nothing, it seems")
	}
	p.object.Spec.Size = nil
	if p.endsInstances(decision{action: upsert}) {
		t.Error("a group that keeps what it has is said to lose something")
	}
}

func TestDemand_Status(t *testing.T) {
	p := quiet()
	p.object.Spec.Size, p.object.Spec.Demand = nil, &infrav1.DemandSettings{}
	p.group.Mode = "demand"
	next := nextStatus(p, outcome{decision: decision{action: noAction}}, time.Now())
	if next.Mode != "demand" || next.Demand == nil || next.Demand.Machines != int32(len(p.instances)) || next.Demand.HourlySpend != nil {
		t.Errorf("before anything is decided: %s %+v", next.Mode, next.Demand)
	}
	p.group.DemandUsage = &nstancev1.DemandUsage{Machines: 5, Idle: 2, HourlyMicroUsd: 420_000, Shortfalls: 1}
	next = nextStatus(p, outcome{decision: decision{action: noAction}}, time.Now())
	if d := next.Demand; d.Machines != 5 || d.Idle != 2 || d.HourlySpend.String() != "420m" || d.Shortfalls != 1 {
		t.Errorf("%+v", d)
	}
}
