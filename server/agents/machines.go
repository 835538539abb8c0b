package agents

import (
	"errors"
	"slices"
	"sync/atomic"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// MachineCapability is what an agent says in hello whose host can build node machines.
const MachineCapability = "machine/v1"

// Machines is told of the hosts that can build node machines, and of what they report. It
// hears of all streams of an instance in the order in which they follow each other: it may
// call the service, and must not wait for a stream. [hosts.Machines] is one.
type Machines interface {
	// Greeted says that the agent of an instance is connected, also when a stream goes on
	// under this leader, whether its host can build node machines, and the agent's version.
	Greeted(id identity.ID, able bool, version string)
	// Status is what a host reports, of which the last one counts.
	Status(id identity.ID, status *nstancev1.MachineStatus)
	// Logs are those that a host hands over.
	Logs(id identity.ID, logs *nstancev1.MachineLogs)
	// Disconnected says that the agent of an instance is not connected any more.
	Disconnected(id identity.ID)
	// Wake says that there is room on the stream again, where there was none.
	Wake(id identity.ID)
}

// ErrNoPaver says that the agent does not offer [MachineCapability].
var ErrNoPaver = errors.New("the host cannot build node machines: its agent does not offer " + MachineCapability)

// builder is what the agent of a stream says of the host beneath it.
type builder struct {
	able    atomic.Bool // it can build node machines; does not change after hello
	version string      // of the agent; does not change after hello
}

// machines is how a [Service] and [Machines] speak.
type machines struct {
	told    Machines // nil: nobody has node machines built
	streams *registry
	turns   *turns
	handler *handler // the service
}

// SendWork queues work for the host of an instance, without waiting. It may be sent again.
func (m *machines) SendWork(id identity.ID, work *nstancev1.MachineWork) error {
	s := m.streams.of(id)
	switch {
	case s == nil:
		return ErrNotConnected
	case !s.offers.machines.able.Load():
		return ErrNoPaver
	case !(line{s, m.handler}).Offer(&nstancev1.ServerMessage{Message: &nstancev1.ServerMessage_MachineWork{MachineWork: work}}):
		if s.over() {
			return ErrNotConnected
		}
		return ErrStreamFull
	}
	return nil
}

// noteBuilder notes whether the host of an agent can build node machines. The stream is not
// anybody's yet.
func (s *stream) noteBuilder(version string, capabilities []string) {
	s.offers.machines.version = version
	s.offers.machines.able.Store(slices.Contains(capabilities, MachineCapability))
}

// greeted tells [Machines] of an agent that is connected.
func (m *machines) greeted(s *stream) {
	m.hear(s, func(told Machines) { told.Greeted(s.id, s.offers.machines.able.Load(), s.offers.machines.version) })
}

// status takes the report of a host.
func (m *machines) status(s *stream, status *nstancev1.MachineStatus) {
	if s.offers.machines.able.Load() && status != nil {
		m.hear(s, func(told Machines) { told.Status(s.id, status) })
	}
}

// logs takes the logs of a host.
func (m *machines) logs(s *stream, logs *nstancev1.MachineLogs) {
	if s.offers.machines.able.Load() && logs != nil {
		m.hear(s, func(told Machines) { told.Logs(s.id, logs) })
	}
}

// disconnected tells [Machines] of an agent that is not connected any more. The caller has the
// instance's turn.
func (m *machines) disconnected(s *stream) {
	if m.told != nil && s.offers.machines.able.Load() {
		m.told.Disconnected(s.id)
	}
}

// woken tells [Machines] of room on a stream.
func (m *machines) woken(id identity.ID) {
	if m.told != nil {
		m.told.Wake(id)
	}
}

// hear tells [Machines] something that a stream says, while it is the instance's stream.
func (m *machines) hear(s *stream, tell func(Machines)) {
	if m.told == nil {
		return
	}
	defer m.turns.of(s.id)()
	if m.streams.of(s.id) == s {
		tell(m.told)
	}
}
