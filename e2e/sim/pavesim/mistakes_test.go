package pavesim_test

import (
	"strings"
	"testing"

	"nstance.dev/e2e/sim/mistaken"
)

// A mistake is a version of the operator, of the shard or of the paver that breaks a promise. The simulator
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
	confirm = "operator/controllers/hosts/host/confirm.go"
	signs   = "operator/controllers/hosts/csr/decide.go"
	orders  = "server/hosts/assignment.go"
	builds  = "operator/hosts/lifecycle/building.go"
	loop    = "agent/paver/paver.go"
	inbox   = "agent/paver/inbox.go"
	steps   = "agent/paver/transition/next.go"
	accepts = "agent/paver/transition/after.go"
	stops   = "agent/paver/host/machine.go"
)

var mistakes = []mistake{
	{"absence is believed from the cache", "M52", []mistaken.Edit{{looks, `r.opts.Nodes.Live.Get(ctx`, `r.opts.Nodes.Client.Get(ctx`}}},
	{"a refusal is believed to say that the Node is gone", "M52", []mistaken.Edit{{looks, `Answered: err == nil || isAbsent(err)`, `Answered: true`}}},
	{"a 404 of what stands before the API server is believed", "M52", []mistaken.Edit{{looks, `!apierrors.IsUnexpectedServerError(err)`, `err != nil`}}},
	{"a Node of before is believed", "M46", []mistaken.Edit{{nodes, `slot.BootID != n.BootID || `, ``}}},
	{"the brake does not hold", "M87", []mistaken.Edit{{brake, `if !b.On() || repaving == 0 {`, `if !b.On() || repaving >= 0 {`}}},
	{"a pause does not hold", "M53", []mistaken.Edit{{table, `	case in.Machine.Spec.Paused:
		held`, `	case in.Machine.Spec.Paused && gone(in) == false:
		held`}}},
	{"a credential joins again and again", "M43", []mistaken.Edit{{signs, `m.Approved >= lifecycle.MostCertificates &&`, `m.Approved >= 1000*lifecycle.MostCertificates &&`}}},
	{"a credential is used that is over, after a change of leader", "M43", []mistaken.Edit{
		{inbox, `c == nil || c.GetEpoch() != epoch || !v.Now.Before(c.GetExpiresAt().AsTime())`, `c == nil || c.GetEpoch() != epoch`},
		{steps, `return v.Credential && (v.CredentialUntil.IsZero() || !v.CredentialUntil.Before(least)) || `, `return v.Credential || `},
	}},
	{"a credential joins another Node", "M43", []mistaken.Edit{{signs, `	if err := check(r, m.NodeName); err != nil {
		return deny(m.Name, "%v", err)
	}
	counted`, `	counted`}}},
	{"a lower epoch is stored", "M40", []mistaken.Edit{{orders, `case have > epoch:`, `case have > epoch+1000:`}}},
	{"a word of before a reset counts", "M41", []mistaken.Edit{{accepts, `	case a.Epoch > reset:
`, `	case a.Epoch > reset, a.Mode != assignment.Reset:
`}}},
	{"a first build goes on without a certificate", "M49", []mistaken.Edit{{builds, `rep.Certificates.Approved >= MostCertificates:`, `rep.Certificates.Approved > MostCertificates:`}}},
	{"an epoch gets another content", "M41", []mistaken.Edit{{accepts, `	case a.Configuration.Hash != hash:
		return false, fmt`, `	case a.Configuration.Hash != hash && stored != nil:
		return true, nil
	case a.Configuration.Hash != hash:
		return false, fmt`}}},
	{"the old machine is not stopped first", "M58", []mistaken.Edit{{stops, `if err := h.stop(ctx, t.From, timeouts(w)); err != nil {`, `if err := ctx.Err(); err != nil {`}}},
	{"the old slot is removed before the new machine has joined", "M58", []mistaken.Edit{{stops, `		h.sweepNetwork(ctx, w.Journal)
	}
`, `		h.sweepNetwork(ctx, w.Journal)
		if err := h.slots.Remove(t.From); err != nil {
			return err
		}
	}
`}}},
	{"the journal is written when all is done", "M58", []mistaken.Edit{{loop, `	} else if err := p.journal.Save(next); err != nil {
		return err
	}`, `	} else if step.Kind == transition.EnableSlot || step.Kind == transition.SweepSlots {
		if err := p.journal.Save(next); err != nil {
			return err
		}
	}`}}},
	{"the way back leads to the wrong slot", "M60", []mistaken.Edit{{accepts, `From: t.To, To: t.From, Stage: journal.Retire`, `From: t.From, To: t.To, Stage: journal.Retire`}}},
	{"the host is not told that its Node has joined", "M47", []mistaken.Edit{{confirm, `if err := server.ConfirmNode(ctx, request); err != nil {`, `if err := ctx.Err(); err != nil {`}}},
	{"who was away misses what was deleted", "M49", []mistaken.Edit{{table, `	case gone(in):
		return missed(in)`, `	case gone(in) && in.Node.there():
		return missed(in)`}}},
}

// TestMistakesCompile checks that the mistakes still fit the code and compile, all of a module at once; whether each is
// found is the business of make sim-mistakes.
func TestMistakesCompile(t *testing.T) {
	for _, module := range []string{"agent", "operator", "server"} {
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
