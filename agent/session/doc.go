// Package session keeps the one stream that an agent has with the leader of its shard,
// for as long as the agent runs.
//
// [Session.Run] opens the stream, does what the server asks over it (keys, files, commits)
// and reports; when the stream ends, for whatever reason, it opens another. It never gives
// up: a machine works on without a server, and what was delivered stays in place. When its
// context ends it says goodbye by a half-close, which tells the server that the absence is
// meant, and waits two seconds for the answer.
//
// All state belongs to the goroutine of Run; one more per stream only receives. What is to
// happen when (reports, renewal, opening anew) are moments in a schedule that the loop
// looks at after each event, so that nothing depends on a timer having fired.
package session
