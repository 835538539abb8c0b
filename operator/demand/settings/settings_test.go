package settings_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/controllers/machinepool/planner"
	"nstance.dev/operator/demand/settings"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// everything is a block in which every field is set.
func everything() (*infrav1.DemandSettings, *nstancev1.DemandSettings) {
	of := func(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }
	spend, saving := resource.MustParse("12.5"), resource.MustParse("0.2")
	kube := &infrav1.DemandSettings{
		Min: ptr.To[int32](1), Max: ptr.To[int32](40), MinIdle: ptr.To[int32](2), Weight: ptr.To[int32](3),
		CapacityTypes: []infrav1.CapacityType{infrav1.CapacitySpot}, Configure: infrav1.ConfigureAgent,
		ReleaseHold: of(time.Second), ScaleDownDelay: of(2 * time.Second), MinLifetime: of(0), JoinDeadline: of(time.Minute),
		AfterDrain: infrav1.AfterDrainIdle, OnDrainTimeout: infrav1.DrainTimeoutForce,
		Limits: &infrav1.DemandLimits{
			VCPU: ptr.To[infrav1.LimitAmount](64), MemoryGiB: ptr.To[infrav1.LimitAmount](256), GPU: map[string]infrav1.LimitAmount{"nvidia.com/gpu": 8}, HourlySpend: &spend,
		},
		Reservations:  []infrav1.Reservation{{ID: "cr-1", InstanceType: "large", Zone: "z", Count: 3}},
		Disruption:    []infrav1.DisruptionBudget{{Nodes: "10%", Reasons: []infrav1.DisruptionReason{"empty"}, Schedule: "0 9 * * *", Duration: of(time.Hour)}},
		Consolidation: &infrav1.Consolidation{Enabled: true, MinSaving: &saving},
	}
	wire := &nstancev1.DemandSettings{
		Min: proto.Int32(1), Max: proto.Int32(40), MinIdle: proto.Int32(2), Weight: proto.Int32(3),
		CapacityTypes: &nstancev1.StringList{Values: []string{"spot"}}, Configure: proto.String("agent"),
		ReleaseHold: durationpb.New(time.Second), ScaleDownDelay: durationpb.New(2 * time.Second), MinLifetime: durationpb.New(0), JoinDeadline: durationpb.New(time.Minute),
		AfterDrain: proto.String("idle"), OnDrainTimeout: proto.String("force"),
		Limits: &nstancev1.DemandLimits{
			Vcpu: proto.Int64(64), MemoryGib: proto.Int64(256), Gpu: map[string]int64{"nvidia.com/gpu": 8}, HourlySpendMicroUsd: proto.Int64(12_500_000),
		},
		Reservations:  []*nstancev1.Reservation{{Id: "cr-1", InstanceType: "large", Zone: "z", Count: 3}},
		Disruption:    []*nstancev1.DisruptionBudget{{Nodes: "10%", Reasons: []string{"empty"}, Schedule: "0 9 * * *", Duration: durationpb.New(time.Hour)}},
		Consolidation: &nstancev1.Consolidation{Enabled: true, MinSavingPpm: proto.Int32(200_000)},
	}
	return kube, wire
}

func TestABlockGoesToAServerAndBack(t *testing.T) {
	kube, wire := everything()
	if diff := cmp.Diff(wire, settings.ToServer(kube), protocmp.Transform()); diff != "" {
		t.Errorf("to the server:\n%s", diff)
	}
	if back := settings.FromServer(wire); !equality.Semantic.DeepEqual(kube, back) {
		t.Errorf("back: %+v, want %+v", back, kube)
	}
	fields := wire.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		if !wire.ProtoReflect().Has(fields.Get(i)) {
			t.Errorf("field %s is not in the test", fields.Get(i).Name())
		}
	}
	if settings.ToServer(nil) != nil || settings.FromServer(nil) != nil {
		t.Error("no block is a block")
	}
	empty := settings.ToServer(&infrav1.DemandSettings{})
	if !proto.Equal(empty, &nstancev1.DemandSettings{}) {
		t.Errorf("an empty block says %v", empty)
	}
}

func TestRequirementsGoToAServerAndBack(t *testing.T) {
	kube := &infrav1.InstanceRequirements{
		Arch: []string{"arm64"}, VCPU: &infrav1.AmountRange{Min: ptr.To[int64](2)}, MemoryGiB: &infrav1.AmountRange{Max: ptr.To[int64](64)},
		GPU:        &infrav1.GPURequirements{Names: []string{"a10"}, Count: &infrav1.AmountRange{Min: ptr.To[int64](1), Max: ptr.To[int64](2)}, MemoryGiB: &infrav1.AmountRange{Min: ptr.To[int64](24)}},
		FamiliesIn: []string{"m7g"}, FamiliesOut: []string{"t4g"},
	}
	wire := settings.RequirementsToServer(kube)
	if wire.GetVcpu().GetMin() != 2 || wire.GetVcpu().Max != nil || wire.GetGpu().GetCount().GetMax() != 2 {
		t.Errorf("got %v", wire)
	}
	if diff := cmp.Diff(kube, settings.RequirementsFromServer(wire)); diff != "" {
		t.Error(diff)
	}
}

func TestSame(t *testing.T) {
	_, all := everything()
	other := proto.CloneOf(all)
	other.Max = proto.Int32(41)
	none := &nstancev1.DemandSettings{CapacityTypes: &nstancev1.StringList{}, Consolidation: &nstancev1.Consolidation{}}
	for name, c := range map[string]struct {
		a, b *nstancev1.DemandSettings
		want bool
	}{
		"the same":                  {all, proto.CloneOf(all), true},
		"another bound":             {all, other, false},
		"nothing and what says so":  {nil, none, true},
		"nothing and a bound":       {nil, &nstancev1.DemandSettings{Min: proto.Int32(0)}, false},
		"a bound that is not there": {&nstancev1.DemandSettings{Max: proto.Int32(1)}, &nstancev1.DemandSettings{}, false},
	} {
		if got := settings.Same(c.a, c.b); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestAShareHasOtherBoundsAndAllElse(t *testing.T) {
	pool, _ := everything()
	b := settings.BoundsOf(pool)
	want := map[planner.Bound]int64{
		planner.Machines: 40, "limits.vcpu": 64, "limits.memoryGiB": 256, "limits.gpu[nvidia.com/gpu]": 8, "limits.hourlySpend": 12_500_000,
	}
	if diff := cmp.Diff(planner.Bounds{Min: 1, MinIdle: 2, Most: want}, b); diff != "" {
		t.Fatal(diff)
	}
	if same := settings.Share(pool, b); !equality.Semantic.DeepEqual(same, pool) {
		t.Errorf("the whole as a share is %+v", same)
	}
	half := planner.Bounds{MinIdle: 1, Most: map[planner.Bound]int64{planner.Machines: 20, "limits.gpu[nvidia.com/gpu]": 4}}
	share := settings.Share(pool, half)
	if diff := cmp.Diff(half, settings.BoundsOf(share)); diff != "" {
		t.Error(diff)
	}
	if *share.Min != 0 || share.Configure != pool.Configure || len(share.Reservations) != 1 || *pool.Max != 40 || pool.Limits.GPU["nvidia.com/gpu"] != 8 {
		t.Errorf("share %+v of %+v", share, pool)
	}
	if plain := settings.Share(&infrav1.DemandSettings{}, planner.Bounds{}); plain.Min != nil || plain.MinIdle != nil || plain.Max != nil || plain.Limits != nil {
		t.Errorf("a share of nothing says %+v", plain)
	}
}

func TestSum(t *testing.T) {
	a := &infrav1.DemandSettings{Min: ptr.To[int32](1), Max: ptr.To[int32](4), Limits: &infrav1.DemandLimits{VCPU: ptr.To[infrav1.LimitAmount](8)}}
	b := &infrav1.DemandSettings{MinIdle: ptr.To[int32](2), Max: ptr.To[int32](3)}
	want := planner.Bounds{Min: 1, MinIdle: 2, Most: map[planner.Bound]int64{planner.Machines: 7}} // b has no limit of processors
	if diff := cmp.Diff(want, settings.BoundsOf(settings.Sum([]*infrav1.DemandSettings{a, b}))); diff != "" {
		t.Error(diff)
	}
}

func TestUsed(t *testing.T) {
	of := planner.Bounds{Most: map[planner.Bound]int64{"limits.gpu[nvidia.com/gpu]": 8}}
	want := map[planner.Bound]int64{
		planner.Machines: 3, "limits.vcpu": 6, "limits.memoryGiB": 12, "limits.hourlySpend": 300_000, "limits.gpu[nvidia.com/gpu]": 2,
	}
	usage := &nstancev1.DemandUsage{Machines: 3, Vcpu: 6, MemoryGib: 12, HourlyMicroUsd: 300_000, Gpu: map[string]int64{"nvidia.com/gpu": 2, "amd.com/gpu": 1}}
	if diff := cmp.Diff(want, settings.Used(usage, of)); diff != "" {
		t.Error(diff)
	}
	if settings.Used(nil, of) != nil {
		t.Error("what nobody said is known")
	}
}
