// Package events tells the operators of one shard what happens: what becomes of instances and
// groups, and what is wrong.
//
// A [Broadcaster] lives as long as its leader's term. Publishing never waits: a watcher that
// does not read is cut off and has to begin again (L11). A watch begins with what there is, so
// that nothing is missed between that and the first event; a tenant is told of its own alone
// (S12).
//
// Lock order: the Broadcaster's, which keeps the events of an instance in the order of its
// row's revisions; the cache's; that of a hub. Groups and instances are described, and errors
// written down, under none of them.
package events
