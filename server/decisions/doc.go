// Package decisions keeps in object storage what a shard has decided lately, so that
// an explanation survives a restart and a change of leader.
//
// A [Keeper] lives as long as a term. It reads at the take-over what the leader before
// has stored, and stores what the cache has then, at most once a minute while there is
// news, and a last time at the hand-over. What was decided after the last write of a leader
// that ended otherwise is lost; [Keeper.Gaps] says when. Nothing follows from a stored
// decision: a document that is lost or damaged costs an explanation and no more.
//
// A Keeper is safe for concurrent use. It calls nobody under its lock.
package decisions
