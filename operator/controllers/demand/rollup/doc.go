// Package rollup tells the shards what the cluster needs.
//
// A [Controller] follows Pods, CapacityRequests, Nodes, UpcomingNodes, DaemonSets and claims,
// keeps what they add up to (package tally), and sends each shard with a session its share: when
// the session begins, at an interval, soon after something has changed, and some time after the
// shard held one back (package outbound). A CapacityRequest that was part of a roll-up is
// acknowledged by one patch.
//
// Nothing is sent before all that counts was listed, nor to a shard whose machines are not known yet:
// a roll-up replaces the one before, so one that is made of a part of the cluster would give
// machines back that are needed. Where Pods count by themselves until their request is known, requests
// that Pods own are not waited for: beside a hundred thousand of them a start would take three times as
// long. So a request whose Pod does not exist counts a little later. One goroutine, that of [Controller.Run], does all of it; what
// is heard of waits for it: of Pods and requests, of which there may be very many, that there is something new, and
// of others the newest state.
//
// What is left to others: CapacityRequests themselves, sessions, and what shards answer but for
// what decides where pending Pods go.
//
// Rights, where the Pods are: pods, capacityrequests, nodes, upcomingnodes and daemonsets list
// watch; capacityrequests/status patch; persistentvolumeclaims, persistentvolumes and
// storageclasses list watch where Pods count by themselves.
package rollup
