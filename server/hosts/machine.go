package hosts

import (
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// book has what is known of machines: those that have an assignment, and those whose agent is
// connected and has a paver.
type book struct {
	mu       sync.Mutex
	machines map[identity.ID]*machine
}

// machine is what is known of the machine of one instance.
type machine struct {
	id     identity.ID
	tenant string

	mu         sync.Mutex
	assigned   *assignment // nil: there is none
	etag       string      // of the object that assigned was read from or written to; empty: there is none
	damaged    error       // why the object cannot be used, and must not be written
	credential *nstancev1.MachineCredential
	dropped    bool // its object is deleted with the record of the instance: nothing is stored any more
	pinned     bool // somebody writes: it stays known until then
	stream     stream
	orders     orders // operations that are not over
	prebuild   prebuild
	status     *nstancev1.MachineStatus // the last one; nil: none in this term
	reportedAt time.Time
}

// stream is what is known of the agent's stream, and what was sent on it.
type stream struct {
	open    bool
	version string // of the agent
	sent    sent
}

// sent is what a host knows by what was sent on its stream. It is forgotten with the stream.
type sent struct {
	epoch      int64
	credential int32 // its sequence; 0: none
	confirmed  confirmation
}

// confirmation is a Node that has joined, and the boot of its machine: a host believes what is said of
// the boot that runs (M46). The zero value is none.
type confirmation struct{ nodeUID, bootID string }

// find returns what is known of a machine; nil: nothing.
func (b *book) find(id identity.ID) *machine {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.machines[id]
}

// open returns what is known of a machine, and makes room for it if that is nothing. change
// is called with it before it can be forgotten.
func (b *book) open(id identity.ID, tenant string, change func(*machine)) *machine {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.machines[id]
	if m == nil {
		m = &machine{id: id, tenant: tenant}
		b.machines[id] = m
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	change(m)
	return m
}

// close forgets a machine of which nothing is left to be known. It reports whether it did.
func (b *book) close(m *machine) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.assigned != nil || m.damaged != nil || m.stream.open || m.pinned || m.dropped || b.machines[m.id] != m {
		return false
	}
	delete(b.machines, m.id)
	return true
}

// forget forgets a machine, whatever is known of it, and returns it; nil: nothing was.
func (b *book) forget(id identity.ID) *machine {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.machines[id]
	delete(b.machines, id)
	return m
}

// of are the ids of a tenant's machines, in order.
func (b *book) of(tenant string) (ids []identity.ID) {
	b.mu.Lock()
	for id, m := range b.machines {
		if m.tenant == tenant {
			ids = append(ids, id)
		}
	}
	b.mu.Unlock()
	slices.Sort(ids)
	return ids
}

// takeCredential keeps a credential if it is newer than the one there is. It reports whether
// it did. The caller has the lock.
func (m *machine) takeCredential(c *nstancev1.MachineCredential) bool {
	have := m.credential
	switch {
	case c == nil, c.Epoch != m.assigned.epoch(), !m.assigned.waits():
		return false
	case have != nil && have.Epoch == c.Epoch && have.Sequence >= c.Sequence:
		return false
	}
	m.credential = proto.CloneOf(c)
	return true
}

// usable is the credential for the assignment that is in force, nil if there is none or it is
// over. The caller has the lock.
func (m *machine) usable(now time.Time) *nstancev1.MachineCredential {
	c := m.credential
	if c == nil || c.Epoch != m.assigned.epoch() || !m.assigned.waits() || !now.Before(c.ExpiresAt.AsTime()) {
		return nil
	}
	return c
}

// assign makes another assignment the one that is stored, or none. What belongs to another
// epoch is forgotten. The caller has the lock.
func (m *machine) assign(a *assignment, etag string) {
	if a.epoch() != m.assigned.epoch() {
		m.prebuild = prebuild{} // an assignment ends what was prepared before it
	}
	m.assigned, m.etag, m.damaged = a, etag, nil
	if !a.waits() || m.credential != nil && m.credential.Epoch != a.epoch() {
		m.credential = nil
	}
}

// given is why the host gave the assignment that is in force up and left what failed as it is, as it has last reported;
// empty: it did not, or that is not known. The caller has the lock.
func (m *machine) given() string {
	f := m.status.GetFailure()
	if f.GetOutcome() != nstancev1.MachineFailureOutcome_MACHINE_FAILURE_OUTCOME_HELD || m.assigned == nil || f.GetEpoch() != m.assigned.epoch() {
		return ""
	}
	return f.GetReason() + ": " + f.GetMessage()
}

// Node says how far the host of an instance is: whether it was told to build a node machine, and why it gave up and
// left what failed as it is, so that no node runs there; empty: it did not.
func (m *Machines) Node(id identity.ID) (assigned bool, failed string) {
	known := m.find(id)
	if known == nil {
		return false, ""
	}
	known.mu.Lock()
	defer known.mu.Unlock()
	return known.assigned != nil && known.assigned.head.GetMode() != nstancev1.MachineMode_MACHINE_MODE_RESET, known.given()
}

// work is one message that a host has to be sent.
type work struct {
	kind    string // in metrics
	message *nstancev1.MachineWork
	then    sent   // what the host knows then
	done    func() // called once it is queued; nil: nothing
}

// next is the next message that the host lacks, and whether there is one. The caller has the
// lock.
func (m *machine) next(now time.Time) (w work, ok bool, err error) {
	if !m.stream.open {
		return work{}, false, nil
	}
	if w, ok, err = m.nextOfAssignment(now); ok || err != nil {
		return w, ok, err
	}
	if message, queued := m.prebuild.next(); message != nil {
		return work{kind: "prebuild", message: message, then: m.stream.sent, done: queued}, true, nil
	}
	message, kind, queued := m.orders.next(now)
	return work{kind: kind, message: message, then: m.stream.sent, done: queued}, message != nil, nil
}

// nextOfAssignment is the next message about the assignment that the host lacks. The caller has the
// lock.
func (m *machine) nextOfAssignment(now time.Time) (w work, ok bool, err error) {
	a, s := m.assigned, m.stream.sent
	if a == nil {
		return work{}, false, nil
	}
	if s.epoch != a.epoch() {
		message, err := a.message()
		return work{
			kind:    "assignment",
			message: &nstancev1.MachineWork{Work: &nstancev1.MachineWork_Assignment{Assignment: message}},
			then:    sent{epoch: a.epoch()},
		}, err == nil, err
	}
	if c := m.usable(now); c != nil && c.Sequence != s.credential {
		s.credential = c.Sequence
		return work{
			kind:    "credential",
			message: &nstancev1.MachineWork{Work: &nstancev1.MachineWork_CredentialUpdate{CredentialUpdate: c}},
			then:    s,
		}, true, nil
	}
	if c := a.rec.Confirmed; c != nil && s.confirmed != (confirmation{c.NodeUID, c.BootID}) {
		s.confirmed = confirmation{c.NodeUID, c.BootID}
		return work{
			kind:    "confirmation",
			message: &nstancev1.MachineWork{Work: &nstancev1.MachineWork_NodeConfirmed{NodeConfirmed: a.confirmed()}},
			then:    s,
		}, true, nil
	}
	return work{}, false, nil
}

// confirmed is what was confirmed of an assignment; nil: nothing.
func (a *assignment) confirmed() *nstancev1.NodeConfirmed {
	c := a.rec.Confirmed
	if c == nil {
		return nil
	}
	return &nstancev1.NodeConfirmed{Epoch: a.epoch(), NodeUid: c.NodeUID, BootId: c.BootID}
}

// view is what operators are told of a machine; nil: nothing is known of it.
func (m *machine) view(now time.Time) *nstancev1.MachineState {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.assigned == nil && !m.stream.open {
		return nil
	}
	v := &nstancev1.MachineState{
		Connected: m.stream.open, Status: m.status, AgentVersion: m.stream.version, Assignment: m.assignmentView(now),
		PrebuildHash: m.prebuild.hash(),
	}
	if m.status != nil {
		v.ReportedAt = timestamppb.New(m.reportedAt)
	}
	return v
}

func (m *machine) assignmentView(now time.Time) *nstancev1.AssignmentState {
	a := m.assigned
	if a == nil {
		return nil
	}
	v := &nstancev1.AssignmentState{
		MachineName: a.head.GetMachineName(), MachineUid: a.head.GetMachineUid(), Epoch: a.epoch(), Mode: a.head.GetMode(),
		Configuration: a.head.GetConfiguration(), At: timestamppb.New(a.rec.At.Time), Confirmed: a.confirmed(),
	}
	if c := a.rec.Confirmed; c != nil {
		v.ConfirmedAt = timestamppb.New(c.At.Time)
	}
	credential := m.usable(now)
	v.CredentialSequence, v.CredentialMissing = credential.GetSequence(), credential == nil && a.joins()
	return v
}
