// Package demandoperator is the cluster's half of demand mode, for tests of the shard's half: an [Operator]
// that asks for what a test says, over real sessions with real servers, and a small cluster behind it.
//
// Machines join it by a script that makes a file, which is a Node, and leave it by one that removes the file;
// each Node runs at most one Pod. What the operator says of Nodes is what is the case in that cluster:
// a test scripts needs, refusals and how long drains take, and nothing else. It answers both channels
// on which a shard asks for drains, the session and the stream of instances, and drains a Node once
// whichever of them asks.
//
// It comes back to every new leader by itself, and writes down what it sees: which frames were exchanged,
// which Nodes each machine was, what was drained.
package demandoperator
