// Package kube starts a Kubernetes control plane for tests: etcd, kube-apiserver, and as
// asked for kube-controller-manager, kube-scheduler and the core of Cluster API with its
// webhooks. They are the real programs, built by `make kube-components`; where one is
// missing the test fails and says so. Nodes are not made here: see package nodes.
//
// [Start] gives a test a [Cluster] of its own, [New] gives one to whoever has no test.
// It answers on 127.0.0.1, has a directory of its own, and its processes end with the
// test, also when that is killed: the kernel sees to it. Their output stands in the
// test's artifact directory, and its end in the test's log if the test fails.
//
// # Places
//
// That is how it is [Here]. The same tests run on clusters of [Kind], one for each that Start
// is asked for, and with the cluster that is [Given] to them; the environment says which. There
// Cluster API is a Deployment, as its release installs it. What a test cannot do everywhere
// it says first, by [Needs].
//
// # Network
//
// Most components listen where they are told, but the webhook server of Cluster API
// listens on every address. So the tests of a package run in a network namespace where
// there is only loopback: its TestMain runs [OwnNetwork] of them. The test program starts
// itself again in it, because a namespace belongs to a thread and a Go program has many.
// Everything that tests start is in that namespace too. Nothing outside can be reached
// from there, and nothing there from outside. A Service leads to whoever listens in it at
// the Service's port. That takes root; without it the tests run in the network that they
// find, and say so.
//
// Ports come from below the range that the kernel uses for outgoing connections, so
// that a component finds its port free when it comes back after a while, and no client
// that redials it connects to itself.
//
// # Identities
//
// Everybody has a certificate of the cluster's own authority: [Cluster.Admin] may do
// all, [Cluster.User] makes a user with any name and groups, a ServiceAccount among
// them, who may do what RBAC grants him. The components have the users that they have
// in a real cluster, and Cluster API has the roles of its release. [Cluster.Audit]
// tells what each of them asked for.
package kube
