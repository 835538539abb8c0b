// Package capacityrequest gives every Pod that takes capacity a CapacityRequest, and takes it away when the
// Pod has ended.
//
// A running Pod has one as well as a pending one: what clusters need decides about machines that can be given
// back, and a machine whose Pods ask for nothing would be given back under them. Which Pods ask for nothing,
// and what the others ask for, says package translate.
//
// [Decide] says what comes next for one Pod; the [Reconciler] observes and carries out. What a decision needs
// of a Pod is what [Keep] leaves of it in a cache. A Pod is known by its UID: one of the same name that comes
// later is another Pod with another request. Requests without the label nstance.dev/owned-by-pod are somebody
// else's and are left alone.
//
// After a start, Pods without a request and those that have ended come first. The requests of all others are compared
// with their Pods within [Settling].
//
// What becomes of the requests (roll-ups, acknowledgement, machines) is left to others.
//
// Rights, where the Pods are: pods, persistentvolumeclaims, persistentvolumes and storageclasses list watch;
// capacityrequests list watch create patch deletecollection; capacityrequests/status patch; events create
// patch.
package capacityrequest
