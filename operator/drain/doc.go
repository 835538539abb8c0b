// Package drain empties the Nodes of instances whose end is decided: how the work leaves a
// Node, decided step by step, and the engine that carries the steps out.
//
// A drain is a state machine; [Phase] lists its states. [Step] takes its state, what is
// observed and the time, and returns the next state and what is to be done. The caller
// observes, carries the actions out in their order up to the first that fails, and calls
// again when Decision.RequeueAfter has passed or something changed. An eviction or deletion does
// not fail: its answer goes into the next observation, and without one it is done again.
//
// What the next leader needs stands on the Node: [WithState] writes it, [ParseState] reads
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
// The engine is a [Reconciler]. [Evaluate] decides whether and until when an instance is to be
// drained, by requests that come from several sources: its shard has condemned it
// ([CondemnedInstance]), or its machine was deleted and Cluster API cannot empty its Node
// ([DeletedMachine]). A further reason to drain is a further [Source]; requests of several for one
// instance are merged by [Merge], and each source learns from the Node how far the drain is. [Turn] says which drains go on when
// there are more of them than are to go on at once, in the order of [Compare]; a Node is
// cordoned in any case. A new process finds the Nodes when its cache fills, and goes on where
// the last one was. One step never waits: a drain comes back by its time, or when its Node,
// its machine or its shard have news. So few workers serve many drains.
//
// [Step], [Evaluate] and [Turn], and what they are made of, are functions of their arguments.
//
// Rights, where the Nodes are: nodes get list watch patch; pods list delete;
// pods/eviction create; daemonsets and volumeattachments get list watch; events create
// patch. Where the machines are: nstancemachines get list watch, their status patch;
// machines and clusters get list watch.
package drain
