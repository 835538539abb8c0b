// Package opsim runs the Kubernetes operator in the simulator of package sim, beside the
// real servers of a shard, and holds both sides against each other at each step.
//
// The operator's controllers, caches, queues and connections are the real ones, put
// together as the operator's package run does it for its leader. Its calls to the shard go
// through the real listener for operators, with its certificate, over connections that the
// network of the world delays, breaks and cuts. Around it are models:
//
//   - an API server with teeth (package kube): refusals before and after a write took
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
// A seed fixes the plan, what each fault is likely to hit, and whom an event means: the nth
// machine of a pool in the order of their making. It does not fix moments. The libraries
// under the operator cut their bytes into messages as their goroutines happen to run, and
// have jitter of their own, so an answer comes a little earlier or later, and with it all
// that follows; ids begin with such a moment. In good weather two runs of a plan therefore
// tell of the same deeds, perhaps in another order; in bad weather a fault may hit in one
// run what it misses in another, and a seed that has failed may have to be repeated a few
// times.
//
// Its tests are left out where the race detector is on: they do little but merge and copy
// objects, which takes it five times as long, and the operator's own tests run under it.
//
// What is asked of a check is that it finds what it is for: each has a mistake, an edit of
// the operator's code, that a story has to find.
package opsim
