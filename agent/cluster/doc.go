// Package cluster is what the agent and the program that runs with the machine's rights say to
// each other in files, about the machine's binding to a cluster.
//
// The agent writes a [Request] into its own directory, the program (package unit) takes it,
// does what it asks for and keeps a [Status], which the agent (package handover) reports to the
// server. Each file is replaced in one step, and read with a limit on its size.
//
// The two do not trust each other alike. The status is the program's and believed. A request
// comes from a process without rights: [Status.Next] says what may be done with it, for the
// agent, which answers the server by it, and for the program, whose answer counts.
//
// The package is pure, but for the encoding. No error here quotes a blob (S14).
package cluster
