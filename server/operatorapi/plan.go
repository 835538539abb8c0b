package operatorapi

import (
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/config/effective"
)

// PlanConfig is [shard.Requests.PlanConfig].
func (l Leader) PlanConfig(cfg *effective.Config) *nstancev1.PlanConfigResponse {
	plan := l.term.Requests().PlanConfig(cfg)
	out := &nstancev1.PlanConfigResponse{Warnings: plan.Warnings}
	for _, p := range plan.Groups {
		out.Groups = append(out.Groups, &nstancev1.GroupPlan{
			Tenant: p.Key.Tenant, Key: p.Key.Group, Change: p.Change, Creates: count32(p.Creates), Pushes: count32(p.Pushes),
			Rotations: count32(p.Rotations), Deletes: count32(p.Deletes), Causes: p.Causes,
		})
	}
	return out
}
