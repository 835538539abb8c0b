package identity

import "strings"

// MaxHostname is the length of the longest host name, in bytes; see RFC 1123.
const MaxHostname = 253

// ValidHostname reports whether s is a host name by RFC 1123: one label or several with
// dots between them, of letters, digits and "-", in capitals or not.
func ValidHostname(s string) bool {
	if s == "" || len(s) > MaxHostname {
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
