//go:build !race

package opsim_test

import (
	"testing"

	"nstance.dev/e2e/sim/mistaken"
)

// A mistake is a version of the operator that breaks a promise. A story in which that shows
// has to find it: a check that cannot find its own proves nothing about the version without.
type mistake struct {
	name    string
	promise string // that is found broken
	story   string // the test in which it shows
	edits   []edit
}

type edit = mistaken.Edit

var mistakes = []mistake{
	{"a group is asked for one more than was wanted", "S5", "TestS5S6_TheNamedMachineGoes", []edit{{
		"operator/controllers/shardgroup/request.go", `config.Size = proto.Int32(p.size())`, `config.Size = proto.Int32(p.size() + 1)`,
	}}},
	{"a shard is told a size that its pool wants no more", "S5", "TestS5_ASizeThatWasTakenBackWhileItsShardWasAway", []edit{{
		"operator/controllers/shardgroup/reconcile.go", `case known && int(object.Spec.SizeOrZero()) > most:`, `case known && most < 0:`,
	}}},
	{"a group gets smaller with every machine that is deleted", "S5", "TestO6_AMachineDeletedByHandIsReplaced", []edit{{
		"operator/controllers/machine/act.go", `DecrementSize: a.Decrement,`, `DecrementSize: true,`,
	}}},
	{"an id leaves the list before its instance", "S6", "TestS5S6_TheNamedMachineGoes", []edit{{
		"operator/controllers/machinepool/inframachine.go", `		ids = append(ids, shardGroup.Status.ProviderIDs...)
`, `		ids = append(ids, shardGroup.Status.ProviderIDs[:min(int(shardGroup.Spec.SizeOrZero()), len(shardGroup.Status.ProviderIDs))]...)
`,
	}}},
	{"a machine without room for its Pod is kept", "L1", "TestO12_OthersFillTheNodeOfAPod", []edit{{
		"operator/controllers/ondemand/decide.go", `d.joined() && d.lacksRoom() && !d.now.Before(d.roomDeadline())`, `d.joined() && d.lacksRoom() && d.o.Machine == nil`,
	}}},
	{"machines go that nobody named", "S8", "TestS5S6_TheNamedMachineGoes", []edit{{
		"operator/controllers/machine/decide.go", `	case d.gone():
		d.ended()
	case m.Spec.Mode`, `	case d.gone() || m.Status.NodeRef != nil:
		d.ended()
	case m.Spec.Mode`,
	}}},
	{"the acknowledgement comes before the drain is done", "S20", "TestF38_S20_ABudgetOfZeroAndPodsThatDoNotEnd", []edit{{
		"operator/drain/phases.go", `	case d.Counts.Left == 0:
		d.detach()
	case d.past(s.Deadline):`, `	case d.Counts.Left < 3:
		d.detach()
	case d.past(s.Deadline):`,
	}}},
	{"a machine that lives is said to be drained", "S6", "TestF37_S8_AllCustomResourcesAreDeleted", []edit{
		{"operator/drain/evaluate.go", `a.Wanted && s.mayBeCondemned()`, `a.Wanted`},
		{"operator/drain/source.go", `ClusterAPIDrains(m, s.Owner, s.HasControlPlane, s.NodeJoined) && !s.begun():`, `ClusterAPIDrains(m, s.Owner, s.HasControlPlane, s.NodeJoined):`},
	}},
	{"Pods are deleted past their budget", "S20", "TestF38_S20_ABudgetOfZeroAndPodsThatDoNotEnd", []edit{{
		"operator/drain/phases.go", `d.past(ForcePoint(s.StartedAt, s.Deadline))`, `d.past(s.StartedAt)`,
	}}},
}

// TestMistakesCompile checks that every mistake still fits the code and compiles; whether
// each is found is the business of make sim-mistakes.
func TestMistakesCompile(t *testing.T) {
	var all []edit
	for _, m := range mistakes {
		all = append(all, m.edits...)
	}
	mistaken.Compile(t, "../../..", "./operator/...", all)
}
