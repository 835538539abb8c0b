// Package fit says whether the Pods of a Node find room on the others, before the Node is given
// back.
//
// A shard counts amounts and may be wrong about fragments; the operator is the one place that
// sees Pods. [Check] tries to place the Pods that a drain would move on Nodes that are ready
// and schedulable, the largest first and each on the first Node that takes it: by requests,
// taints, required affinity to Nodes, required affinity and anti-affinity between Pods, and
// spread over any key that forbids scheduling. A Node whose Pods find no room, or whose author or
// the author of one of its Pods says so, is refused.
//
// The package is pure: what Nodes and Pods there are is an argument, and equal arguments give
// equal answers. [NewPod] reads a Pod once; a caller may keep what it returns as long as the
// Pod does not change. It errs towards refusing: what it places kube-scheduler could place. It
// does not look at volumes or host ports. Cordoning, draining and answering the shard are up
// to others.
package fit
