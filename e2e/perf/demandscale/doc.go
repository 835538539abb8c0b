// Package demandscale measures demand mode from the Pods of a cluster to its Nodes and back: how
// soon machines are made for Pods that come at once and how soon these run, how soon Nodes go
// that become empty at once, and what that costs.
//
// Its test has the build tag demand: `make e2e-demand` runs it. It fails where the wrong thing
// happens; that a goal was missed is a word in a table, as in package bench.
//
// # What is real
//
// The API server, its storage, the controller manager and the scheduler are the real programs,
// the last two with 1,000 requests a second, because their defaults alone take 50 seconds for so
// many Pods. The operator is its real binary with the rights and flags of its chart, the shard's
// server the real one on the provider whose machines are processes of this box. A machine has no
// boot time: its process only waits, and its agent, which is the real one with a connection and a
// certificate of its own, runs in the measuring process with those of all others (package crowd),
// as does what registers the Node and plays its kubelet (package nodes).
//
// # What is measured
//
// Time begins when a watch shows the first Pod. A machine is made when its directory appears, a
// Pod is bound when a watch shows its Node's name, a Node is chosen to go when a watch shows it as
// unschedulable, and gone when a watch says so. Processor time is that of the operator's and of
// the server's process, memory the most that each had resident.
//
// The floor is a bare client that makes the same objects, Pods with their bindings, Nodes,
// CapacityRequests and UpcomingNodes, in the same API server, sixteen at a time.
package demandscale
