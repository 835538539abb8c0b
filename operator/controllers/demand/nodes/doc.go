// Package nodes tells shards what the cluster sees of the Nodes of their machines, and deletes the
// Nodes of machines that have left.
//
// Package operator/nodes says which Node is which machine's: by its provider id, or by what its
// kubelet says of itself together with an address that the server knows. The [Reconciler] writes on
// such a Node whose it is, and in the machine's UpcomingNode which Node it is; it reports whether the
// Node is ready, and how many of its Pods a drain would move. A Node is ready only when no startup
// taint is left, and the cloud controller has taken its own off.
//
// A Node is reported when it is matched, when it gets ready or ceases to be, when its last Pod that a
// drain would move leaves or the first comes, after each roll-up while there is none, and once in each
// session. Reports of many Nodes go together: [Reports] collects them.
//
// Where a machine has left the cluster, its Node object is deleted: on a machine that joins again the
// kubelet would find it, cordoned. [machines.DeletionOf] decides that. What shows that a machine has
// left is that it has no UpcomingNode any more, and that its Node was drained for an instruction, or
// its instance has ended; the first alone proves nothing.
//
// How Pods leave and how a drain is reported is left to others. A Reconciler changes nothing of a
// machine.
//
// Rights, where the Nodes are: nodes get list watch patch delete; pods list watch; daemonsets list
// watch; upcomingnodes list watch and their status patch; events create patch.
package nodes
