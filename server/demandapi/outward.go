package demandapi

import (
	"cmp"
	"math"
	"slices"
	"time"

	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
	"nstance.dev/server/demand/match"
	"nstance.dev/server/demand/vector"
	"nstance.dev/server/demandloop"
)

// outward is a message of the loop as the operator gets it.
func (s *session) outward(m demandloop.Message) *demandpb.ShardMessage {
	switch m := m.(type) {
	case demandloop.RollupAnswer:
		kind := demandpb.Acknowledgement_KIND_ROLLUP_ACCEPTED
		if m.Quarantined {
			kind = demandpb.Acknowledgement_KIND_ROLLUP_HELD
		}
		return s.ack(&demandpb.Acknowledgement{Kind: kind, RollupSequence: m.Sequence, Detail: m.Detail})
	case own:
		return s.ack(m.ack)
	case demandloop.BootstrapRequest:
		return &demandpb.ShardMessage{Kind: &demandpb.ShardMessage_BootstrapRequest{BootstrapRequest: &demandpb.BootstrapRequest{
			RequestId: m.Request, MachineId: m.Machine, InstanceType: m.InstanceType, Zone: m.Zone, CapacityType: string(m.CapacityType),
			Requirements: wireRequirements(m.Requirements), NodeLabels: m.Labels, Taints: wireTaints(m.Taints), StartupTaints: wireTaints(m.StartupTaints),
			Vars: m.Vars, DeadlineUnixMs: millis(m.Deadline),
		}}}
	case demandloop.ReclaimInstruction:
		return &demandpb.ShardMessage{Kind: &demandpb.ShardMessage_ReclaimInstruction{ReclaimInstruction: &demandpb.ReclaimInstruction{
			InstructionId: m.Instruction, Targets: []*demandpb.Target{{MachineId: m.Machine, NodeName: m.Node}},
			GracePeriodSeconds: int32(min((m.Grace+time.Second-1)/time.Second, math.MaxInt32)), PreemptorPriority: m.PreemptorPriority,
			Voluntary: m.Voluntary, Cancel: m.Cancel, Reason: m.Reason,
		}}}
	case demandloop.NodeState:
		return nodeState(m, 0)
	case demandloop.Capacity:
		return capacity(m)
	}
	return nil
}

// ack adds what every acknowledgement says.
func (s *session) ack(a *demandpb.Acknowledgement) *demandpb.ShardMessage {
	a.ShardEpoch, a.ServerTimeUnixMs = s.epoch, millis(s.service.opts.Now())
	return &demandpb.ShardMessage{Kind: &demandpb.ShardMessage_Ack{Ack: a}}
}

// nodeState is the state of a machine, as part of a snapshot unless that is 0.
func nodeState(m demandloop.NodeState, snapshot uint64) *demandpb.ShardMessage {
	return &demandpb.ShardMessage{Kind: &demandpb.ShardMessage_NodeStateUpdate{NodeStateUpdate: &demandpb.NodeStateUpdate{
		SupersedesKey: m.Key(), MachineId: m.Machine, State: demandpb.MachineState(m.State), StateSeq: m.Seq, ProviderId: m.ProviderID,
		NodeName: m.Node, LastError: m.LastError, Labels: m.Labels, Resources: wireAmounts(m.Resources), Taints: wireTaints(m.Taints),
		StartupTaints: wireTaints(m.StartupTaints), InstanceType: m.InstanceType, Zone: m.Zone, CapacityType: string(m.CapacityType), SnapshotId: snapshot,
	}}}
}

func capacity(m demandloop.Capacity) *demandpb.ShardMessage {
	u := &demandpb.AvailableCapacityUpdate{SupersedesKey: m.Key(), Fingerprint: m.Fingerprint, Withdrawn: m.Withdrawn}
	if !m.Withdrawn {
		u.Requirements, u.Confidence = wireRequirements(m.Terms.Requirements), demandpb.Confidence(m.Confidence)
		u.AvailableCount, u.CostMicroUsdPerHour = m.Available, m.CostMicroUSD
		u.Shortfall, u.ShortfallSinceUnixMs, u.ShortfallReason = wireAmounts(m.Shortfall), millis(m.Since), string(m.Reason)
		for _, t := range m.Terms.Tolerations {
			u.Tolerations = append(u.Tolerations, &demandpb.Toleration{Key: t.Key, Exists: t.Exists, Value: t.Value, Effect: demandpb.TaintEffect(t.Effect)})
		}
		for _, a := range m.Terms.Alternatives {
			u.Alternatives = append(u.Alternatives, &demandpb.Alternative{Requirements: wireRequirements(a)})
		}
	}
	return &demandpb.ShardMessage{Kind: &demandpb.ShardMessage_AvailableCapacity{AvailableCapacity: u}}
}

// wireRequirements are requirements in the numbers of the contract, which leaves 0 out.
func wireRequirements(list []match.Requirement) (all []*demandpb.NodeSelectorRequirement) {
	for _, r := range list {
		all = append(all, &demandpb.NodeSelectorRequirement{Key: r.Key, Operator: demandpb.Operator(r.Op) + 1, Values: r.Values})
	}
	return all
}

func wireTaints(list []match.Taint) (all []*demandpb.Taint) {
	for _, t := range list {
		all = append(all, &demandpb.Taint{Key: t.Key, Value: t.Value, Effect: demandpb.TaintEffect(t.Effect)})
	}
	return all
}

// wireAmounts are amounts by name; what is nothing is left out.
func wireAmounts(list []vector.Amount) (all []*demandpb.ResourceAmount) {
	for _, a := range list {
		if a.Amount > 0 {
			all = append(all, &demandpb.ResourceAmount{Name: a.Name, Amount: a.Amount})
		}
	}
	slices.SortFunc(all, func(a, b *demandpb.ResourceAmount) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

func millis(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.UnixMilli()
}
