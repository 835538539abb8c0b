// Package nodes stands in for kubelets in tests: an [Agent] is the Node of one machine
// that runs no containers. It registers the Node with the machine's provider ID, renews
// its Lease, says that it is ready, and reports for each Pod on it what a kubelet would
// report if its containers started at once and ended as soon as they are told to. That
// is enough for the scheduler, for disruption budgets, evictions and drains, and for
// whoever waits for a Node to join.
//
// What a Pod's containers do other than that its annotations say: [Finish], [Stubborn].
// There are no probes, no volumes, no logs, and no network: a Pod has the address of its Node.
//
// An agent is a client of the API server like any other: in the process of a test, where
// [Boot] runs it for as long as the test lasts, or as the program of a machine. With the
// credentials of its Node it gets what the Node authorizer allows, as a kubelet does.
// An agent whose context ends is a machine that lost its power: it says nothing more,
// and what is gone others have to find out.
package nodes
