// Package status describes the groups and instances of one shard as its operators see them:
// what a group should be and what there is of it, and what is known of an instance.
//
// A [Reader] reads what a leader's term knows, and keeps the [Summaries] that the loop leaves:
// what was last decided of each group, and its conditions. Each description has a
// revision. Those of a tenant's groups are counted for each tenant, so that they tell nothing
// of others (S12); an instance's is that of its row; both grow from one leader to the next
// (S17). The revision of a group is taken before the group is looked at: a description tells
// at least what was true when its revision was taken, and whoever changes something has the
// group described afterwards, so that the highest revision tells the last of it.
//
// Lock order: that of the revisions and that of the [Summaries] are each taken alone, and
// nobody is called under either.
package status
