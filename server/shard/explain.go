package shard

import (
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/cache"
	"nstance.dev/server/decisions"
	"nstance.dev/server/fleet"
	"nstance.dev/server/refusal"
)

// Explain says what the server thinks of a group of the tenant, or of one of its
// instances: conditions, the last decisions, and what would be next. That is the
// decision of this moment, made as the loop makes it, so the next pass does just
// that if nothing happens before. It changes nothing.
func (r *Reign) Explain(tenant string, req *nstancev1.ExplainRequest) (*nstancev1.ExplainResponse, error) {
	switch target := req.Target.(type) {
	case *nstancev1.ExplainRequest_Group:
		if err := identity.ValidateName(target.Group); err != nil {
			return nil, refusal.New(refusal.InvalidArgument, "INVALID_KEY", "group: %v", err)
		}
		id := fleet.GroupID{Tenant: tenant, Name: target.Group}
		if _, ok := r.wanted.any(id); !ok {
			return nil, errUnknown("group", target.Group)
		}
		return r.explain(id), nil
	case *nstancev1.ExplainRequest_InstanceId:
		in, err := r.owned(tenant, target.InstanceId)
		if err != nil {
			return nil, err
		}
		return r.explainInstance(in), nil
	default:
		return nil, refusal.New(refusal.InvalidArgument, "INVALID_FIELD", "target: name a group or an instance")
	}
}

// explain covers a whole group.
func (r *Reign) explain(group fleet.GroupID) *nstancev1.ExplainResponse {
	w := r.weigh(group, r.now())
	out := &nstancev1.ExplainResponse{Group: &nstancev1.GroupStatus{Key: group.Name, Tenant: group.Tenant, Deleting: true}}
	if eff, ok := r.wanted.any(group); ok {
		out.Group = r.groupStatus(group, eff)
	}
	conditions := decisions.Track(r.standings.of(group).conditions, w.conditions(), w.at)
	out.Conditions = conditionList(conditions)
	out.Group.Conditions = conditionList(ofGroup(conditions))
	for _, d := range slices.Backward(r.cache.Decisions(group)) {
		out.Decisions = append(out.Decisions, decisionStatus(d))
	}
	for _, d := range w.verdict.Shown {
		out.Next = append(out.Next, decisionStatus(d))
	}
	return out
}

// explainInstance covers one instance and, of its group, what is about no other
// instance.
func (r *Reign) explainInstance(in cache.Instance) *nstancev1.ExplainResponse {
	out := r.explain(in.Group)
	out.Instance = r.instanceStatus(in)
	id := in.ID.String()
	out.Conditions = slices.DeleteFunc(out.Conditions, func(c *nstancev1.Condition) bool {
		return c.InstanceId != "" && c.InstanceId != id
	})
	out.Decisions = slices.DeleteFunc(out.Decisions, func(d *nstancev1.Decision) bool { return d.InstanceId != id })
	out.Next = slices.DeleteFunc(out.Next, func(d *nstancev1.Decision) bool {
		return d.InstanceId != "" && d.InstanceId != id
	})
	return out
}

// ofGroup leaves out the conditions of instances.
func ofGroup(all []decisions.Condition) []decisions.Condition {
	return slices.DeleteFunc(slices.Clone(all), func(c decisions.Condition) bool { return c.Instance != "" })
}

// conditionsOf are the conditions of a group as of its last pass.
func (r *Reign) conditionsOf(group fleet.GroupID) []*nstancev1.Condition {
	return conditionList(ofGroup(r.standings.of(group).conditions))
}

func conditionList(all []decisions.Condition) []*nstancev1.Condition {
	out := make([]*nstancev1.Condition, len(all))
	for i, c := range all {
		out[i] = &nstancev1.Condition{
			Type: c.Type, Message: c.Message, InstanceId: c.Instance.String(),
			Since: stamp(c.Since), Until: stamp(c.Until),
		}
	}
	return out
}

// decisionStatus is a decision in the words of the API.
func decisionStatus(d decisions.Decision) *nstancev1.Decision {
	return &nstancev1.Decision{
		Time: stamp(d.At), Action: d.Action, InstanceId: d.Instance.String(), Reason: d.Why(),
		HeldBy: heldBy(d), NotBefore: stamp(d.NotBefore),
	}
}

// heldBy is the kind of what holds a decision back, followed by its words.
func heldBy(d decisions.Decision) string {
	if !d.Held() {
		return ""
	}
	return string(d.By) + ": " + d.HeldBy
}

// stamp is a moment in the words of the API, nil for the zero time.
func stamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
