// Package supply brings machines their files: it does what package delivery
// decides, with contents from package sources and certificates of the cluster's
// authority.
//
// A [Supply] belongs to one leadership. It is told what happens - an agent
// connects, reports, hands in keys; a configuration changes - and each of these
// only wakes it up: what it sends follows from what the machine reported and
// what it should have. Nothing that an agent waits for waits for storage: a few
// workers serve the machines, each one at a time.
//
// What does not fit into an agent's queue is not kept for later. It is derived
// again once there is room (S22).
//
// A certificate is issued under a proven lease (S2), for a key whose public half
// the agent has handed in, and only if the configuration names the file and the
// key. All that are issued to a machine at once are written into one object of
// the log before the first leaves: without the log there are no certificates.
package supply
