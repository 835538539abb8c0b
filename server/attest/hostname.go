package attest

import (
	"slices"
	"strings"
)

// special reports whether a name, in lower case, is one that machines resolve to
// something else: this host itself, an address, a service of Kubernetes, a server of
// Nstance.
func special(name string) bool {
	labels := strings.Split(name, ".")
	switch last := labels[len(labels)-1]; {
	case last == "localhost" || last == "nstance" || name == "nstance-server":
		return true
	case strings.Trim(last, "0123456789") == "": // read as an IPv4 address by most resolvers
		return true
	case name == "kubernetes" || strings.HasPrefix(name, "kubernetes.default"):
		return true
	}
	return slices.Contains(labels, "svc") || strings.HasSuffix(name, "cluster.local")
}
