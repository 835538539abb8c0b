package rollup

import (
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"nstance.dev/protos/needs"
	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
)

// What one session may carry.
const (
	// MostBytes is the size of a part at most. With what carries it a message stays below 4 MiB.
	MostBytes = 4<<20 - carries
	// carries is the room that is left for what carries a part.
	carries = 1024
	// MostParts is the number of parts of a roll-up at most.
	MostParts = 16
)

// Writer makes the messages of one session. Its zero value is not of use; see NewWriter.
type Writer struct {
	clusterID string
	sequence  uint64
	mostBytes int

	// What was sent whole, and under which number. 0: nothing that may be referred to.
	full      uint64
	rows      []*needs.Row
	overheads []needs.Overhead
}

// NewWriter returns the writer of a new session of a cluster. Its sequences begin with 1.
func NewWriter(clusterID string) *Writer {
	return &Writer{clusterID: clusterID, mostBytes: MostBytes}
}

// Limit makes parts smaller than [MostBytes], from the next roll-up on: so that none takes more than
// so many bytes with what carries it.
func (w *Writer) Limit(message int) { w.mostBytes = min(message-carries, MostBytes) }

// Write returns the messages of one roll-up, to be sent in order: its parts, or one reference
// if it says the same as the one before. The caller never changes rows or overheads again.
//
// What was handed out counts as sent. So call it right before sending and not when a roll-up
// is queued, where a newer one may replace it; and end the session when sending fails. The
// error is an [Error] of kind ErrTooLarge; nothing is sent then and the number stays unused.
func (w *Writer) Write(now time.Time, rows []*needs.Row, overheads []needs.Overhead) ([]*demandpb.ClusterCapacityNeeds, error) {
	head := &demandpb.ClusterCapacityNeeds{ClusterId: w.clusterID, Sequence: w.sequence + 1, GeneratedUnixMs: now.UnixMilli()}
	if w.full > 0 && slices.EqualFunc(rows, w.rows, needs.EqualRows) && slices.EqualFunc(overheads, w.overheads, needs.EqualOverheads) {
		w.sequence++
		head.SameAsSequence = w.full
		return []*demandpb.ClusterCapacityNeeds{head}, nil
	}
	parts, err := split(head, rows, overheads, w.mostBytes)
	if err != nil {
		return nil, err
	}
	w.sequence++
	w.full, w.rows, w.overheads = w.sequence, rows, overheads
	return parts, nil
}

// Forget makes the next roll-up a whole one, if what would be referred to is the roll-up with
// this sequence or one that referred to it. Call it when the shard has rejected a roll-up, for
// it keeps nothing of one. A roll-up that is held the shard keeps: a reference to it counts as
// one more of it, and Forget only makes the next message larger.
func (w *Writer) Forget(sequence uint64) {
	if w.full > 0 && sequence >= w.full {
		w.full, w.rows, w.overheads = 0, nil, nil
	}
}

// Sequence returns the number of the last roll-up; 0 before the first one.
func (w *Writer) Sequence() uint64 { return w.sequence }

// split returns the parts of a roll-up, which all begin like head.
func split(head *demandpb.ClusterCapacityNeeds, rows []*needs.Row, overheads []needs.Overhead, mostBytes int) ([]*demandpb.ClusterCapacityNeeds, error) {
	tooLarge := func(field, reason string) error {
		return &Error{Kind: ErrTooLarge, Sequence: head.GetSequence(), Field: field, Reason: reason}
	}
	if len(overheads) > mostOverheads {
		return nil, tooLarge("node_overheads", "must be at most 256")
	}
	part := proto.CloneOf(head)
	for _, o := range overheads {
		part.NodeOverheads = append(part.NodeOverheads, EncodeOverhead(o))
	}
	const numbers = 2 * (1 + 5) // part and parts, at their longest
	empty := proto.Size(head) + numbers
	size := proto.Size(part) + numbers
	if size > mostBytes {
		return nil, tooLarge("node_overheads", "must fit into the first part")
	}
	parts := []*demandpb.ClusterCapacityNeeds{part}
	for _, row := range rows {
		need := Encode(row)
		// The field has a tag of one byte; then come the length and as many bytes.
		bytes := 1 + protowire.SizeBytes(proto.Size(need))
		if size+bytes > mostBytes {
			part = proto.CloneOf(head)
			parts, size = append(parts, part), empty
		}
		if size+bytes > mostBytes || len(parts) > MostParts {
			return nil, tooLarge("needs", "must fit into 16 parts")
		}
		part.Needs = append(part.Needs, need)
		size += bytes
	}
	if len(parts) > 1 {
		for i, p := range parts {
			p.Part, p.Parts = uint32(i+1), uint32(len(parts))
		}
	}
	return parts, nil
}
