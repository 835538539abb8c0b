// Package files receives the files that the server delivers, and puts them in place
// together.
//
// A file is staged first: its name and content are checked and it is written beside its
// target, invisible to those who read the directory. A commit then applies everything
// that was staged since the one before, and the hash of the configuration that the batch
// completes: all of it or nothing. A batch with a file that was refused is not applied,
// because the hash would promise what is not there.
//
// Readers on the machine see each file change in one step, by a rename. Between renames a
// crash can come: so a commit writes down first what it is about to do, and [Open] finishes
// what it finds written down. Before that note is on disk the commit has not happened,
// after it nothing undoes it. What was staged and not committed is thrown away.
//
// Beside the files stands a manifest of what was delivered. By it a file that somebody
// changed or removed is noticed, and reported, so that the server sends it again. Without
// it nothing counts as delivered.
//
// Nothing here interprets or runs what it receives. A [Store] is used by one goroutine at
// a time.
package files
