// Package hostile makes hostile attempts on a cluster of real processes, and is a table
// of them: one row for each attempt, with what the server answers while it holds.
//
// Whoever attacks has the worst that there is: the keys of the cluster's authority and of
// its nonces, with which tokens and certificates are forged. What is refused all the same
// is refused for what a server knows, not for what the attacker lacks.
//
// The tables are in test files, one or two for each area. A row is an attempt: the number
// of the promise that it is about, its name, the answer, and how it is made. Areas share a
// cluster of three tenants; those that would disturb others have one of their own. The
// rows are counted, so that none gets lost.
//
// With `-programs DIR` the programs of another build are attacked: those of an earlier
// release, for instance, to see what it does not hold.
package hostile
