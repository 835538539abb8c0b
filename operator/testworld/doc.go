// Package testworld is the surroundings of the operator for tests: an API server in memory,
// shards that inject faults, connections to them and an inventory that hears what they say.
// All of it runs under the fake clock of testing/synctest.
//
//	testworld.Run(t, []string{"a", "b"}, func(t *testing.T, w *testworld.World) {
//		w.Shard("a").AddGroup(testworld.Tenant, shardtest.Group{Key: "web", Size: 2})
//		w.Create(pool)
//		reconciler.Reconcile(t.Context(), request)
//	})
//
// Nothing reconciles by itself: a test says when and in which order, and lets time pass with
// [ShardWorld.After]. A [ShardWorld] has the shards alone.
//
// The API server is the fake client of controller-runtime, which knows the kinds that the
// operator works with and merges server-side apply by the same schemas as a real one. It
// validates nothing and admits everything; what a real API server refuses has tables of its
// own. Package apiserver puts a network, watches and faults around the same one, for tests that
// run whole managers. No package of the product imports either.
package testworld
