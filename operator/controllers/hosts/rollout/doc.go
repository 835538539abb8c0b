// Package rollout brings machines to the newest version of their MachineConfiguration, where its update
// strategy is RollingUpdate.
//
// Package hosts/rollout decides; this one reads, writes and tells. All work on one configuration is
// serial. What was begun with a machine stands in its status.rollout and is written before anything is
// done to its Node, so that the next process goes on where the last one was, and a crash at any point
// begins nothing twice. Caches come late: what this process has written counts until they have it, and
// before the first machine is begun the API server itself is asked.
//
// Nodes are drained by the one engine there is (package drain): [Requests] is one of its sources. A
// request of a rollout gives way to every other one, and is never forced. A Node is deleted here once
// its drain is done, with its UID as a precondition; the rest is the life of any machine whose Node was
// deleted.
//
// Before a machine is begun its instance is put on hold for that at its shard: neither is then replaced in the shard's
// own time while the other is away, and whoever comes second waits (M70).
//
// What a caller must know: without [Requests.Source] among the sources of the engine nothing is drained,
// and each machine is skipped at the end of its time.
//
// It owns status.rollout of machines, and of configurations status.rollout and the conditions RollingOut
// and RolloutHalted.
//
// Rights: machineconfigurations list watch patch, their status patch; machineconfigurationversions list
// watch; hostmachines list watch, their status patch; events create patch. Where the Nodes are: nodes
// list watch delete.
package rollout
