// Package cluster is a model of one Kubernetes cluster for simulations of demand mode: workloads
// that own Pods, controllers that make them again, budgets, evictions, and a scheduler.
//
// It is the half of the loop that the engine cannot see: an eviction makes a Pod that is
// pending again, and a machine that was bought helps only if the scheduler can use it. So what
// a decision costs shows in the next roll-up, as it would in a real cluster.
//
// The scheduler has the filters of kube-scheduler that decide whether a Pod fits: requests,
// taints, node selector and required node affinity, required affinity and anti-affinity between
// Pods, spread with DoNotSchedule. It scores by least allocated, and preempts Pods of lower
// priority. Everything is in integers and in one order, so that equal calls give equal clusters.
// Its arithmetic is its own and shares nothing with the operator's translation, which it is
// there to hold against.
//
// A Pod and a Node are the objects that an informer would show. They are replaced, never changed
// in place, so what was read may be kept. Package cluster knows no machine, roll-up or drain:
// callers join, cordon and remove Nodes, and evict Pods.
//
// A Cluster is for one goroutine. Time is the caller's, and never goes back.
package cluster
