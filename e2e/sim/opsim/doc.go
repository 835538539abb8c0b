// Package opsim runs the Kubernetes operator in the simulator of package sim, beside the
// real servers of a shard, and holds both sides against each other at each step.
//
// The operator's controllers, caches, queues and connections are the real ones, put
// together as the operator's package manager does it for its leader. Its calls to the shard go
// through the real listener for operators, with its certificate, over connections that the
// network of the world delays, breaks and cuts. Around it are models:
//
//   - an API server that injects faults (package apiserver): refusals before and after a write took
//     effect, caches that lag, watches that break and expire, an absence of minutes;
//   - the part of Cluster API that pools need, and the garbage collector (core.go);
//   - Nodes and the Pods of one workload with a disruption budget (kubelets.go), and Pods
//     that ask for a machine of their own (jobs.go);
//   - people and an autoscaler, who want sizes and name machines (users.go).
//
// The operator is a guest of the world: see [sim.Guest]. Everything that package sim
// breaks and checks is broken and checked here too. What is added are checks across both
// sides (checks.go, claims.go), each with the promise of docs/invariants.md that it is about. A call
// to the shard is held against the objects as they stand at the API server, not as the
// operator's caches show them; a change of an object against the bucket and the provider.
// What the operator saw a while ago excuses it for as long as its caches may lag.
//
// A plan is one of package sim with operator set to guest; its events may begin with the
// word guest (guest.go has the verbs). [Generate] makes one from a seed.
//
// A seed fixes the plan, what each fault hits, whom an event means - the nth machine of a pool
// in the order of their making -, the ids of instances, operators and objects, and the jitter
// of client-go. Worlds run one at a time and on one processor; what is written to a connection
// at one moment is one message, however it was cut; each object of a kind may be looked at at
// once. So two runs of a seed agree to the nanosecond for some minutes of their time. They part
// where the order in which things happen at one moment is that of others: of maps in the
// informers and queues of client-go and controller-runtime, of a select with several ready
// cases in grpc, of a watch's event and a reconcile of the same object. From there on a fault
// may hit in one run what it misses in the other, and a seed that has failed may have to be
// repeated a few times. A violation is therefore logged with the whole history of its run:
// every call, message, event of a watch and fault with its moment.
//
// Its tests are left out where the race detector is on: they do little but merge and copy
// objects, which takes it five times as long, and the operator's own tests run under it.
//
// What is asked of a check is that it finds what it is for: each has a mistake, an edit of
// the operator's code, that a story has to find.
package opsim
