// Package drains empties the Nodes of instances whose end is decided.
//
// What a drain does step by step is decided in package drain; here its steps get what they
// look at, and what they ask for is carried out. [Asked] says whether and until when an
// instance is to be drained: because its shard has condemned it, or because its machine
// was deleted and Cluster API cannot empty its Node. [Turn] says which drains go on when
// there are more of them than are to go on at once; a Node is cordoned in any case.
//
// The memory of a drain stands on its Node. A new process finds those Nodes when its cache
// fills, and goes on where the last one was. What it holds besides is the progress of
// single Pods.
//
// One step never waits: a drain comes back by its time, or when its Node, its machine or
// its shard have news. So few workers serve many drains.
//
// Rights, where the Nodes are: nodes get list watch patch; pods list delete;
// pods/eviction create; daemonsets and volumeattachments get list watch; events create
// patch. Where the machines are: nstancemachines get list watch, their status patch;
// machines and clusters get list watch.
package drains
