package operatorapi

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/config/requests"
	"nstance.dev/server/status"
)

// What follows turns the blocks of groups of mode demand from messages into those of the
// configuration, and back. Absent stays absent, so that defaults are filled in at one place.

// changeDemand adds what a message says of mode demand to a change. An error is of a value that
// has no form in the configuration.
func changeDemand(change *requests.GroupChange, c *nstancev1.GroupConfig) (err error) {
	change.Mode = c.GetMode()
	change.Requirements = requirementsFrom(c.GetInstanceRequirements())
	change.Node = nodeFrom(c.GetNode())
	change.Demand, err = demandFrom(c.GetDemand())
	return err
}

func demandFrom(d *nstancev1.DemandSettings) (*document.Demand, error) {
	if d == nil {
		return nil, nil
	}
	out := &document.Demand{
		Min: intFrom(d.Min), Max: intFrom(d.Max), MinIdle: intFrom(d.MinIdle), Weight: intFrom(d.Weight),
		Configure: d.GetConfigure(), AfterDrain: d.GetAfterDrain(), OnDrainTimeout: d.GetOnDrainTimeout(),
	}
	if d.CapacityTypes != nil {
		out.CapacityTypes = append([]string{}, d.CapacityTypes.Values...)
	}
	for _, span := range []struct {
		name string
		from *durationpb.Duration
		into **document.Duration
	}{
		{"release_hold", d.ReleaseHold, &out.ReleaseHold}, {"scale_down_delay", d.ScaleDownDelay, &out.ScaleDownDelay},
		{"min_lifetime", d.MinLifetime, &out.MinLifetime}, {"join_deadline", d.JoinDeadline, &out.JoinDeadline},
	} {
		if span.from == nil {
			continue
		}
		value, err := durationFrom("demand."+span.name, span.from)
		if err != nil {
			return nil, err
		}
		*span.into = &value
	}
	if l := d.Limits; l != nil {
		out.Limits = &document.DemandLimits{VCPU: l.Vcpu, MemoryGiB: l.MemoryGib, GPU: l.Gpu}
		if spend := l.HourlySpendMicroUsd; spend != nil {
			if *spend < 0 {
				return nil, &groupfile.InvalidError{Field: "demand.limits.hourly_spend_micro_usd", Msg: "a negative amount"}
			}
			usd := document.USD(*spend)
			out.Limits.HourlySpend = &usd
		}
	}
	for _, r := range d.Reservations {
		out.Reservations = append(out.Reservations, document.Reservation{ID: r.Id, InstanceType: r.InstanceType, Zone: r.Zone, Count: int(r.Count)})
	}
	for i, b := range d.Disruption {
		budget, err := budgetFrom(fmt.Sprintf("demand.disruption[%d]", i), b)
		if err != nil {
			return nil, err
		}
		out.Disruption = append(out.Disruption, budget)
	}
	if c := d.Consolidation; c != nil {
		out.Consolidation = &document.Consolidation{Enabled: c.Enabled}
		if saving := c.MinSavingPpm; saving != nil {
			if *saving < 0 || *saving > 1_000_000 {
				return nil, &groupfile.InvalidError{Field: "demand.consolidation.min_saving_ppm", Msg: "not from 0 to 1000000"}
			}
			share := document.Fraction(*saving)
			out.Consolidation.MinSaving = &share
		}
	}
	return out, nil
}

func budgetFrom(field string, b *nstancev1.DisruptionBudget) (out document.DisruptionBudget, err error) {
	out = document.DisruptionBudget{Reasons: b.Reasons, Schedule: b.Schedule}
	if err := out.Nodes.UnmarshalJSON([]byte(b.Nodes)); err != nil {
		return out, &groupfile.InvalidError{Field: field + ".nodes", Msg: err.Error() + "; " + out.Nodes.Remedy()}
	}
	if b.Duration != nil {
		out.Duration, err = durationFrom(field+".duration", b.Duration)
	}
	return out, err
}

func durationFrom(field string, d *durationpb.Duration) (document.Duration, error) {
	if err := d.CheckValid(); err != nil || d.AsDuration() < 0 {
		return 0, &groupfile.InvalidError{Field: field, Msg: "not a duration that can be waited for"}
	}
	return document.Duration(d.AsDuration()), nil
}

func intFrom(n *int32) *int {
	if n == nil {
		return nil
	}
	value := int(*n)
	return &value
}

func requirementsFrom(r *nstancev1.InstanceRequirements) *document.InstanceRequirements {
	if r == nil {
		return nil
	}
	out := &document.InstanceRequirements{
		Arch: r.Arch, VCPU: rangeFrom(r.Vcpu), MemoryGiB: rangeFrom(r.MemoryGib), FamiliesIn: r.FamiliesIn, FamiliesOut: r.FamiliesOut,
	}
	if g := r.Gpu; g != nil {
		out.GPU = &document.GPURequirements{Names: g.Names, Count: rangeFrom(g.Count), MemoryGiB: rangeFrom(g.MemoryGib)}
	}
	return out
}

func rangeFrom(r *nstancev1.Range) *document.Range {
	if r == nil {
		return nil
	}
	return &document.Range{Min: r.Min, Max: r.Max}
}

func nodeFrom(n *nstancev1.NodeSettings) *document.Node {
	if n == nil {
		return nil
	}
	out := &document.Node{Labels: n.Labels, Taints: taintsFrom(n.Taints), StartupTaints: taintsFrom(n.StartupTaints)}
	for name, amount := range n.Reserved {
		if out.Reserved == nil {
			out.Reserved = map[string]document.Quantity{}
		}
		out.Reserved[name] = document.Quantity(amount)
	}
	if n.MaxPods != 0 {
		most := int(n.MaxPods)
		out.MaxPods = &most
	}
	return out
}

func taintsFrom(list []*nstancev1.NodeTaint) []document.Taint {
	var out []document.Taint
	for _, t := range list {
		out = append(out, document.Taint{Key: t.Key, Value: t.Value, Effect: t.Effect})
	}
	return out
}

// demandSettings is a block as a message; nil for none.
func demandSettings(d *document.Demand) *nstancev1.DemandSettings {
	if d == nil {
		return nil
	}
	out := &nstancev1.DemandSettings{
		Min: int32Of(d.Min), MinIdle: int32Of(d.MinIdle), Weight: int32Of(d.Weight),
		ReleaseHold: durationOf(d.ReleaseHold), ScaleDownDelay: durationOf(d.ScaleDownDelay), MinLifetime: durationOf(d.MinLifetime), JoinDeadline: durationOf(d.JoinDeadline),
		Configure: textOf(d.Configure), AfterDrain: textOf(d.AfterDrain), OnDrainTimeout: textOf(d.OnDrainTimeout),
	}
	if d.Max != nil && *d.Max != document.NoMax {
		out.Max = int32Of(d.Max)
	}
	if d.CapacityTypes != nil {
		out.CapacityTypes = &nstancev1.StringList{Values: d.CapacityTypes}
	}
	if l := d.Limits; l != nil && (l.VCPU != nil || l.MemoryGiB != nil || len(l.GPU) > 0 || l.HourlySpend != nil) {
		out.Limits = &nstancev1.DemandLimits{Vcpu: l.VCPU, MemoryGib: l.MemoryGiB, Gpu: l.GPU}
		if l.HourlySpend != nil {
			out.Limits.HourlySpendMicroUsd = proto.Int64(int64(*l.HourlySpend))
		}
	}
	for _, r := range d.Reservations {
		out.Reservations = append(out.Reservations, &nstancev1.Reservation{Id: r.ID, InstanceType: r.InstanceType, Zone: r.Zone, Count: count32(r.Count)})
	}
	for _, b := range d.Disruption {
		budget := &nstancev1.DisruptionBudget{Nodes: b.Nodes.String(), Reasons: b.Reasons, Schedule: b.Schedule}
		if b.Duration != 0 {
			budget.Duration = durationpb.New(b.Duration.Std())
		}
		out.Disruption = append(out.Disruption, budget)
	}
	if c := d.Consolidation; c != nil {
		out.Consolidation = &nstancev1.Consolidation{Enabled: c.Enabled}
		if c.MinSaving != nil {
			out.Consolidation.MinSavingPpm = proto.Int32(int32(*c.MinSaving))
		}
	}
	return out
}

// demandUsage is what machines take as a message; nil for what is not known.
func demandUsage(u *status.Usage) *nstancev1.DemandUsage {
	if u == nil {
		return nil
	}
	return &nstancev1.DemandUsage{
		Machines: count32(int(u.Machines)), Idle: count32(int(u.Idle)), Vcpu: u.VCPU, MemoryGib: u.MemoryGiB, Gpu: u.GPUs,
		HourlyMicroUsd: u.HourlyMicroUSD, Full: u.Full, Shortfalls: count32(u.Shortfalls),
	}
}

func requirements(r *document.InstanceRequirements) *nstancev1.InstanceRequirements {
	if r == nil {
		return nil
	}
	out := &nstancev1.InstanceRequirements{
		Arch: r.Arch, Vcpu: rangeOf(r.VCPU), MemoryGib: rangeOf(r.MemoryGiB), FamiliesIn: r.FamiliesIn, FamiliesOut: r.FamiliesOut,
	}
	if g := r.GPU; g != nil {
		out.Gpu = &nstancev1.GpuRequirements{Names: g.Names, Count: rangeOf(g.Count), MemoryGib: rangeOf(g.MemoryGiB)}
	}
	return out
}

func rangeOf(r *document.Range) *nstancev1.Range {
	if r == nil {
		return nil
	}
	return &nstancev1.Range{Min: r.Min, Max: r.Max}
}

// nodeSettings is a block as a message; nil for one that says nothing.
func nodeSettings(n *document.Node) *nstancev1.NodeSettings {
	if n == nil || n.IsZero() {
		return nil
	}
	out := &nstancev1.NodeSettings{Labels: maps.Clone(n.Labels), Taints: taints(n.Taints), StartupTaints: taints(n.StartupTaints)}
	for _, name := range slices.Sorted(maps.Keys(n.Reserved)) {
		if out.Reserved == nil {
			out.Reserved = map[string]string{}
		}
		out.Reserved[name] = string(n.Reserved[name])
	}
	if n.MaxPods != nil {
		out.MaxPods = count32(*n.MaxPods)
	}
	return out
}

func taints(list []document.Taint) []*nstancev1.NodeTaint {
	var out []*nstancev1.NodeTaint
	for _, t := range list {
		out = append(out, &nstancev1.NodeTaint{Key: t.Key, Value: t.Value, Effect: t.Effect})
	}
	return out
}

func int32Of(n *int) *int32 {
	if n == nil {
		return nil
	}
	return proto.Int32(int32(min(*n, math.MaxInt32)))
}

func textOf(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func durationOf(d *document.Duration) *durationpb.Duration {
	if d == nil {
		return nil
	}
	return durationpb.New(d.Std())
}
