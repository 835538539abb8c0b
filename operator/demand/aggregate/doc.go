// Package aggregate adds up what CapacityRequests ask for to the rows of a roll-up.
//
// An [Aggregator] is kept by the operator: [Aggregator.Set] and [Aggregator.Delete] follow the
// objects, [Aggregator.Rows] returns what they add up to. Requests with one profile and one
// group are one row, of a size class of units unless that is switched off; what each row asks
// for is the exact sum over its members, and the least unit the componentwise maximum.
// [Build] makes the same rows at once: any order of the same requests, whole or in steps,
// gives equal rows in equal order.
//
// Where Pods of a group run already, [Item].Domains pins the rest of it to their domain.
//
// [Place.Counted] says which of the requests count at all, by where their Pods run.
// [Overheads] finds what each machine carries for DaemonSets.
//
// The package is pure and an Aggregator is not safe for concurrent use. Here, and nowhere
// else, dollars become buckets and a co-location becomes the requirement Same. It leaves to
// others where requests come from (package translate, the API server), how rows travel
// (package rollup of protos) and what is done for them (the shards). What it takes a shard
// takes: one request that is not valid is skipped, so that it cannot have a whole roll-up
// rejected.
package aggregate
