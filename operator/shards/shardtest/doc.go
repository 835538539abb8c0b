// Package shardtest is a cluster of shards in memory, for tests of whatever talks to
// shards: real gRPC over real TLS 1.3 with certificates of an authority of its own, on
// connections in memory. So it works under the fake clock of testing/synctest, and as well
// beside a real Kubernetes API server.
//
//	c := shardtest.NewCluster(t)             // inside the bubble, if there is one
//	a := c.Shard("us-west-2a")               // what the shard knows
//	a.Serve("10.0.0.1:8993")                 // a server of it, at an address of any name
//	a.AddGroup("default", shardtest.Group{Key: "web", Size: 2})
//	set := shards.NewSet(shards.Options{
//		Cluster: c.ID, Tenant: "default", Credentials: c.Operator("default"), Dial: c.DialContext, Sink: sink, Streams: streams,
//	})
//
// A [Shard] behaves as a server does in what clients can tell: tenants do not see each
// other, revisions grow, a size is lowered once per instance, etags and managers are
// compared, static groups are locked, instances drain and are acknowledged, a deleted one
// never returns, watchers get a snapshot first. What takes a server time happens at
// [Shard.Step], which takes every instance one step further, and at [Shard.Settle]; or by
// itself with [Shard.SetAuto].
//
// What goes wrong is set with [Shard.Break]; a new leader comes with [Shard.Restart], and
// [Shard.Calls] tells what was asked for.
//
// A server at an address serves the operator's API, registration and sessions of demand mode,
// of which [Shard.Demand] is the shard's end. What the fake
// leaves out: configuration files, pauses, explanations, sleep and held machines answer
// Unimplemented.
package shardtest
