// Package operator tests the Kubernetes operator on the real thing: an API server that
// admits, the core of Cluster API, its webhooks, and machines with Nodes. Its tests have
// the build tag kube, and `make e2e` runs them; see package kube for what they run on. What takes
// minutes has the tag operator too: `make e2e-operator` runs all.
//
// What the schemas and policies of the operator let pass is put to a real API server from
// the same tables by which they were written, and what Cluster API makes of our objects is
// shown in a namespace without an operator: should a new release of it read them differently,
// a test says so before the operator goes wrong.
//
// All else has the whole system: the operator's program as the chart installs it, with the
// rights of the chart, on three shards with real servers, and a Node for each of their
// machines. There are a few of these systems in one cluster, in namespaces of their own. A test
// has one for itself, makes pools of its own in it and leaves it as it was, so tests run beside
// each other, for they mostly wait. What they would wait for long, and is not what they are
// about, they have shorter: the Lease of an operator that was killed, or the bound of machines
// that a server deletes within a minute. What was asked of the API server, by whom and with which
// answer, its audit log says, and tests look there rather than at what the operator says of
// itself. TestO19_TheChartGrantsWhatIsUsed waits for all of them, and judges by that log what the operators may do; what one
// with host machines on may do with those has a cluster and a test of its own.
package operator
