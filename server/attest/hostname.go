package attest

import (
	"slices"
	"strings"
)

const maxHostname = 253 // bytes, RFC 1123

// ValidHostname reports whether s is a host name by RFC 1123, dots allowed.
func ValidHostname(s string) bool {
	if s == "" || len(s) > maxHostname {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if !validLabel(label) {
			return false
		}
	}
	return true
}

func validLabel(label string) bool {
	if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
		return false
	}
	for _, c := range []byte(label) {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-') {
			return false
		}
	}
	return true
}

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
