// Package lifecycle decides what comes next in the life of a host machine's node: whether the host
// is told to build one, whether what it has built has joined, and whether its Node is gone so that
// it is built again.
//
// [Decide] is pure: the machine, its Node, its instance, what its host reported and what it is to be
// built from give one [Decision], with the row of the table that it follows from (table.go), its
// reason, the phase and the conditions. It is level-triggered: nothing has to be seen to happen, and
// a pass that is repeated, or comes after a crash, decides what is left to do.
//
// What a caller must know:
//
//   - That a Node is gone is decided from live answers of the API server alone. [Absence] counts
//     them: two, at least [ConfirmAfter] apart, each of them NotFound or a Node of another UID.
//     Every other answer is none, and whoever has got one says [NodeUnknown].
//   - [Assign] is carried out by one write of the status, which names the next epoch and clears the
//     UID of the Node that was there, and is refused if the machine has changed since it was read. The
//     version is locked before. What follows is [Publish], as often as it takes; so a crash after
//     the write publishes the assignment, and never makes a second one.
//   - What was begun is finished: a machine that is paused, or whose configuration cannot be found
//     any more, starts nothing, and goes on with what its host was told already.
//
// [Brake] decides whether so many Nodes are gone at once that machines are repaved one by one.
//
// It leaves to others how a version is chosen (hosts/selection) and locked, where reports come from,
// and who deletes a Node (package nodes).
package lifecycle
