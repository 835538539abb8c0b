// Package removal knows how an instance ends: the decision is made durable, its machine is
// taken from behind load balancers and deleted, and its record goes once nobody can bring the
// machine up again. A leader that loses the lease leaves the rest to the next one, which finds
// it in the records.
//
//   - [Remover.Condemn] records the decision of a plan, [Remover.CondemnNamed] that of a
//     caller; [Remover.ShortenDrain] and an acknowledged drain bring the delete forward. What a plan
//     may remove in a minute is bounded (S8), in the shard and in each group.
//   - [Remover.Delete] repeats the delete call until the provider accepts it, and asks until
//     the machine is gone. No call is sent while deletes are blocked ([Options.DeletesBlocked]).
//   - [Remover.CancelRevocable] cancels, at a take-over, what rests on a former leader's
//     judgement of health alone.
//
// Whether an instance has to go is decided by package fleet, in the plan of its group.
//
// Lock order: that of the bounds, then those of its windows. Nobody is called under them.
package removal
