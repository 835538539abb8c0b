package hostile

import (
	"crypto/tls"
	"slices"
	"sync"
	"testing"

	"google.golang.org/protobuf/types/known/emptypb"

	"nstance.dev/e2e/env/box"
	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// certified is somebody with a genuine certificate, whose private key the attacker has.
type certified struct {
	id   identity.ID // of an instance
	cert tls.Certificate
}

// genuine returns the identity of a registered agent or operator of the default tenant.
// All rows share them, so nobody may be let in by them but on purpose.
func (w *world) genuine(t *testing.T, as door) certified {
	t.Helper()
	if as == asAgent {
		w.insider.Do(func() { w.inside = w.member(t, identity.DefaultTenant, nil) })
		return certified{w.inside.id, w.inside.cert}
	}
	settings, err := box.ClientTLS(w.operatorDir(identity.DefaultTenant))
	if err != nil {
		t.Fatal(err)
	}
	return certified{"", settings.Certificates[0]}
}

// insiders is one registered agent that the rows about certificates share.
type insiders struct {
	insider sync.Once
	inside  member
}

// present connects to the port of agents or of operators and makes the first call there.
func (w *world) present(t *testing.T, as door, settings *tls.Config, id identity.ID) string {
	t.Helper()
	if as == asAgent {
		if answer := w.knock(t, w.addrs.Agent, settings); answer != letIn {
			return answer
		}
		stream, err := nstancev1.NewAgentServiceClient(w.dial(t, w.addrs.Agent, settings)).Connect(t.Context())
		if err != nil {
			return said(err)
		}
		// An error here means that the stream has ended; Recv says why.
		_ = stream.Send(&nstancev1.AgentMessage{Message: &nstancev1.AgentMessage_Hello{Hello: &nstancev1.Hello{InstanceId: id.String()}}})
		_, err = stream.Recv()
		return said(err)
	}
	if answer := w.knock(t, w.addrs.Operator, settings); answer != letIn {
		return answer
	}
	_, err := nstancev1.NewOperatorServiceClient(w.dial(t, w.addrs.Operator, settings)).ListGroups(call(t), &emptypb.Empty{})
	return said(err)
}

// twin is a change to a certificate that is otherwise the same as a genuine one: serial,
// key, names and all, signed by the cluster's own authority. So it is refused for what is
// changed, or not at all.
type twin struct {
	name   string
	held   string // code and reason
	agents string // the same at the agents' door, where it differs
	change func(t *testing.T, w *world, f *forgery)
}

func (c twin) row(as door) attempt {
	held := c.held
	if as == asAgent && c.agents != "" {
		held = c.agents
	}
	return attempt{"F43", string(as) + ": " + c.name, held, func(t *testing.T, w *world) string {
		owner := w.genuine(t, as)
		f := w.twinOf(t, owner.cert)
		c.change(t, w, f)
		return outline(w.present(t, as, w.as(f.sign(t)), owner.id))
	}}
}

// certificates are the rows of the area.
func certificates() (rows []attempt) {
	for _, c := range slices.Concat(organizations, commonNames, roles, uris, usages, authorities, ownKeys) {
		for _, as := range []door{asAgent, asOperator} {
			rows = append(rows, c.row(as))
		}
	}
	return slices.Concat(rows, chains, transports, wrongDoors(), impostors, viewers())
}
