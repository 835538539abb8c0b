//go:build kube && operator

package operator_test

// These tests are all that there are.
const wholeSuite = true

func init() {
	ofBoth = append(ofBoth, TestO3_O4_ImportMovesNothing, TestO12_AMachineDeploymentStampsMachines)
}
