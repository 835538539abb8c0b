// Package settings turns the settings of demand pools into what servers are told, and back, and
// into the numbers that are divided over shards.
//
// What is absent stays absent in both directions, so that the defaults are the servers'. Amounts of
// money are US dollars in the Kubernetes API and millionths of them on the wire; what is smaller is
// rounded up. A block without content is none.
//
// What a pool may hold is checked by its schema, and again by the servers; here nothing is. Everything
// is a function of its arguments and changes none of them.
package settings

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// ModeFixed and ModeDemand are the modes of a group on a server.
const (
	ModeFixed  = "fixed"
	ModeDemand = "demand"
)

// ToServer is a block as servers are told it; nil for none.
func ToServer(d *infrav1.DemandSettings) *nstancev1.DemandSettings {
	if d == nil {
		return nil
	}
	out := &nstancev1.DemandSettings{
		Min: ptrClone(d.Min), Max: ptrClone(d.Max), MinIdle: ptrClone(d.MinIdle), Weight: ptrClone(d.Weight),
		Configure: text(d.Configure), AfterDrain: text(d.AfterDrain), OnDrainTimeout: text(d.OnDrainTimeout),
		ReleaseHold: span(d.ReleaseHold), ScaleDownDelay: span(d.ScaleDownDelay), MinLifetime: span(d.MinLifetime), JoinDeadline: span(d.JoinDeadline),
		Limits: limitsToServer(d.Limits),
	}
	if d.CapacityTypes != nil {
		out.CapacityTypes = &nstancev1.StringList{Values: words(d.CapacityTypes)}
	}
	for _, r := range d.Reservations {
		out.Reservations = append(out.Reservations, &nstancev1.Reservation{Id: r.ID, InstanceType: r.InstanceType, Zone: r.Zone, Count: r.Count})
	}
	for _, b := range d.Disruption {
		out.Disruption = append(out.Disruption, &nstancev1.DisruptionBudget{
			Nodes: b.Nodes, Reasons: words(b.Reasons), Schedule: b.Schedule, Duration: span(b.Duration),
		})
	}
	if c := d.Consolidation; c != nil {
		out.Consolidation = &nstancev1.Consolidation{Enabled: c.Enabled}
		if c.MinSaving != nil {
			out.Consolidation.MinSavingPpm = proto.Int32(int32(c.MinSaving.ScaledValue(resource.Micro))) // at most a million
		}
	}
	return out
}

func limitsToServer(l *infrav1.DemandLimits) *nstancev1.DemandLimits {
	if l == nil || l.VCPU == nil && l.MemoryGiB == nil && len(l.GPU) == 0 && l.HourlySpend == nil {
		return nil
	}
	out := &nstancev1.DemandLimits{Vcpu: (*int64)(ptrClone(l.VCPU)), MemoryGib: (*int64)(ptrClone(l.MemoryGiB))}
	for name, n := range l.GPU {
		if out.Gpu == nil {
			out.Gpu = map[string]int64{}
		}
		out.Gpu[name] = int64(n)
	}
	if l.HourlySpend != nil {
		out.HourlySpendMicroUsd = proto.Int64(l.HourlySpend.ScaledValue(resource.Micro))
	}
	return out
}

// FromServer is a block that a server was told by its API; nil for none.
func FromServer(d *nstancev1.DemandSettings) *infrav1.DemandSettings {
	if d == nil {
		return nil
	}
	out := &infrav1.DemandSettings{
		Min: ptrClone(d.Min), Max: ptrClone(d.Max), MinIdle: ptrClone(d.MinIdle), Weight: ptrClone(d.Weight),
		Configure:  infrav1.DemandConfigure(d.GetConfigure()),
		AfterDrain: infrav1.DemandAfterDrain(d.GetAfterDrain()), OnDrainTimeout: infrav1.DemandDrainTimeout(d.GetOnDrainTimeout()),
		ReleaseHold: period(d.ReleaseHold), ScaleDownDelay: period(d.ScaleDownDelay), MinLifetime: period(d.MinLifetime), JoinDeadline: period(d.JoinDeadline),
	}
	for _, t := range d.GetCapacityTypes().GetValues() {
		out.CapacityTypes = append(out.CapacityTypes, infrav1.CapacityType(t))
	}
	if l := d.Limits; l != nil {
		out.Limits = &infrav1.DemandLimits{VCPU: (*infrav1.LimitAmount)(ptrClone(l.Vcpu)), MemoryGiB: (*infrav1.LimitAmount)(ptrClone(l.MemoryGib))}
		for name, n := range l.Gpu {
			if out.Limits.GPU == nil {
				out.Limits.GPU = map[string]infrav1.LimitAmount{}
			}
			out.Limits.GPU[name] = infrav1.LimitAmount(n)
		}
		if l.HourlySpendMicroUsd != nil {
			out.Limits.HourlySpend = Dollars(l.GetHourlySpendMicroUsd())
		}
	}
	for _, r := range d.Reservations {
		out.Reservations = append(out.Reservations, infrav1.Reservation{ID: r.GetId(), InstanceType: r.GetInstanceType(), Zone: r.GetZone(), Count: r.GetCount()})
	}
	for _, b := range d.Disruption {
		budget := infrav1.DisruptionBudget{Nodes: b.GetNodes(), Schedule: b.GetSchedule(), Duration: period(b.GetDuration())}
		for _, reason := range b.GetReasons() {
			budget.Reasons = append(budget.Reasons, infrav1.DisruptionReason(reason))
		}
		out.Disruption = append(out.Disruption, budget)
	}
	if c := d.Consolidation; c != nil {
		out.Consolidation = &infrav1.Consolidation{Enabled: c.GetEnabled()}
		if c.MinSavingPpm != nil {
			out.Consolidation.MinSaving = Dollars(int64(c.GetMinSavingPpm()))
		}
	}
	return out
}

// RequirementsToServer are requirements as servers are told them; nil for none.
func RequirementsToServer(r *infrav1.InstanceRequirements) *nstancev1.InstanceRequirements {
	if r == nil {
		return nil
	}
	out := &nstancev1.InstanceRequirements{
		Arch: slices.Clone(r.Arch), Vcpu: between(r.VCPU), MemoryGib: between(r.MemoryGiB),
		FamiliesIn: slices.Clone(r.FamiliesIn), FamiliesOut: slices.Clone(r.FamiliesOut),
	}
	if g := r.GPU; g != nil {
		out.Gpu = &nstancev1.GpuRequirements{Names: slices.Clone(g.Names), Count: between(g.Count), MemoryGib: between(g.MemoryGiB)}
	}
	return out
}

// RequirementsFromServer are requirements that a server has; nil for none.
func RequirementsFromServer(r *nstancev1.InstanceRequirements) *infrav1.InstanceRequirements {
	if r == nil {
		return nil
	}
	out := &infrav1.InstanceRequirements{
		Arch: slices.Clone(r.Arch), VCPU: interval(r.Vcpu), MemoryGiB: interval(r.MemoryGib),
		FamiliesIn: slices.Clone(r.FamiliesIn), FamiliesOut: slices.Clone(r.FamiliesOut),
	}
	if g := r.Gpu; g != nil {
		out.GPU = &infrav1.GPURequirements{Names: slices.Clone(g.Names), Count: interval(g.Count), MemoryGiB: interval(g.MemoryGib)}
	}
	return out
}

// Same reports whether a server that has been told one block needs not be told another one. An empty
// list is none.
func Same(a, b *nstancev1.DemandSettings) bool { return proto.Equal(plain(a), plain(b)) }

// SameRequirements reports the same of requirements.
func SameRequirements(a, b *nstancev1.InstanceRequirements) bool {
	return proto.Equal(a, b)
}

// plain is a block without what says nothing.
func plain(d *nstancev1.DemandSettings) *nstancev1.DemandSettings {
	if d == nil {
		return &nstancev1.DemandSettings{}
	}
	d = proto.CloneOf(d)
	if len(d.GetCapacityTypes().GetValues()) == 0 {
		d.CapacityTypes = nil
	}
	if c := d.GetConsolidation(); c != nil && !c.GetEnabled() && c.MinSavingPpm == nil {
		d.Consolidation = nil
	}
	return d
}

// Dollars is an amount in millionths as a quantity.
func Dollars(millionths int64) *resource.Quantity {
	return resource.NewScaledQuantity(millionths, resource.Micro)
}

func between(r *infrav1.AmountRange) *nstancev1.Range {
	if r == nil {
		return nil
	}
	return &nstancev1.Range{Min: ptrClone(r.Min), Max: ptrClone(r.Max)}
}

func interval(r *nstancev1.Range) *infrav1.AmountRange {
	if r == nil {
		return nil
	}
	return &infrav1.AmountRange{Min: ptrClone(r.Min), Max: ptrClone(r.Max)}
}

func span(d *metav1.Duration) *durationpb.Duration {
	if d == nil {
		return nil
	}
	return durationpb.New(d.Duration)
}

func period(d *durationpb.Duration) *metav1.Duration {
	if d == nil {
		return nil
	}
	return &metav1.Duration{Duration: d.AsDuration().Round(time.Nanosecond)}
}

func text[S ~string](s S) *string {
	if s == "" {
		return nil
	}
	return ptr.To(string(s))
}

func words[S ~string](list []S) []string {
	var out []string
	for _, word := range list {
		out = append(out, string(word))
	}
	return out
}

func ptrClone[T any](p *T) *T {
	if p == nil {
		return nil
	}
	return ptr.To(*p)
}
