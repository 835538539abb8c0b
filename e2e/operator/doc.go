// Package operator tests the Kubernetes operator on the real thing: an API server that
// admits, the core of Cluster API, its webhooks, and machines with Nodes. Its tests have
// the build tag kube, and `make e2e` runs them; see package kube for what they run on.
//
// What the schemas and policies of the operator let pass is put to a real API server from
// the same tables by which they were written, and what Cluster API makes of our objects is
// shown without the operator: should a new release of it read them differently, a test
// says so before the operator goes wrong.
package operator
