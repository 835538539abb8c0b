package hostsim_test

import (
	"testing"

	"nstance.dev/e2e/sim/mistaken"
)

// A mistake is a version of the controllers that breaks a promise. The simulator has to find each.
type mistake struct {
	name    string
	promise string // that is found broken
	edits   []mistaken.Edit
}

const (
	steps = "operator/controllers/hosts/versions/steps.go"
	locks = "operator/controllers/hosts/versions/lock.go"
	loop  = "operator/controllers/hosts/versions/reconciler.go"
	plans = "operator/hosts/versions/plan.go"
	state = "operator/hosts/versions/state.go"
	picks = "operator/hosts/selection/selection.go"

	chooser = "operator/controllers/hosts/selection/reconciler.go"
	watches = "operator/controllers/hosts/selection/setup.go"
)

var mistakes = []mistake{
	{"lock after publication", "M22", []mistaken.Edit{{locks, `		if err := r.patchStatus(ctx, next, v); err != nil {
			return Locked{}, err
		}
`, `		go func(next, v *hostsv1.MachineConfigurationVersion) { _ = r.patchStatus(ctx, next, v) }(next.DeepCopy(), v.DeepCopy())
`}}},
	{"number reused after deletion", "M24", []mistaken.Edit{
		{plans, `return Step{Reserve, s.Latest + 1, s.Template, fmt.Sprintf("the template changed, and`, `return Step{Reserve, own[0].Number + 1, s.Template, fmt.Sprintf("the template changed, and`},
		{steps, `		next.Status.LatestVersion = step.Number
`, `		next.Status.LatestVersion = max(next.Status.LatestVersion, step.Number)
`},
	}},
	{"edit lost in the race with a lock", "M27", []mistaken.Edit{
		{loop, `	if len(seen.plan()) > 0 {`, `	if plan := seen.plan(); len(plan) > 0 && (plan[0].Action == versions.Delete || seen.configuration.Status.ObservedGeneration != seen.configuration.Generation) {`},
		{loop, `				r.opts.Refused("changed")
`, `				if step.Action == versions.Copy {
					return seen, nil
				}
`},
	}},
	{"selection moves a sticky machine", "M13", []mistaken.Edit{
		{picks, `	if !sticky {
		matching`, `	if len(in.Configurations) > 0 {
		matching`},
		{chooser, `		if there, err := r.leaves(ctx, m, d); there || err != nil {`, `		if there, err := false, error(nil); there || err != nil {`},
	}},
	{"referenced version pruned", "M34", []mistaken.Edit{{plans, `|| !v.Deployed || s.Referenced[v.Number] {`, `|| !v.Deployed {`}}},
	{"what is created too late is taken", "M24", []mistaken.Edit{{state, `	return v.Status.Hash != "" || v.Status.Deployed
`, `	return true
`}}},
	{"a machine that has changed is chosen for", "M13", []mistaken.Edit{{chooser, `ResourceVersion: m.ResourceVersion`, `ResourceVersion: ""`}}},
	{"what an old process has written stays", "M29", []mistaken.Edit{{watches, `predicate.Or(predicate.GenerationChangedPredicate{}, saidOfSelector())`, `predicate.Or(predicate.GenerationChangedPredicate{})`}}},
	{"pause does not hold", "M94", []mistaken.Edit{{picks, `	case c.Paused:
		return paused(choice, m, c, in)
	case sticky:`, `	case sticky:`}}},
}

// TestMistakesCompile checks that every mistake still fits the code and compiles; whether each is
// found is the business of make sim-mistakes.
func TestMistakesCompile(t *testing.T) {
	for _, m := range mistakes {
		mistaken.Compile(t, "../../..", "./operator/controllers/hosts/...", m.edits)
	}
}
