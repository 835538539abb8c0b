// Package kubeadm tests that the reference template of the operator's chart for kubeadm makes Nodes: what it renders
// is run on a machine that boots, and joins a control plane that kubeadm has made.
//
// All of it is real but for the cloud: the cluster is one of kind, the machine is bought by a shard and boots the
// user data of deploy/userdata in systemd-nspawn (package nspawn), with the agent and the program of root that runs
// what the shard hands over, and container runtime, kubelet and kubeadm of the node image. The test has the build tag
// kind: `make e2e-kind` runs it.
package kubeadm
