// Package manager is the operator's process: it builds everything, starts it in order, and
// ends it.
//
// Every replica serves webhooks, probes and metrics and keeps caches. One of them, the
// leader, does the rest: it makes sure of the operator's identity, connects to the shards,
// follows the configuration and runs the controllers, in that order (lead.go). Whatever
// of this fails ends the process, and the Deployment starts it again; that a shard cannot
// be reached is no failure.
//
// Nothing is decided here but the order. What each part does, its own package says.
package manager
