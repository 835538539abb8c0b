package pavesim_test

import (
	"strings"
	"testing"

	"nstance.dev/e2e/sim/mistaken"
)

// A mistake is a version of the operator or of the paver that breaks a promise. The simulator
// has to find each.
type mistake struct {
	name    string
	promise string // that is found broken
	edits   []mistaken.Edit
}

const (
	table   = "operator/hosts/lifecycle/table.go"
	nodes   = "operator/hosts/lifecycle/node.go"
	brake   = "operator/hosts/lifecycle/brake.go"
	looks   = "operator/controllers/hosts/host/observe.go"
	inbox   = "agent/paver/inbox.go"
	steps   = "agent/paver/transition/next.go"
	accepts = "agent/paver/transition/after.go"
	claims  = "operator/hosts/operations/state.go"
	budgets = "operator/hosts/rollout/decide.go"
	chooses = "operator/hosts/selection/selection.go"
	stops   = "agent/paver/host/machine.go"
)

var mistakes = []mistake{
	{"absence is believed from the cache", "M52", []mistaken.Edit{{looks, `r.opts.Nodes.Live.Get(ctx`, `r.opts.Nodes.Client.Get(ctx`}}},
	{"a Node of before is believed", "M46", []mistaken.Edit{{nodes, `slot.BootID != n.BootID || `, ``}}},
	{"the brake does not hold", "M87", []mistaken.Edit{{brake, `if !b.On() || repaving == 0 {`, `if !b.On() || repaving >= 0 {`}}},
	{"a pause does not hold", "M53", []mistaken.Edit{{table, `	case in.Machine.Spec.Paused:
		held`, `	case in.Machine.Spec.Paused && gone(in) == false:
		held`}}},
	{"a credential is used that is over, after a change of leader", "M43", []mistaken.Edit{
		{inbox, `c == nil || c.GetEpoch() != epoch || !v.Now.Before(c.GetExpiresAt().AsTime())`, `c == nil || c.GetEpoch() != epoch`},
		{steps, `return v.Credential && (v.CredentialUntil.IsZero() || !v.CredentialUntil.Before(least)) || `, `return v.Credential || `},
	}},
	{"an epoch gets another content", "M41", []mistaken.Edit{{accepts, `	case a.Configuration.Hash != hash:
		return false, fmt`, `	case a.Configuration.Hash != hash && stored != nil:
		return true, nil
	case a.Configuration.Hash != hash:
		return false, fmt`}}},
	{"the old slot is removed before the new machine has joined", "M58", []mistaken.Edit{{stops, `		h.sweepNetwork(ctx, w.Journal)
	}
`, `		h.sweepNetwork(ctx, w.Journal)
		if err := h.slots.Remove(t.From); err != nil {
			return err
		}
	}
`}}},
	{"a second executor runs", "M75", []mistaken.Edit{{claims, `	case op.Status.State != hostsv1.OperationPending:
		return op.Status, fmt.Errorf("claim`, `	case Finished(op.Status.State):
		return op.Status, fmt.Errorf("claim`}}},
	{"the budget does not count what is down anyway", "M67", []mistaken.Edit{{budgets, `		case m.Follows && m.Down != "":
			d.Unavailable++`, `		case m.Follows && m.Down != "" && m.begun():
			d.Unavailable++`}}},
	{"a rollout brings what it has begun to another version", "M68", []mistaken.Edit{{chooses, `	r := m.Status.Rollout
`, `	r := (*hostsv1.MachineRollout)(nil)
`}}},
	{"the way back leads to the wrong slot", "M60", []mistaken.Edit{{accepts, `From: t.To, To: t.From, Stage: journal.Retire`, `From: t.From, To: t.To, Stage: journal.Retire`}}},
}

// TestMistakesCompile checks that the mistakes still fit the code and compile, all of a module at once; whether each is
// found is the business of make sim-mistakes.
func TestMistakesCompile(t *testing.T) {
	for _, module := range []string{"agent", "operator"} {
		var all []mistaken.Edit
		for _, m := range mistakes {
			for _, e := range m.edits {
				if strings.HasPrefix(e[0], module+"/") {
					all = append(all, e)
				}
			}
		}
		mistaken.Compile(t, "../../..", "./"+module+"/...", all)
	}
}
