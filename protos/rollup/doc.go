// Package rollup carries a cluster's needs over the wire of demand mode.
//
// A [Writer] is the operator's end of one session: it numbers roll-ups, splits what is too
// large for one message into parts, and refers to the last roll-up where nothing has
// changed. A [Joiner] is the shard's end: it joins the parts, complete or not at all, and
// resolves references. [Decode] checks a joined roll-up and turns it into rows without
// messages; whatever is wrong rejects the whole, with the field and its place.
//
// Nothing here waits, reads a clock or is safe for concurrent use: a Writer belongs to the
// goroutine that sends, a Joiner to the one that receives. Everything is bounded: a part by
// [MostBytes], a roll-up by [MostParts].
//
// What a roll-up is made of is up to package needs and to the operator's package aggregate,
// what becomes of it to the shard.
package rollup
