// Package demandloop is the boundary between the engine of a shard's demand mode and the operators
// of the clusters that it serves.
//
// [Link] is what an operator's session asks of the loop, in plain types: the wire contract, streams
// and certificates are known to package demandapi alone, the engine to the loop alone. A cluster is
// named by its tenant, everywhere in this package: a tenant has one cluster on a shard.
package demandloop
