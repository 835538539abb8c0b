package cli_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"nstance.dev/admin/cli"
	"nstance.dev/admin/shardclient/shardtest"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// demandState is a cluster that has one of its needs, and misses another.
func demandState() *nstancev1.GetDemandResponse {
	since := timestamppb.New(shardtest.Epoch.Add(49 * time.Hour))
	return &nstancev1.GetDemandResponse{
		Connected: true,
		Needs: []*nstancev1.DemandNeed{
			{
				Id: "9f2c41aa00b1c2d3e4f5061728394a5b", Priority: 1000, Amounts: map[string]int64{"cpu": 6500, "memory": 12 << 30, "pods": 6},
				MinUnit: map[string]int64{"cpu": 1000, "memory": 2 << 30, "pods": 1}, Requirements: []string{"kubernetes.io/arch In [amd64]"},
			},
			{
				Id: "01d7b6", Amounts: map[string]int64{"cpu": 4000, "nvidia.com/gpu": 2, "pods": 2}, Missing: map[string]int64{"cpu": 2000, "nvidia.com/gpu": 1, "pods": 1},
				MinUnit:      map[string]int64{"cpu": 2000, "nvidia.com/gpu": 1, "pods": 1},
				MissingSince: since, Reason: "NoMatchingOffer", Group: "train", Requirements: []string{"nvidia.com/gpu.present Exists"},
			},
		},
		Machines: []*nstancev1.DemandMachine{
			{InstanceId: "wrk068a3cp3thz5z2mv1gejwftabc", State: "configured", Group: "default/general", InstanceType: "m7i.xlarge", CapacityType: "on-demand", HourlyMicroUsd: 201_600, Needs: 2},
			{InstanceId: "wrk068a3cp3thz5z2mv1gejwftabd", State: "configured", Group: "default/general", InstanceType: "m7i.large", CapacityType: "spot", HourlyMicroUsd: 40_000, SurplusSince: since},
			{InstanceId: "wrk068a3cp3thz5z2mv1gejwftabe", State: "configured", Group: "default/old", InstanceType: "m5.large", CapacityType: "on-demand", HourlyMicroUsd: 96_000, Needs: 1, Fixed: true},
		},
		Planned: []*nstancev1.DemandDecision{
			{Action: "provision", InstanceId: "wrk068a3cp3thz5z2mv1gejwftabf", Offer: "default/general/m7i.large/on-demand", Reason: "need", Disposition: "dry-run"},
			{Action: "reclaim", InstanceId: "wrk068a3cp3thz5z2mv1gejwftabd", Reason: "surplus", Disposition: "suppressed"},
			{Action: "replace", InstanceId: "wrk068a3cp3thz5z2mv1gejwftabc", Reason: "consolidation", Disposition: "buying", Replacements: []string{"wrk068a3cp3thz5z2mv1gejwftabg"}},
		},
		Explanation: &nstancev1.DemandExplanation{
			Blocked: "Parked", BlockedUntil: timestamppb.New(shardtest.Epoch.Add(51 * time.Hour)), Idle: 1,
			Offers: []*nstancev1.DemandOffer{
				{
					Name: "default/general/g5.xlarge/spot", Group: "default/general", InstanceType: "g5.xlarge", CapacityType: "spot",
					HourlyMicroUsd: 302_000, EffectiveMicroUsd: 312_000, Units: 2, Free: 1 << 40,
				},
				{
					Name: "default/general/g5.xlarge/on-demand", Group: "default/general", InstanceType: "g5.xlarge", CapacityType: "on-demand",
					HourlyMicroUsd: 1_006_000, EffectiveMicroUsd: 1_006_000, Units: 2, Reason: "Cooldown", Detail: "the provider had no room, a quota was full, or machines did not join",
					Until: timestamppb.New(shardtest.Epoch.Add(50 * time.Hour)),
				},
				{
					Name: "default/general/m7i.large/spot", Group: "default/general", InstanceType: "m7i.large", CapacityType: "spot",
					HourlyMicroUsd: 40_000, EffectiveMicroUsd: 40_000, Reason: "NoMatchingOffer",
					Detail: "it has no label nvidia.com/gpu.present, and required is nvidia.com/gpu.present Exists; a Pod asks for 1 of nvidia.com/gpu, and it has 0",
				},
			},
		},
	}
}

func TestExplainNeed(t *testing.T) {
	c := newConsole(t)
	c.local.SetDemand(demandState())
	var out strings.Builder
	for _, command := range []string{"demand explain 01d7b6", "demand explain 01d7 -o name", "demand explain 01 -o yaml"} {
		out.WriteString("$ nstance-admin " + command + "\n" + c.ok(t, strings.Fields(command)...) + "\n")
	}
	golden(t, "explain-need.txt", out.String())
	if said := c.fails(t, cli.ExitFailed, "explain", "need", "ffff"); !strings.Contains(said, "none whose id begins with") {
		t.Errorf("errors: %q", said)
	}
	c.local.SetDemand(&nstancev1.GetDemandResponse{Needs: demandState().GetNeeds()})
	if said := c.fails(t, cli.ExitFailed, "explain", "need", "9f2c"); !strings.Contains(said, "older than this program") {
		t.Errorf("errors: %q", said)
	}
}

func TestDemandState(t *testing.T) {
	c := newConsole(t)
	c.local.SetDemand(demandState())
	var out strings.Builder
	for _, command := range []string{
		"demand needs", "demand needs -o wide", "demand shortfalls", "demand machines", "demand plan", "demand needs -o name", "demand shortfalls -o yaml",
	} {
		out.WriteString("$ nstance-admin " + command + "\n" + c.ok(t, strings.Fields(command)...) + "\n")
	}
	golden(t, "demand-state.txt", out.String())
	if said := c.err.String(); said != "" {
		t.Errorf("errors: %s", said)
	}
}

// A cluster whose operator is away has said what it needed once: that is told.
func TestDemandOfAClusterWithoutASession(t *testing.T) {
	c := newConsole(t)
	c.local.SetDemand(&nstancev1.GetDemandResponse{})
	c.ok(t, "demand", "needs")
	if said := c.err.String(); !strings.Contains(said, "no session") {
		t.Errorf("errors: %q", said)
	}
}

func TestDemandOfAShardWithoutADemandGroup(t *testing.T) {
	c := newConsole(t)
	if said := c.fails(t, cli.ExitFailed, "demand", "machines"); !strings.Contains(said, "no group of this shard is of mode demand") {
		t.Errorf("errors: %q", said)
	}
}
