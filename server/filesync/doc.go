// Package filesync brings machines their files and certificates, and keeps them as they
// should be.
//
//   - Package filesync/delivery decides which files a machine is sent, and when: pure rules.
//   - Package filesync/sources makes what is in them: rendered, or read from storage and the
//     secrets store. Certificates are issued here, in certify.go.
//   - A [Syncer] does what delivery decides, for one leader's term.
//
// A Syncer is told what happens - an agent connects, reports, hands in keys; a configuration
// changes - and each of these only wakes it up: what it sends follows from what the machine
// reported and what it should have. Nothing that an agent waits for waits for storage: a few
// workers serve the machines, each one at a time.
//
// What does not fit into an agent's queue is not kept for later. It is derived
// again once there is room (S22).
//
// A certificate is issued under a proven lease (S2), for a key whose public half
// the agent has handed in, and only if the configuration names the file and the
// key. All that are issued to a machine at once are written into one object of
// the log before the first leaves: without the log there are no certificates.
//
// Lock order: the Syncer's, which guards the list of machines; that of the troubles. A
// machine's own is taken without them. What a machine is sent is offered to its [Line] under
// the machine's lock, so that the ledger says what is on its way in its order; a line takes
// locks of its own, and none of this package. The functions among [Options] are called under
// none.
package filesync
