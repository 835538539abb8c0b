package operatorapi

import (
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/explain"
	"nstance.dev/server/refusal"
	"nstance.dev/server/shard"
)

// Explain is [shard.Requests.ExplainGroup] or [shard.Requests.ExplainInstance].
func (l Leader) Explain(tenant string, req *nstancev1.ExplainRequest) (*nstancev1.ExplainResponse, error) {
	var why shard.Explanation
	var err error
	switch target := req.Target.(type) {
	case *nstancev1.ExplainRequest_Group:
		why, err = l.term.Requests().ExplainGroup(tenant, target.Group)
	case *nstancev1.ExplainRequest_InstanceId:
		why, err = l.term.Requests().ExplainInstance(tenant, target.InstanceId)
	default:
		err = refusal.New(refusal.InvalidArgument, "INVALID_FIELD", "target: name a group or an instance")
	}
	if err != nil {
		return nil, err
	}
	out := &nstancev1.ExplainResponse{
		Group: groupStatus(&why.Group), Conditions: conditionList(why.Conditions),
		Decisions: decisionList(why.Decisions), Next: decisionList(why.Next),
	}
	if why.Instance != nil {
		out.Instance = instanceStatus(why.Instance)
	}
	return out, nil
}

func conditionList(all []explain.Condition) []*nstancev1.Condition {
	out := make([]*nstancev1.Condition, len(all))
	for i, c := range all {
		out[i] = &nstancev1.Condition{
			Type: c.Type, Message: c.Message, InstanceId: c.Instance.String(),
			Since: stamp(c.Since), Until: stamp(c.Until),
		}
	}
	return out
}

func decisionList(all []explain.Decision) []*nstancev1.Decision {
	out := make([]*nstancev1.Decision, len(all))
	for i, d := range all {
		out[i] = &nstancev1.Decision{
			Time: stamp(d.At), Action: d.Action, InstanceId: d.Instance.String(), Reason: d.Why(),
			HeldBy: heldBy(d), NotBefore: stamp(d.NotBefore),
		}
	}
	return out
}

// heldBy is the kind of what holds a decision back, followed by its words.
func heldBy(d explain.Decision) string {
	if !d.Blocked() {
		return ""
	}
	return string(d.BlockedBy) + ": " + d.BlockedWhy
}
