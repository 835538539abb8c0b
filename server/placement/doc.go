// Package placement decides where the next machine of a group is tried: in which
// subnet of its pool, and as which of its instance types.
//
// A [Book] remembers what a provider has said about room: the offerings, a subnet
// and a type each, that it refused lately and that cool off; and how many machines
// still fit into a subnet, where the provider can be asked. Answers about subnets
// age. One that says that there is room is still used while a new one is fetched;
// one that says that there is none is asked for again before anything is tried.
// What this server has sent since, and what is on its way, is subtracted: a listing
// of free addresses knows of neither.
//
// A Book asks nobody and waits for nothing: [Book.Choose] names the subnets that
// somebody should ask about, and [Book.Answer] takes what they say. Time comes in
// as arguments. [Lookups] ask, in a loop of their own. Whether a group may create machines at all, and how fast, is
// decided elsewhere.
package placement
