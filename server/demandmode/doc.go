// Package demandmode is the demand mode of one leader's term: it begins with the first group that asks
// for it, and brings together what package demandloop decides by and what it acts with.
//
// A shard without such a group has a [Mode] that waits to be woken, and nothing else: no engine, no
// catalogue of offers, no look at any instance. Once begun, the mode stays until the term ends, for
// machines may be left of groups that were changed.
//
// Offers are made by package offers; instances are bought by package provisioning, end by package
// removal, and are told to join clusters by package agents. Who calls [Mode.Changed] and the like need
// not know whether the mode has begun: nothing is lost, since the loop looks at every instance first.
package demandmode
