package rollup

import (
	"nstance.dev/protos/needs"
	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
)

// Encode returns a row as a message. Both share strings alone.
func Encode(r *needs.Row) *demandpb.CapacityNeed {
	p := &r.Profile
	m := &demandpb.CapacityNeed{
		Requirements:              encodeRequirements(p.Requirements),
		AggregateResources:        encodeAmounts(r.Aggregate),
		MinUnit:                   encodeAmounts(r.MinUnit),
		Priority:                  p.Priority,
		InterruptionPenaltyBucket: demandpb.PenaltyBucket(p.Interruption),
		ReclamationPenaltyBucket:  demandpb.PenaltyBucket(p.Reclamation),
		Group:                     r.Group,
		UnitClass:                 r.UnitClass,
		Tolerations:               encodeTolerations(p.Tolerations),
		AllOrNothing:              r.AllOrNothing,
		Stuck:                     r.Stuck,
		Alternatives:              encodeAlternatives(p.Alternatives),
	}
	for _, s := range p.Spread {
		m.Spread = append(m.Spread, &demandpb.TopologySpread{TopologyKey: s.TopologyKey, MaxSkew: s.MaxSkew})
	}
	return m
}

// EncodeOverhead returns an overhead as a message.
func EncodeOverhead(o needs.Overhead) *demandpb.NodeOverhead {
	return &demandpb.NodeOverhead{
		Requirements: encodeRequirements(o.Requirements),
		Alternatives: encodeAlternatives(o.Alternatives),
		Tolerations:  encodeTolerations(o.Tolerations),
		Resources:    encodeAmounts(o.Resources),
	}
}

func encodeRequirements(rs []needs.Requirement) []*demandpb.NodeSelectorRequirement {
	if len(rs) == 0 {
		return nil
	}
	all := make([]*demandpb.NodeSelectorRequirement, len(rs))
	for i, r := range rs {
		// On the wire 0 is unspecified.
		all[i] = &demandpb.NodeSelectorRequirement{Key: r.Key, Operator: demandpb.Operator(r.Operator) + 1, Values: r.Values}
	}
	return all
}

func encodeAlternatives(alternatives [][]needs.Requirement) []*demandpb.Alternative {
	if len(alternatives) == 0 {
		return nil
	}
	all := make([]*demandpb.Alternative, len(alternatives))
	for i, rs := range alternatives {
		all[i] = &demandpb.Alternative{Requirements: encodeRequirements(rs)}
	}
	return all
}

func encodeTolerations(ts []needs.Toleration) []*demandpb.Toleration {
	if len(ts) == 0 {
		return nil
	}
	all := make([]*demandpb.Toleration, len(ts))
	for i, t := range ts {
		all[i] = &demandpb.Toleration{Key: t.Key, Exists: t.Exists, Value: t.Value, Effect: demandpb.TaintEffect(t.Effect)}
	}
	return all
}

func encodeAmounts(amounts []needs.Amount) []*demandpb.ResourceAmount {
	if len(amounts) == 0 {
		return nil
	}
	all := make([]*demandpb.ResourceAmount, len(amounts))
	for i, a := range amounts {
		all[i] = &demandpb.ResourceAmount{Name: a.Name, Amount: a.Amount}
	}
	return all
}
