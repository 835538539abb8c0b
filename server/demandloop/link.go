package demandloop

import (
	"context"
	"time"

	"nstance.dev/server/demand"
	"nstance.dev/server/demand/vector"
)

// Link is one leader's term as the sessions of operators see it. It is safe for concurrent use.
//
// What comes from a session speaks for its own cluster alone. A machine, request or instruction that
// it names may belong to another cluster or to none; the link drops such a part without an answer,
// as it does with what is late.
type Link interface {
	// Connect makes s the session of the cluster, in the place of one that it has: that one is told
	// nothing more, and what it still posts is dropped. The result is what the operator has to be
	// told first; what changes after it is told to s, which may begin before Connect returns.
	//
	// An error means that s is not the session of the cluster, and that Disconnect need not be called.
	Connect(ctx context.Context, cluster string, h Hello, s Session) (Snapshot, error)

	// Disconnect says that s has ended. It does nothing if s is not the session of the cluster (any
	// longer), and it does not wait for more than its turn in the mailbox.
	Disconnect(cluster string, s Session)

	// Post hands on what the operator has said, in the order of the calls of one session. It waits
	// while the mailbox is full, which stops the operator, and ends with ctx. The caller gives m away.
	Post(ctx context.Context, cluster string, s Session, m Inbound) error

	// Done is closed when the term has ended. From then on Connect and Post return errors, and every
	// session has to end.
	Done() <-chan struct{}
}

// Session is the stream of one operator as the loop sees it. Sessions are compared by identity, so an
// implementation is a pointer.
type Session interface {
	// Tell queues a message for the operator, and never blocks. Messages arrive in the order of their
	// calls, but for those with a key: a newer one takes the place of one with the same key that still
	// waits. When too many [BootstrapRequest] and [ReclaimInstruction] messages wait, the oldest
	// of them is dropped, since the loop asks again. Nothing else is dropped: a session that cannot
	// keep up is ended. After its end Tell does nothing.
	//
	// What is told is not changed by anybody from then on.
	Tell(m Message)
}

// Hello is how an operator opens its session. Its identity has been checked.
type Hello struct {
	Instance string // random for each process of the operator; for logs

	// What the operator can do.
	NodeReports   bool // sends NodeReports: a machine has joined when its Node was reported ready
	RefuseReclaim bool // answers voluntary instructions with refusals where a Pod would find no place
	CancelReclaim bool // understands ReclaimInstruction.Cancel
}

// Snapshot is the state of every machine that is bound to a cluster, or is about to be.
type Snapshot struct {
	ID    uint64 // names the snapshot within the session; never 0
	Epoch uint64 // the leader's term, for people
	Nodes []NodeState
}

// Inbound is a message of an operator: [RollupReceived], [Blob], [ReclaimAnswer] or [NodeReports].
type Inbound interface{ inbound() }

// RollupReceived is a valid and complete roll-up. The loop answers it by a [RollupAnswer] with its
// sequence.
//
// Roll-ups that come faster than they can be posted are thinned out: a session posts the newest one
// alone, so sequences increase and need not be adjacent.
type RollupReceived struct {
	Sequence  uint64
	Generated time.Time // by the operator's clock
	// SameAs: Rows and Overheads are empty and stand for those of the roll-up that this session posted
	// last. A session never begins with one.
	SameAs    bool
	Rows      []demand.Row // their keys are those of the cluster
	Overheads []demand.Overhead
}

// Blob answers a [BootstrapRequest].
type Blob struct {
	Request  string
	Error    string        // why there is none; UserData is empty then
	UserData Secret        // not empty unless there is an Error
	TTL      time.Duration // how long UserData is good for, from now on; 0: not said; at most 10 minutes
}

// Secret is data that never stands in a log, an event or a metric (S14).
type Secret []byte

// String says that there is something, and not what.
func (s Secret) String() string {
	if len(s) == 0 {
		return "none"
	}
	return "redacted"
}

// GoString is [Secret.String].
func (s Secret) GoString() string { return s.String() }

// MarshalText is [Secret.String] for encoders and structured logs.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// ReclaimAnswer answers a [ReclaimInstruction]. What was begun may be neither done nor refused: the
// Node of a machine may not be found.
type ReclaimAnswer struct {
	Instruction string
	Started     int // Nodes that are cordoned now
	Refused     []Refusal
}

// Refusal says that a Node is not touched.
type Refusal struct {
	Machine    string
	Reason     string        // for people
	RetryAfter time.Duration // when it is worth asking again; 0: not said
}

// NodeReports are what the cluster sees of the Nodes of machines. Each machine occurs once.
type NodeReports []NodeReport

// NodeReport is what the cluster sees of the Node of one machine.
type NodeReport struct {
	Machine     string
	Node        string // its name
	NodeUID     string
	Ready       bool            // and no startup taint is left
	NotReady    string          // why it is not, for people; empty: not said
	Allocatable []vector.Amount // what it offers to Pods; empty: not said
	Observed    time.Time       // by the operator's clock; zero: not said

	// The drain of an Instruction has ended: with Drained nothing is left that it had to evict, with
	// an Error so many RemainingPods are.
	Drained       bool
	Instruction   string
	Error         string
	RemainingPods int

	EvictablePods *int // Pods that a drain would evict; nil: not counted
}

func (RollupReceived) inbound() {}
func (Blob) inbound()           {}
func (ReclaimAnswer) inbound()  {}
func (NodeReports) inbound()    {}
