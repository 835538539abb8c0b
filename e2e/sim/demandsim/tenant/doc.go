// Package tenant is a model of the demand half of the operator of one cluster, for simulations:
// what it tells the shard, and what it does with a cluster when the shard asks.
//
// Roll-ups are made by the operator's own code: package translate says what each Pod asks for and
// package aggregate sums it up. Package fit answers whether a drain would leave Pods without a
// place. Around them are models: of a session that breaks, of caches that are empty after a
// restart, of drains that obey budgets, of reports about Nodes.
//
// An Operator does nothing by itself. [Operator.Step] lets it go on to a moment and returns what it
// would have sent; callers carry that to the shard, or lose it. It is for one goroutine.
package tenant
