// Package assignment makes what a host is told to build: a template as the wire has it, with defaults
// filled in, and what the group of the instance sets of its Nodes.
//
// It is pure. It leaves to others where the template comes from, which must be locked by then, and the
// credential, which no assignment holds.
package assignment
