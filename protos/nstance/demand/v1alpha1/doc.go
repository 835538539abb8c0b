// Package demandpb is the wire contract of demand mode: what the operator of a Kubernetes
// cluster and the leader of a shard say to each other about capacity over gRPC.
//
// The operator dials and keeps one stream ([ShardServiceClient.Session]). Up go the
// capacity that the cluster needs, as one complete roll-up each time, and what becomes of
// Nodes; down come the states of machines, instructions to give Nodes back, requests for
// bootstrap data and hints about what can be bought.
//
// The .proto files beside this one are the source and the API reference; the rest of the
// package is generated from them and committed. Regenerate with `make generate`.
//
// The contract grows by adding. A receiver ignores fields that it does not know, and
// rejects a whole message with an enum value or a penalty bucket that it does not know:
// nothing is ever coerced. What a decoded message has to satisfy beyond its types is
// checked by package rollup; the canonical form of a need, its fingerprint and its key are
// computed by package needs.
package demandpb
