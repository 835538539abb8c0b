// Package delivery decides which files a machine is sent, and when.
//
// A [Ledger] remembers what one machine has reported and what it was sent. [Ledger.Plan]
// compares that with what the machine's configuration wants and says what is lacking, each
// file with its reason; whoever carries the plan out notes it in the ledger. Nothing
// here renders, signs, reads or sends anything, or looks at a clock.
//
// The rules:
//
//   - Nothing is sent before the first report of a stream. A file that the machine does not
//     have, or reports an error about, is sent; so the first report of a new machine,
//     which lists none, asks for all.
//   - A machine with another configuration hash gets all files but certificates, and the
//     new hash with the commit after them: all of them or none.
//   - A certificate needs the public half of its key, which is asked for. It is issued
//     anew for another key or other names, and when two thirds of its life are over (L10):
//     of the life that it has, where it ends with the authority that signed it.
//   - What has just been sent is not sent again at once: a minute has to pass, then two,
//     then four, at most thirty. Other content, or another key, does not wait.
//   - What was staged on a stream is lost with it.
//
// A ledger belongs to one leadership of one server. The next leader begins an empty one: what
// a machine has, its reports say.
package delivery
