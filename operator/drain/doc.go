// Package drain decides how the work leaves a Node whose instance has to go.
//
// A drain is a machine with the states of [Phase]. [Step] takes its state, what is
// observed and the time, and returns the next state and what is to be done. The caller
// observes, carries the actions out in their order up to the first that fails, and calls
// again when Decision.Again has passed or something changed. An eviction or deletion does
// not fail: its answer goes into the next observation, and without one it is done again.
// It never waits inside a step, so one worker serves many
// Nodes.
//
// What the next leader needs stands on the Node: [Marked] writes it, [ParseState] reads
// it. What a new leader does not find there ([Progress]) costs it some repeated calls and
// nothing else.
//
// Pods are asked to go by the eviction API, which respects their disruption budgets. A
// budget that says "not yet" is waited for. But the machine is deleted at the deadline
// whatever happens; so from the force point on ([ForcePoint]) Pods that are left are
// deleted directly, which gives them their signal and takes them out of their services.
// That a Node is drained is said to the server when it is empty, or when nothing more can
// be done; never because of an error that may pass.
//
// Which Node it is, and when many Nodes wait which is first ([Compare] has the order),
// the caller decides. Everything here is a function of its arguments, changes none of
// them, and is safe for concurrent use.
package drain
