// Package podevents tells of a Pod that waits what is being bought for it, or why nothing can be.
//
// The events stand on the Pod, where its author looks: which machines are on their way that it fits on, or what
// the shards lack, in the words of the shortfalls. A Pod has waited for [Patience] before anything is said of it, and
// at most one event is sent for it within [Pause]; all Pods together get no more events than the limiter of
// [Options] lets pass.
//
// [Decide] is pure and the [Reconciler] observes and sends. Nothing is decided from what is said here: machines are
// bought by the shards, and Pods are placed by kube-scheduler.
//
// Rights, where the Pods are: pods, capacityrequests, upcomingnodes and availablecapacities list watch; events create
// patch.
package podevents
