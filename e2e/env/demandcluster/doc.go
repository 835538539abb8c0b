// Package demandcluster is a Kubernetes cluster that gets its Nodes in demand mode, for tests of
// the whole way from a Pod that is pending to a Node and back.
//
// [Start] puts together what is real in it: a control plane with kube-scheduler and
// kube-controller-manager, the operator from its chart, with the rights that the chart gives it,
// and servers of shards (package shards, of which several clusters may have the same) whose
// machines are processes of this box. A machine that is handed the cluster's blob makes itself a
// Node by package nodes, which plays its kubelet, and leaves by the script that joining has put
// there. What is not real is what runs in Pods.
//
// [Cluster.Left] says what a test has left over, [Usage] what operators were refused,
// and which of their rights none has used.
package demandcluster
