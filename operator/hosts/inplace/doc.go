// Package inplace carries out operation applyConfiguration: it brings the labels and taints of the template that
// a machine would be built from to the Node that runs, and its SSH keys to the host, without a repave.
//
// [Decide] is pure. Of each label and taint it knows three values: what was applied last, what is to be, and what
// the Node has. Only what the Node still has as it was applied is changed; what a user has set otherwise, and what the
// group of the instance sets, stays and is named where the template says something else. What was applied last stands in an annotation of the Node, and is at first what the
// Node was built from. A Node that already is as it should be is not written, so the operation may be repeated.
//
// Everything else of a template takes a repave: [Decide] lists those fields, and nothing is changed then. The version
// that runs stays the one that the Node was built from.
package inplace
