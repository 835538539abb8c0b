// Package jointoken keeps a token with which machines join the workload cluster: a Secret of the
// kind that kubeadm makes, in kube-system.
//
// A [Keeper] makes a token when it starts, another one at half the life of each, and deletes
// each after its end. It makes none while no template calls for one. [Keeper.Token] returns the
// newest from memory, so what renders bootstrap blobs never waits for the API server.
//
// It reads no Secret. Who may read and create Secrets of kube-system can have the token of any
// of its service accounts; so the keeper creates and deletes, under a few names that follow from
// cluster, tenant and time ([Names]), and its right to delete can be bound to those. What a
// process leaves behind that has ended, the next one deletes when its time comes.
package jointoken
