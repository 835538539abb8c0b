// Package victims says which instances of a pool go when it shrinks.
//
// Whoever asks for a smaller pool may name the machine that is to go, by an annotation on
// it: then that one goes and no other. Package distribution serves such marks first, in
// the order that [Marks] gives them, and says for each shard how many more have to go.
// [Shrink] chooses those, and turns the choice into what is written to the shard's group:
// a size, and the list of instances that are retiring.
//
// Size and list belong together. A server that is told a smaller size alone removes the
// instance that it likes least. So the server is told the size and the retiring
// instances on top ([Pushed]); what lowers its size is the deletion of a retiring
// instance, once per instance. An instance that goes without being on the list is
// replaced.
//
// [Remediate] chooses machines that a health check has given up, a few at a time.
//
// The package deletes nothing. Everything in it is a function of its arguments, changes
// none of them, and is safe for concurrent use.
package victims
