// Package install reads what pages have their readers do, for tests that do it: those of
// the installation of the operator follow README.md and docs/kubernetes/install.md to the
// letter, with the real helm, kubectl and clusterctl, on a real control plane (build tag
// kube). Only names of places differ: addresses, the bucket, where files lie.
//
// There is no kubelet. The tests start the operator's program themselves, when its
// Deployment is there and as that says: with its arguments, its variables and its
// configuration, and with a token of its ServiceAccount, so that it may do what the
// installation grants it and no more.
//
// The example manifests are tried here too: without a control plane against the schemas
// of their kinds, and on one with all that decides there.
package install
