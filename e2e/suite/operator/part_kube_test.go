//go:build kube && !operator

package operator_test

// These tests are those of each commit: what only the others do, nobody has done.
const wholeSuite = false
