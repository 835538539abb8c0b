// Package webhooks looks at objects on their way into the API server: at pools, for what
// no schema can see (other pools, and what the shards know), and at Pods that ask for an
// instance of their own.
//
// [CheckPool] and [Mutate] decide, from their arguments alone. [PoolValidator] and
// [PodDefaulter] put them behind controller-runtime's webhook server. Both fail open: with
// the operator away pools are stored unchecked, and the pool's controller checks again;
// Pods get no gate, and the watcher of Pods does without.
//
// [Rival] finds another operator that is asked about the same Pods: only one of two may
// serve them.
package webhooks
