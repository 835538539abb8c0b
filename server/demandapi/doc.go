// Package demandapi serves the sessions of demand mode: one stream between the operator of a cluster and
// the leader of a shard, which carries everything that both say to each other.
//
// It knows the wire contract, checks all that comes in, and speaks to the loop of the shard in plain types,
// by [demandloop.Link]; what is decided, it leaves to that. What it promises:
//
//   - Hello comes first and agrees with the certificate. A second session of a cluster ends the first one.
//   - A roll-up comes whole or not at all: a part that is missing, or one rule that is broken, rejects all of
//     it, and the one before stays in force.
//   - Nothing waits without a bound. What the operator says waits for the loop, and so does the operator; what
//     it is told waits in an [outbox], where newer news of a machine take the place of older ones. An operator
//     that does not read for 30 s loses its session.
//   - A session ends with its certificate, with the record of its operator (S13), and with the term.
//
// Lock order: the service, an outbox, a lane and a session each have one lock. None is held while another is
// taken, or while anything outside of this package is called.
package demandapi
