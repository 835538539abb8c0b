// Package peers lets the servers of a cluster ask each other who leads.
//
// Each server answers over HTTPS, on its election listener, whether it holds the
// shard's lock and the cluster's ([Handler]); a standby asks the leader with a
// [Client]. The answer is the lock document as the leader last stored it. Anybody
// may ask: it holds no secret, and scripts that move an address poll it. A standby
// is also told the etags of configuration and group file, so that it learns of both
// without a request to storage.
//
// On the way there a standby says whether it can reach the provider itself
// ([Witness]): a leader that can't gives the shard up only to one that can (L9).
// That counts if it comes with the certificate of a server of the shard; the
// caller decides who that is, as it makes all TLS settings.
//
// Package lease decides what follows from an answer.
//
// Lock order: a Client's and a Witness's are each taken alone, and nobody is called under
// either.
package peers

import "nstance.dev/server/lease"

// The paths of the two locks that a server may hold.
const (
	ShardPath   = "/leader/health"
	ClusterPath = "/leader/cluster/health"
)

// ETags are the versions of the shard's documents that a leader has in force.
// An empty one is not known.
type ETags struct {
	Config string `json:"configETag,omitempty"`
	Groups string `json:"groupsETag,omitempty"`
}

// Answer is what a server says of a lock that it holds, as JSON.
type Answer struct {
	lease.Document
	ETags
}
