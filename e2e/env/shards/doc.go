// Package shards runs the real servers of a cluster of several shards on this box, for
// tests of those who have to do with all of them: one server for each shard, on the
// provider whose machines are processes of this box, with one storage.
//
// [New] starts them. Their addresses stay the same when a server comes back after it was
// stopped ([Cluster.Stop]) or killed ([Cluster.Kill]), with its cache or without it, and one
// that runs can be out of reach of operators ([Cluster.CutOff]). What
// the servers have the test sees as an operator of its own does ([Cluster.Groups],
// [Cluster.Instances]), and others register with what [Cluster.Nonce] gives them.
//
// The programs are those of `make build`, and everything that was started ends with the
// test; see package box, which does the work.
package shards
