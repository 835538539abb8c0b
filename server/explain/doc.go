// Package explain says why: it turns what package fleet plans into decisions
// that are kept and shown, each with its reason and, if it is not carried out,
// with what blocks it.
//
// [Evaluate] is the last word before anything is sent: it splits a plan into the
// actions that go out and those that are blocked: by a pause, a
// listing that cannot be believed, a full queue. What it shows is what an
// operator is told would be next, so that an explanation and the next pass of
// the loop are one computation, not two. [News] leaves out what was already
// said, [Conditions] names the states of affairs behind it all.
//
// Everything here is pure: no clock, no I/O, no order of maps. Keeping decisions
// is the business of package cache, sending actions that of package shard.
package explain
