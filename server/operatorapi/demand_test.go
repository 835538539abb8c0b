package operatorapi

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/config/configtest"
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/config/requests"
	"nstance.dev/server/demand"
	"nstance.dev/server/demandloop"
	"nstance.dev/server/status"
)

// TestDemandBlocksKeepWhatTheySay: what the configuration can say of a group of mode demand, a
// message can, and it comes back the same.
func TestDemandBlocksKeepWhatTheySay(t *testing.T) {
	group := configtest.LoadFull(t).Groups["prod"]["batch"]
	var change requests.GroupChange
	err := changeDemand(&change, &nstancev1.GroupConfig{
		Mode: proto.String("demand"), Demand: demandSettings(group.Demand), Node: nodeSettings(group.Node), InstanceRequirements: requirements(group.InstanceRequirements),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := requests.GroupChange{Mode: "demand", Demand: group.Demand, Node: group.Node, Requirements: group.InstanceRequirements}
	if diff := cmp.Diff(want, change); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	var nothing requests.GroupChange
	if err := changeDemand(&nothing, &nstancev1.GroupConfig{}); err != nil || !cmp.Equal(nothing, requests.GroupChange{}) {
		t.Errorf("of an empty message: %+v, %v", nothing, err)
	}
}

func TestDemandSettingsThatMeanNothingAreRefused(t *testing.T) {
	for want, d := range map[string]*nstancev1.DemandSettings{
		"demand.release_hold":                        {ReleaseHold: durationpb.New(-time.Second)},
		"demand.disruption[0].nodes":                 {Disruption: []*nstancev1.DisruptionBudget{{Nodes: "many"}}},
		"demand.disruption[0].duration":              {Disruption: []*nstancev1.DisruptionBudget{{Nodes: "1", Duration: durationpb.New(-1)}}},
		"demand.limits.hourly_spend_micro_usd":       {Limits: &nstancev1.DemandLimits{HourlySpendMicroUsd: proto.Int64(-1)}},
		"demand.consolidation.min_saving_ppm":        {Consolidation: &nstancev1.Consolidation{MinSavingPpm: proto.Int32(1_000_001)}},
		"demand.scale_down_delay: not a duration th": {ScaleDownDelay: &durationpb.Duration{Seconds: 1, Nanos: -1}},
	} {
		var change requests.GroupChange
		err := changeDemand(&change, &nstancev1.GroupConfig{Demand: d})
		if !errors.As(err, new(*groupfile.InvalidError)) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want a refusal of %s", err, want)
		}
	}
}

func TestStatusOfADemandGroup(t *testing.T) {
	most := 3
	settings := (&document.Demand{Max: &most}).Complete()
	got := groupStatus(&status.Group{Revision: 1, Group: &effective.Group{
		Tenant: "a", Key: "web", Demand: settings, Node: document.Node{MaxPods: &most},
		Dynamic: &groupfile.Entry{Mode: "demand", Demand: &document.Demand{Max: &most}},
	}, Usage: &status.Usage{Machines: 3, Idle: 1, VCPU: 6, MemoryGiB: 24, GPUs: map[string]int64{"nvidia.com/gpu": 2}, HourlyMicroUSD: 300_000, Full: true, Shortfalls: 4}})
	same(t, got, &nstancev1.GroupStatus{
		Tenant: "a", Key: "web", Revision: 1, DrainTimeout: durationpb.New(0), Mode: "demand", Node: &nstancev1.NodeSettings{MaxPods: 3},
		Demand: &nstancev1.DemandSettings{
			Min: proto.Int32(0), Max: proto.Int32(3), MinIdle: proto.Int32(0), Weight: proto.Int32(1), CapacityTypes: &nstancev1.StringList{Values: []string{"on-demand"}},
			Configure: proto.String("agent"), OnDrainTimeout: proto.String("abort"), ScaleDownDelay: durationpb.New(time.Minute),
			MinLifetime: durationpb.New(5 * time.Minute), JoinDeadline: durationpb.New(10 * time.Minute), Consolidation: &nstancev1.Consolidation{MinSavingPpm: proto.Int32(150_000)},
		},
		Dynamic: &nstancev1.GroupConfig{Mode: proto.String("demand"), Demand: &nstancev1.DemandSettings{Max: proto.Int32(3)}},
		DemandUsage: &nstancev1.DemandUsage{
			Machines: 3, Idle: 1, Vcpu: 6, MemoryGib: 24, Gpu: map[string]int64{"nvidia.com/gpu": 2}, HourlyMicroUsd: 300_000, Full: true, Shortfalls: 4,
		},
	})
}

// A replacement that is under way stands beside what is held: one line for each machine that goes.
func TestReplacementsArePlanned(t *testing.T) {
	got := demandOf(demandloop.Picture{
		Planned:      []demand.Action{{Kind: demand.Reclaim, Machine: "m0", Reason: demand.ReasonSurplus, Disposition: demand.DryRun}},
		Replacements: []demand.ConsolidationView{{Phase: "buying", Reason: demand.ReasonDrift, Replaced: []string{"m1", "m2"}, Bought: []string{"m3"}}},
	}).GetPlanned()
	want := []*nstancev1.DemandDecision{
		{Action: "reclaim", InstanceId: "m0", Reason: "surplus", Disposition: "dry-run"},
		{Action: "replace", InstanceId: "m1", Reason: "drift", Disposition: "buying", Replacements: []string{"m3"}},
		{Action: "replace", InstanceId: "m2", Reason: "drift", Disposition: "buying", Replacements: []string{"m3"}},
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
