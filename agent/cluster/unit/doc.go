// Package unit is the program that runs with the machine's rights what makes the machine join a
// cluster and leave it: `nstance-agent cluster-unit`, started by nstance-cluster.path and
// nstance-cluster.service.
//
// It takes the requests that the agent has left in its directory, one after the other, runs each
// binding's blob once and, when it is to leave, the executables of a directory that the
// administrator has filled; and it keeps the status, from which the agent learns what became of
// them. What is run when is decided by [cluster.Status.Next].
//
// # What is trusted
//
// Whoever speaks for the agent can have this program run a blob with all rights: that is what it
// is for, and a machine on which that must not be does not install it. It adds nothing to that.
// In particular the agent's process cannot make it
//
//   - write, change or remove anything but requests: no component of the path to the requests may
//     be a link, they are opened and removed relative to the open directory, and everything else
//     is written below a directory of the program's own, into which no other user may write;
//   - run something other than what was checked: a request is read once, with a limit, and what
//     is run is the program's own copy;
//   - run a binding twice, or one beside another;
//   - read a file for it: what is no regular file is not opened for long, what is no request is
//     not quoted.
//
// The blob is a secret (S14). It is in no log, no argument and no environment; the copy is in a
// directory of mode 0700 and is removed when it has run. Of what it prints the last bytes go into
// the status, which is open to the program and the agent's group, and nothing goes into the
// journal.
package unit
