// Package offers makes of the groups of a shard what package demand buys from: offers with prices,
// groups with bounds, quota pools, and the class of every machine.
//
// [Of] is pure: groups, the catalogue of the provider and the configuration in, a [Book] out. A group
// of mode demand becomes one offer for each instance type and each way to pay for it; types come from
// its list or from its requirements. What cannot be offered is a [Problem] of the group, with the
// reason: an unknown type, capacity without a price, spot capacity without a probability
// of interruption. The rest of the group is offered all the same.
//
// Amounts are integers from here on: millionths of a dollar, thousandths of a core, bytes.
//
// What a cluster's DaemonSets take of a machine is left to package demand, and so is what Nodes say of
// their allocatable. A [Keeper] holds the Book that is in force and makes another one when something
// has changed that it is made of; it asks for nothing itself.
package offers
