package operatorapi

import (
	"context"
	"encoding/hex"
	"fmt"

	"nstance.dev/protos/needs"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/demand"
	"nstance.dev/server/demand/match"
	"nstance.dev/server/demand/vector"
	"nstance.dev/server/demandloop"
	"nstance.dev/server/refusal"
)

// errNoDemand is what a shard says that has no demand mode.
var errNoDemand = refusal.New(refusal.FailedPrecondition, "NO_DEMAND_GROUP", "no group of this shard is of mode demand")

// GetDemand implements [nstancev1.OperatorServiceServer].
func (s *Service) GetDemand(ctx context.Context, _ *nstancev1.GetDemandRequest) (*nstancev1.GetDemandResponse, error) {
	c := CallerOf(ctx)
	p, begun, err := c.Term.InspectDemand(ctx, c.Tenant)
	switch {
	case err != nil:
		return nil, refusal.ErrTermOver
	case !begun:
		return nil, errNoDemand
	}
	return demandOf(p), nil
}

func demandOf(p demandloop.Picture) *nstancev1.GetDemandResponse {
	out := &nstancev1.GetDemandResponse{Connected: p.Connected}
	for _, n := range p.Needs {
		need := &nstancev1.DemandNeed{
			Id: hex.EncodeToString(n.Key[:]), Requirements: requirementTexts(n.Terms), Priority: n.Priority, Group: n.Group,
			Amounts: amountMap(n.Aggregate), MinUnit: amountMap(n.MinUnit), Missing: amountMap(n.Deficit), Reason: string(n.Reason),
		}
		if len(n.Deficit) > 0 {
			need.MissingSince = stamp(n.Since)
		}
		out.Needs = append(out.Needs, need)
	}
	for _, m := range p.Machines {
		out.Machines = append(out.Machines, &nstancev1.DemandMachine{
			InstanceId: m.ID, State: m.State.String(), Group: m.Group, InstanceType: m.InstanceType, CapacityType: string(m.CapacityType),
			HourlyMicroUsd: m.PricePerHour, Needs: int32(m.Needs), SurplusSince: stamp(m.Surplus), Fixed: m.Fixed, Leaving: m.Leaving,
		})
	}
	out.Planned = plannedList(p.Planned)
	for _, r := range p.Replacements {
		for _, id := range r.Replaced {
			out.Planned = append(out.Planned, &nstancev1.DemandDecision{
				Action: "replace", InstanceId: id, Reason: string(r.Reason), Disposition: r.Phase, Replacements: r.Bought,
			})
		}
	}
	return out
}

func plannedList(all []demand.Action) (out []*nstancev1.DemandDecision) {
	for _, a := range all {
		out = append(out, &nstancev1.DemandDecision{
			Action: a.Kind.String(), InstanceId: a.Machine, Offer: a.Offer, Reason: string(a.Reason), Disposition: a.Disposition.String(),
		})
	}
	return out
}

func amountMap(all []vector.Amount) map[string]int64 {
	out := make(map[string]int64, len(all))
	for _, a := range all {
		if a.Amount > 0 {
			out[a.Name] = a.Amount
		}
	}
	return out
}

// requirementTexts are requirements as people write them. Of alternatives each is one text.
func requirementTexts(t match.Terms) (out []string) {
	for _, r := range t.Requirements {
		out = append(out, requirementText(r))
	}
	for _, a := range t.Alternatives {
		text := "or"
		for _, r := range a {
			text += " " + requirementText(r)
		}
		out = append(out, text)
	}
	return out
}

func requirementText(r match.Requirement) string {
	if len(r.Values) == 0 {
		return fmt.Sprintf("%s %s", r.Key, needs.Operator(r.Op))
	}
	return fmt.Sprintf("%s %s %v", r.Key, needs.Operator(r.Op), r.Values)
}
