// Package states keeps what one session has said of machines until it is written down.
//
// A machine that changes three times in a moment is written once, with its last state: of
// each machine only the newest update waits, and at most one of its updates is being written.
// So what is kept grows with the number of machines and never with the number of updates.
//
// It also knows when the snapshot with which a session begins has been written down whole.
// Only then what was not spoken of may be deleted; absence from a part of it proves nothing. A
// snapshot that a session did not finish says nothing at all. A machine that came after the
// snapshot was made is not in it, and there all the same: what counts is all that the session has
// spoken of.
//
// The package is pure. Who writes, and how long is waited after a failed write, is up to the
// caller. A new session begins with a new [States]: its snapshot repeats all that matters, and
// numbers of a former leader are not compared with those of the present one.
package states

import (
	"maps"
	"slices"

	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
)

// States is what one session has said of machines. Use [New]; it is not safe for concurrent
// use.
type States struct {
	machines map[string]*machine
	// snapshot is its number; 0 before it was announced.
	snapshot uint64
	size     int
	// named are the machines of the snapshot. True: an update was written since.
	named   map[string]bool
	written int
	// compared: what was not spoken of is deleted, and nobody asks for it again.
	compared bool
}

// machine is what waits for one machine.
type machine struct {
	// seq is that of the newest update that came.
	seq uint64
	// waits is the update to write next; nil if none is left.
	waits *demandpb.NodeStateUpdate
	// taken says that a writer has the machine, from Arrived until Next has nothing for it.
	taken bool
	// left says that the newest update may be the last: the machine is deleted, or belongs to no
	// cluster.
	left bool
}

// New returns the states of a new session, of which nothing was said yet.
func New() *States {
	return &States{machines: map[string]*machine{}, named: map[string]bool{}}
}

// Announce says which snapshot follows and how many updates it has, as the shard says when a
// session begins. It counts once; a second one is ignored.
func (s *States) Announce(snapshot uint64, size int) {
	if s.snapshot == 0 {
		s.snapshot, s.size = snapshot, size
	}
}

// Arrived takes an update in. It returns true if the machine has no writer: then the caller
// starts one, which calls Next until it returns nil.
//
// An update that is older than the newest one changes nothing; one that is equal neither,
// except that it may belong to the snapshot.
func (s *States) Arrived(u *demandpb.NodeStateUpdate) bool {
	id := u.GetMachineId()
	m := s.machines[id]
	first := m == nil
	if first {
		m = &machine{}
		s.machines[id] = m
	}
	newer := first || u.GetStateSeq() > m.seq
	if newer {
		m.seq, m.waits, m.left = u.GetStateSeq(), u, last(u.GetState())
	}
	if u.GetSnapshotId() != 0 && u.GetSnapshotId() == s.snapshot && !s.compared {
		if _, known := s.named[id]; !known {
			s.named[id] = false
			if !newer && m.waits == nil && !m.taken {
				s.wrote(id)
			}
		}
	}
	start := m.waits != nil && !m.taken
	m.taken = m.taken || start
	return start
}

// Next returns the update that a machine's writer has to write. Nil: there is none, and the
// writer ends; the next update to arrive asks for another one.
func (s *States) Next(id string) *demandpb.NodeStateUpdate {
	m := s.machines[id]
	if m == nil {
		return nil
	}
	u := m.waits
	m.waits = nil
	m.taken = u != nil
	s.forget(id, m)
	return u
}

// last reports whether a state may be the last that a shard says of a machine.
func last(state demandpb.MachineState) bool {
	return state == demandpb.MachineState_MACHINE_STATE_DELETED || state == demandpb.MachineState_MACHINE_STATE_IDLE
}

// forget drops what is known of a machine that may have left, so that a session that stands for
// long keeps no more than the machines of the cluster. Before the comparison nothing is dropped.
func (s *States) forget(id string, m *machine) {
	if s.compared && m.left && !m.taken && m.waits == nil {
		delete(s.machines, id)
	}
}

// Written says what became of an update that Next has returned. One that failed waits again,
// unless a newer one waits by now; the writer pauses and calls Next.
func (s *States) Written(u *demandpb.NodeStateUpdate, ok bool) {
	m := s.machines[u.GetMachineId()]
	switch {
	case m == nil:
	case !ok && m.waits == nil:
		m.waits = u
	case ok:
		s.wrote(u.GetMachineId())
	}
}

// wrote counts a machine of the snapshot, once.
func (s *States) wrote(id string) {
	if done, named := s.named[id]; named && !done {
		s.named[id] = true
		s.written++
	}
}

// Whole reports whether each machine of the snapshot was written. False: it was not announced, has
// not come whole, or some of it is not written yet.
func (s *States) Whole() bool { return s.snapshot != 0 && s.written >= s.size }

// Spoken returns the machines that the session has spoken of, sorted by id, until Compared was
// called. Once the snapshot is whole there are no others.
func (s *States) Spoken() []string { return slices.Sorted(maps.Keys(s.machines)) }

// Compared says that what the session has not spoken of was deleted: machines that have left are
// forgotten from now on.
func (s *States) Compared() {
	s.compared, s.named = true, nil
	for id, m := range s.machines {
		s.forget(id, m)
	}
}

// Waiting returns how many updates wait for a writer to take them.
func (s *States) Waiting() int {
	n := 0
	for _, m := range s.machines {
		if m.waits != nil {
			n++
		}
	}
	return n
}
