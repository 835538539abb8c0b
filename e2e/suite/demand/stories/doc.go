// Package stories tests demand mode as those who use a cluster see it: Pods are created, Nodes
// come, the Pods run; Pods end, and the Nodes go. What stands behind it is real: see package
// demandcluster. Each story ends with nothing left over of what it made, and of what was bought
// for it.
//
// The tests have the build tag kube: `make e2e` runs them. Those that have the tag demand too
// take minutes, because something is away for minutes or many Nodes come: `make e2e-demand`.
package stories
