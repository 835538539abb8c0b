// Package hostlink is the agent's side of its conversation with the paver of its host, the
// program that builds node machines with the rights of root. The agent only relays: what the
// server says of the machine goes down, what the paver reports goes up.
//
// A [Link] connects to the paver's socket for as long as it runs, and again whenever the
// connection ends. It holds what is in force in memory - the assignment, its credential, its
// confirmation, the operations that are not over - and says all of it again after each connect,
// so that a paver that was restarted lacks nothing. Nothing is written down: after a restart of
// the agent the server says it again.
//
// On a host without a paver a Link costs one attempt to connect in half a minute.
//
// The agent believes a program on the socket only if it runs as root, or as the agent's own
// user. It looks into no message beyond the epoch that says which belong together, and logs
// none.
package hostlink
