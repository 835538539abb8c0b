// Package csr approves the client certificates of kubelets that run in node machines.
//
// [Decide] is pure and says what becomes of one certificate signing request. Approved is what a machine
// asks for that is being joined, with the credential that was made for this very machine and
// assignment, for the name of its own Node and nothing else; and what a Node of a machine asks for to
// renew its own certificate. Whatever else the credentials of machines ask for is denied, with the
// reason in an event. Requests of others, and for other signers, are left to others: nothing is said of
// them.
//
// [Reconciler] carries it out. An approval is counted in the status of the HostMachine before it is
// given, so that a crash between the two gives one too few and never one too many; a request is
// counted once, however often it is looked at.
//
// It owns status.certificates of HostMachines. A cluster must not approve requests of the service
// account in another way, as by a binding to one of the roles of the built-in approver.
//
// Rights, where the Nodes are: certificatesigningrequests list watch, their approval update, signer
// kubernetes.io/kube-apiserver-client-kubelet approve; events create patch. Where the HostMachines are:
// hostmachines list watch, their status patch; events create patch.
package csr
