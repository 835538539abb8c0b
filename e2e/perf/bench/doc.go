// Package bench measures what the design promises. Each measure stands in a file
// of its own, whose comments say what is measured, against what, and which ratio
// is the goal.
//
// An absolute time means little on a machine that others use too. So every number
// is a ratio of two costs: ours, and that of a floor (the least work that could do
// the job) or of a peer, both taken in the same run, in turns, several rounds long.
// The least cost of each side counts, for noise only ever adds.
//
// The measures use what the server is made of, put together as a process does it:
// real listeners with TLS on the loopback interface, a real shard with its cache in
// a file, and stand-ins only for object storage and the cloud. Clients are plain
// gRPC clients; in measures of time they run in the same process, and pay for
// their half of the work with the same two hands.
package bench
