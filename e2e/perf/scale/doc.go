// Package scale measures the Kubernetes operator in a large cluster: how soon its shards
// hear of a pool that is scaled, how soon a Node is cordoned whose machine is about to go,
// and what it costs to look after 2,000 Nodes when nothing happens.
//
// Its test has the build tag scale: it takes minutes, and `make e2e-scale` runs it. It
// fails where the operator does the wrong thing. That a goal was missed is a word in a
// table, as in package bench.
//
// # What is real
//
// The API server, its storage and the controller manager are the real programs (package
// kube). The operator is its real binary, a process of its own, with the flags, the rights
// and the policies of its chart. Nodes and Pods are objects of the size that kubelets and
// people make them; nobody runs the Pods, so they have no status.
//
// Of Cluster API the definitions and the webhooks are real. Its controllers look at
// another namespace: what they take a hundred writes of the API server for, over and over
// in each other's way where that shares two cores with them, the test makes in three, as
// they leave it: a Machine for each NstanceMachine, whose owner it is. Neither how soon a
// shard hears of a pool's size nor how soon a Node is cordoned goes through them.
//
// The three shards are those of package shardtest: in the measuring process, behind
// sockets of this box with TLS. Real servers would need a process for each of their
// machines, which are agents here: 2,000 of them take 30 GB. What a server takes to create
// a machine is not measured; that is P6 and P7 of package bench.
//
// # What is measured
//
// A scale begins when the request to the scale subresource of a MachinePool is sent, as
// kubectl sends it, and ends when the last of the shards that get more has received its
// UpsertGroup; then its instance runs, and a watch sees its NstanceMachine. Half of the pools are scaled by one, one after another; the others by three,
// so that each shard gets one, 20 at once; and then all by one, at once, three times, of which the
// median counts. A drain begins when
// a shard decides that a machine goes, and ends when a watch of the API server shows its
// Node as unschedulable: one after another, and many at once. What happens at once waits
// above all for an API server that shares two cores with everybody: it is compared with the
// time of as many writes of a bare client that come before it.
//
// Nodes with their Pods are made first, then an operator that may ask the API server without
// limit imports the pools. Then it ends, and one with the chart's own flags begins: that is the start that is measured, and
// the process all other numbers are about.
package scale
