package operatorapi

import (
	"context"
	"encoding/hex"

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
func (s *Service) GetDemand(ctx context.Context, req *nstancev1.GetDemandRequest) (*nstancev1.GetDemandResponse, error) {
	c := CallerOf(ctx)
	p, begun, err := c.Term.InspectDemand(ctx, c.Tenant, req.Need)
	switch {
	case err != nil:
		return nil, refusal.ErrTermOver
	case !begun:
		return nil, errNoDemand
	case req.Need != "" && len(p.Needs) == 0:
		return nil, refusal.New(refusal.NotFound, "NOT_FOUND", "need: the cluster has none whose id begins with %.40q; demand needs lists them", req.Need)
	case req.Need != "" && p.Explained == nil:
		return nil, refusal.New(refusal.InvalidArgument, "INVALID_FIELD", "need: the ids of %d needs begin with %.40q; give more of it", len(p.Needs), req.Need)
	}
	return demandOf(p), nil
}

func demandOf(p demandloop.Picture) *nstancev1.GetDemandResponse {
	out := &nstancev1.GetDemandResponse{Connected: p.Connected, Explanation: explanationOf(p.Explained)}
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

func explanationOf(why *demand.Explained) *nstancev1.DemandExplanation {
	if why == nil {
		return nil
	}
	out := &nstancev1.DemandExplanation{Blocked: string(why.Blocked), BlockedUntil: stamp(why.Until), Idle: int32(why.Idle)}
	for _, o := range why.Offers {
		out.Offers = append(out.Offers, &nstancev1.DemandOffer{
			Name: o.Name, Group: o.Group, InstanceType: o.InstanceType, CapacityType: string(o.CapacityType), HourlyMicroUsd: o.PricePerHour,
			EffectiveMicroUsd: o.Effective, Units: o.Units, Free: o.Free, Reason: string(o.Reason), Detail: o.Detail, Until: stamp(o.Until),
		})
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
		out = append(out, r.String())
	}
	for _, a := range t.Alternatives {
		text := "or"
		for _, r := range a {
			text += " " + r.String()
		}
		out = append(out, text)
	}
	return out
}
