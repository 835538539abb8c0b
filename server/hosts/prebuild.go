package hosts

import (
	"google.golang.org/protobuf/proto"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// prebuild is what a host is to prepare in the background, and is not known to be over. It is in memory
// alone, with its pull secrets: its host makes it durable, and the operator puts it again after a change
// of leader. The zero value is nothing.
type prebuild struct {
	message *nstancev1.MachinePrebuild // without a scope: what was asked for before is not wanted any more
	sent    bool                       // on the stream of the agent
}

// hash is that of the template that is prepared; empty: none is.
func (p *prebuild) hash() string { return p.message.GetAssignment().GetConfiguration().GetHash() }

// next is the message that the host lacks, and what is to be called once it is queued; nil: it lacks none.
func (p *prebuild) next() (message *nstancev1.MachineWork, queued func()) {
	if p.message == nil || p.sent {
		return nil, nil
	}
	return &nstancev1.MachineWork{Work: &nstancev1.MachineWork_Prebuild{Prebuild: p.message}}, func() {
		if p.sent = true; p.hash() == "" {
			*p = prebuild{}
		}
	}
}

// take has something else prepared, or nothing. It reports whether that is news.
func (p *prebuild) take(message *nstancev1.MachinePrebuild) bool {
	if same(p.message, message) {
		return false
	}
	if message == nil {
		message = &nstancev1.MachinePrebuild{}
	}
	*p = prebuild{message: proto.CloneOf(message)}
	return true
}

// same reports whether two prebuilds ask for the same.
func same(a, b *nstancev1.MachinePrebuild) bool {
	return a != nil && b != nil && a.GetScope() == b.GetScope() && a.GetAssignment().GetMachineUid() == b.GetAssignment().GetMachineUid() &&
		a.GetAssignment().GetConfiguration().GetHash() == b.GetAssignment().GetConfiguration().GetHash()
}

// settle forgets what the host says is over.
func (p *prebuild) settle(s *nstancev1.MachineStatus) {
	said := s.GetPrebuild()
	if p.hash() == "" || said.GetConfiguration().GetHash() != p.hash() || said.GetScope() != p.message.GetScope() {
		return
	}
	switch said.GetState() {
	case nstancev1.MachinePrebuildState_MACHINE_PREBUILD_STATE_DONE, nstancev1.MachinePrebuildState_MACHINE_PREBUILD_STATE_FAILED:
		*p = prebuild{}
	default:
	}
}
