// Package reclaim gives Nodes back that a shard asks for: it refuses or cordons them, has them
// drained, and reports how that has ended.
//
// [Reconciler.Reclaim] answers an instruction of a shard. What is surplus is refused where an
// annotation of the Node or of one of its Pods says so, or where the Pods find no other place
// (package demand/fit). Other Nodes are cordoned before the answer, so that it states a fact. How
// Pods leave is left to package drain, whose engine asks [Requests] for what is to be drained; how
// the drain has ended it writes on the Node, and the Reconciler tells the shard from there. So an
// instruction outlives a session, and the process: what the next one needs stands on the Node.
//
// What a caller must know: an instruction that is not answered is repeated by its shard, and one
// that is known is answered again and begins nothing. No answer is given while the API server does
// not answer, or while it is uncertain which Node a machine is: an answer without a Node would have
// the shard take the machine away. A shard that takes its machine back, and whose word was lost with
// its session, is believed once the machine serves by its UpcomingNode for [servesFor].
//
// Decide (decide.go) is a function of its arguments. Locks: that of the requests and that of the
// check of the room, under which nobody is called.
//
// Rights, where the Nodes are: nodes get list watch patch; pods list watch; namespaces list watch;
// daemonsets list watch; upcomingnodes list watch and their status patch; events create patch.
package reclaim
