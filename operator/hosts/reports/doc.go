// Package reports keeps what shards say of the hosts of node machines, in memory.
//
// A [Store] is the sink of the streams: it holds the last word about each instance, and tells those
// that asked for it by [Store.Source]. [Store.Host] is what the life of a machine is decided from. A
// shard is believed from the end of its snapshot on, and until its stream ends.
//
// Nothing is asked of a shard before somebody has called [Store.Want]: where no machine is a host,
// there is no stream.
//
// It leaves to others what follows from a report. Nothing is stored: after a start the shards say it
// again.
package reports
