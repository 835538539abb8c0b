package shard

import (
	"slices"
	"time"

	"nstance.dev/server/cache"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/decisions"
	"nstance.dev/server/explain"
	"nstance.dev/server/fleet"
	"nstance.dev/server/status"
)

// Explanation is what the server thinks of a group, or of one of its instances.
type Explanation struct {
	Group      status.Group     // with the conditions that are of no instance
	Instance   *status.Instance // nil: it is of the whole group
	Conditions []explain.Condition
	Decisions  []explain.Decision // carried out or shown last, the newest first
	Next       []explain.Decision // of this moment
}

// ExplainGroup says what the server thinks of a group of the tenant: conditions, the last
// decisions, and what would be next. That is the decision of this moment, made as the loop
// makes it, so the next pass does just that if nothing happens before. It changes nothing.
func (r *Requests) ExplainGroup(tenant, key string) (Explanation, error) {
	id, err := groupID(tenant, key, "group")
	if err != nil {
		return Explanation{}, err
	}
	if _, ok := r.groups.Find(id); !ok {
		return Explanation{}, errUnknown("group", key)
	}
	return r.explain(id), nil
}

// ExplainInstance is [Requests.ExplainGroup] for one instance of the tenant and, of its group,
// what is about no other instance.
func (r *Requests) ExplainInstance(tenant, id string) (Explanation, error) {
	in, err := r.status.FindInstance(tenant, id)
	if err != nil {
		return Explanation{}, err
	}
	out, st := r.explain(in.Group), r.status.Detailed(in)
	out.Instance = &st
	out.Conditions = slices.DeleteFunc(slices.Clone(out.Conditions), func(c explain.Condition) bool {
		return c.Instance != "" && c.Instance != in.ID
	})
	out.Decisions = slices.DeleteFunc(out.Decisions, func(d explain.Decision) bool { return d.Instance != in.ID })
	out.Next = slices.DeleteFunc(out.Next, func(d explain.Decision) bool {
		return d.Instance != "" && d.Instance != in.ID
	})
	return out, nil
}

// explain covers a whole group.
func (r *Requests) explain(group fleet.GroupID) Explanation {
	e := r.planner.evaluate(group, r.opts.Now())
	out := Explanation{Group: status.Group{Group: &effective.Group{Tenant: group.Tenant, Key: group.Name, Deleted: true}}}
	if g, ok := r.status.Group(group); ok {
		out.Group = *g
	}
	out.Conditions = explain.Track(r.status.Summaries.Of(group).Conditions, e.conditions(), e.at)
	out.Group.Conditions = status.OfGroup(out.Conditions)
	out.Decisions = slices.Clone(r.cache.Decisions(group))
	slices.Reverse(out.Decisions)
	out.Conditions = append(out.Conditions, missing(r.gaps(), out.Decisions)...)
	out.Next = slices.Clone(e.result.Shown)
	return out
}

// missing says since when decisions may be missing among those that are kept, the newest
// first: those before the oldest kept one would be forgotten anyway.
func missing(gaps []decisions.Gap, kept []explain.Decision) []explain.Condition {
	var all []explain.Condition
	for _, g := range gaps {
		if len(kept) == cache.MaxDecisions && kept[len(kept)-1].At.After(g.To) {
			continue
		}
		from := "before " + g.To.UTC().Format(time.RFC3339)
		if !g.From.IsZero() {
			from = "between " + g.From.UTC().Format(time.RFC3339) + " and " + g.To.UTC().Format(time.RFC3339)
		}
		all = append(all, explain.Condition{
			Type: explain.DecisionsMissing, Message: "decisions " + from + " may be missing: the leader of then ended without a hand-over", Since: g.To,
		})
	}
	return all
}
