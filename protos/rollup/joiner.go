package rollup

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
)

// Rollup is one complete roll-up.
type Rollup struct {
	ClusterID       string
	Sequence        uint64
	GeneratedUnixMs int64
	Needs           []*demandpb.CapacityNeed
	Overheads       []*demandpb.NodeOverhead
	// SameAs, when set: Needs and Overheads are empty and stand for those of that sequence,
	// which came whole in this session.
	SameAs uint64
}

// Joiner joins the messages of one session. Its zero value is not of use; see NewJoiner.
type Joiner struct {
	clusterID string
	sequence  uint64 // of the last message
	full      uint64 // what may be referred to; 0: nothing

	collected *Rollup // parts so far; nil between roll-ups
	part      uint32  // the last of them
	parts     uint32
}

// NewJoiner returns the joiner of a new session of a cluster.
func NewJoiner(clusterID string) *Joiner { return &Joiner{clusterID: clusterID} }

// Add takes the next message and returns the roll-up that it completes; nil while parts are
// missing.
//
// An error is an [Error] and rejects the whole roll-up: what was collected is dropped, and the
// message with it. The next roll-up begins with its own first part.
func (j *Joiner) Add(m *demandpb.ClusterCapacityNeeds) (*Rollup, error) {
	rejected := func(kind error, field, format string, args ...any) (*Rollup, error) {
		j.collected = nil
		return nil, &Error{Kind: kind, Sequence: m.GetSequence(), Field: field, Reason: fmt.Sprintf(format, args...)}
	}
	before := j.sequence
	j.sequence = max(j.sequence, m.GetSequence())
	part, parts := m.GetPart(), m.GetParts()
	switch {
	case m.GetClusterId() != j.clusterID:
		return rejected(ErrInvalid, "cluster_id", "must be %q, that of the session", j.clusterID)
	case proto.Size(m) > MostBytes:
		return rejected(ErrTooLarge, "the message", "must be at most %d bytes", MostBytes)
	case parts > MostParts:
		return rejected(ErrTooLarge, "parts", "must be at most %d", MostParts)
	case part > parts || (part == 0) != (parts == 0):
		return rejected(ErrParts, "part", "must be 1 to parts, or both 0")
	case part > 1 && len(m.GetNodeOverheads()) > 0:
		return rejected(ErrInvalid, "node_overheads", "must be in the first part")
	}
	if j.collected != nil {
		switch {
		case m.GetSequence() != j.collected.Sequence:
			return rejected(ErrParts, "sequence", "must be %d until its last part", j.collected.Sequence)
		case parts != j.parts:
			return rejected(ErrParts, "parts", "must be %d in each part", j.parts)
		case part != j.part+1:
			return rejected(ErrParts, "part", "must be %d", j.part+1)
		case m.GetSameAsSequence() != 0:
			return rejected(ErrInvalid, "same_as_sequence", "must be 0 in parts")
		}
		j.part = part
		j.collected.Needs = append(j.collected.Needs, m.GetNeeds()...)
		return j.complete(), nil
	}
	switch {
	case m.GetSequence() <= before:
		return rejected(ErrParts, "sequence", "must be more than %d", before)
	case part > 1:
		return rejected(ErrParts, "part", "must be 1")
	}
	if same := m.GetSameAsSequence(); same != 0 {
		switch {
		case parts > 1 || len(m.GetNeeds()) > 0 || len(m.GetNodeOverheads()) > 0:
			return rejected(ErrInvalid, "same_as_sequence", "must be 0 where there are needs")
		case same != j.full:
			return rejected(ErrReference, "same_as_sequence", "must be that of the last roll-up that came whole in this session")
		}
		return &Rollup{ClusterID: j.clusterID, Sequence: m.GetSequence(), GeneratedUnixMs: m.GetGeneratedUnixMs(), SameAs: same}, nil
	}
	// What was sent whole before may not be referred to any longer, whatever becomes of this.
	j.full, j.part, j.parts = 0, part, parts
	j.collected = &Rollup{
		ClusterID: j.clusterID, Sequence: m.GetSequence(), GeneratedUnixMs: m.GetGeneratedUnixMs(),
		Needs: m.GetNeeds(), Overheads: m.GetNodeOverheads(),
	}
	return j.complete(), nil
}

// complete hands out what was collected, if it is all.
func (j *Joiner) complete() *Rollup {
	if j.part < j.parts {
		return nil
	}
	r := j.collected
	j.collected, j.full = nil, r.Sequence
	return r
}

// Forget makes a reference to the roll-up with this sequence an error. Call it when the
// roll-up was rejected after it was joined; one that is held may be referred to.
func (j *Joiner) Forget(sequence uint64) {
	if j.full == sequence {
		j.full = 0
	}
}
