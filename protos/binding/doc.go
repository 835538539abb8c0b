// Package binding is what the server, the agent and the program that runs with the machine's
// rights agree on about a machine's binding to a cluster: what a binding is named, what may be
// run for it, and with which labels and taints its Node registers.
//
// Each of the three checks by these rules what it is handed, for none of them trusts the one
// before it. How messages travel is the wire contract's (ClusterJoin, ClusterLeave), the files
// between agent and program are the agent's, and when a machine is bound is the server's.
//
// The package is pure. A blob is a secret: no error here quotes one.
package binding

import "regexp"

// Capability is what an agent says in its hello whose machine can join clusters.
const Capability = "cluster/v1"

// Bounds of what travels.
const (
	MaxBlob   = 1 << 20 // bytes that are run
	MaxOutput = 4 << 10 // bytes of output that are reported, the last ones
	MaxError  = 512     // bytes of the reason of a failure
	MaxLabels = 64
	MaxTaints = 64 // of both kinds together
)

var idPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// ValidID reports whether a binding can have this name: 1 to 64 letters, digits, "-" and "_",
// the first a letter or a digit. Such a name is no path, no option and needs no quotes.
func ValidID(id string) bool { return idPattern.MatchString(id) }
