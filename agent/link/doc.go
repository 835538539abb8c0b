// Package link is how the agent finds a server and connects to it.
//
// A [Book] says which address comes next, a [Dialer] makes the connection, and
// [Reconnect] and [Enrol] say how long to wait when all addresses have failed. What is
// said over the connection is the business of packages enroll and session.
//
// Whatever address is dialled, the server must prove the name of the agent's shard with a
// certificate of the cluster's own authority. So a stale list, a wrong file or a hint from
// another server can cost time and never lead to a stranger.
package link
