package needs

import (
	"crypto/sha256"
	"encoding/hex"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Selector chooses objects by their labels, as in Kubernetes.
type Selector struct {
	MatchLabels      map[string]string
	MatchExpressions []Requirement // In, NotIn, Exists and DoesNotExist
}

// Canonical returns the same text for selectors that are equal as sets, different ones for
// all others.
func (s Selector) Canonical() string {
	b := make([]byte, 0, 64)
	for i, key := range slices.Sorted(maps.Keys(s.MatchLabels)) {
		if i > 0 {
			b = append(b, '|')
		}
		b = appendPercent(b, key)
		b = append(b, '=')
		b = appendPercent(b, s.MatchLabels[key])
	}
	b = append(b, ';')
	return string(appendRequirements(b, NormalRequirements(s.MatchExpressions)))
}

// ParseSelector returns the selector of a canonical text; false: the text is none of one.
func ParseSelector(text string) (Selector, bool) {
	var s Selector
	labels, expressions, ok := strings.Cut(text, ";")
	if !ok {
		return s, false
	}
	for label := range fields(labels, "|") {
		key, value, ok := strings.Cut(label, "=")
		if !ok {
			return s, false
		}
		if s.MatchLabels == nil {
			s.MatchLabels = map[string]string{}
		}
		s.MatchLabels[unescape(key)] = unescape(value)
	}
	for expression := range fields(expressions, "|") {
		parts := strings.SplitN(expression, ":", 3)
		if len(parts) < 3 {
			return s, false
		}
		operator, err := strconv.ParseUint(parts[1], 10, 8)
		if err != nil || operator > uint64(DoesNotExist) {
			return s, false
		}
		r := Requirement{Key: unescape(parts[0]), Operator: Operator(operator)}
		for value := range strings.SplitSeq(parts[2], ",") {
			if r.Operator == In || r.Operator == NotIn {
				r.Values = append(r.Values, unescape(value))
			}
		}
		s.MatchExpressions = append(s.MatchExpressions, r)
	}
	return s, s.Canonical() == text
}

// fields splits a text; an empty one has none.
func fields(text, separator string) iter.Seq[string] {
	if text == "" {
		return func(func(string) bool) {}
	}
	return strings.SplitSeq(text, separator)
}

// CoLocation names what has to be in one topology domain: one required term of a Pod's
// affinity to other Pods.
type CoLocation struct {
	TopologyKey string
	// Namespaces of the Pods that are meant, and for a selector of namespaces one entry:
	// [NamespaceSelectorPrefix] and its canonical text.
	Namespaces []string
	Selector   Selector
}

// NamespaceSelectorPrefix is what an entry of CoLocation.Namespaces begins with that is not
// the name of a namespace.
const NamespaceSelectorPrefix = "sel:"

// GroupKey returns the key of the group: 32 lower case hexadecimal digits, the same for terms
// that are equal as sets, different ones for all others.
func (c CoLocation) GroupKey() string {
	b := appendPercent(make([]byte, 0, 128), c.TopologyKey)
	b = append(b, ';')
	for i, namespace := range normalStrings(c.Namespaces) {
		if i > 0 {
			b = append(b, ',')
		}
		// Names of namespaces are not changed by this. A selector has commas of its own.
		b = appendPercent(b, namespace)
	}
	b = append(b, ';')
	return shortHash(append(b, c.Selector.Canonical()...))
}

// Key names one row of one cluster for as long as the row says the same.
type Key [16]byte

// KeyOf returns the key of a row. clusterKey is the tenant; group and unitClass are empty
// where a row has none; stuck is 0 for an ordinary row.
func KeyOf(clusterKey, fingerprint, group, unitClass string, stuck uint32) Key {
	b := make([]byte, 0, 160)
	b = append(b, clusterKey...)
	for _, part := range []string{fingerprint, group, unitClass} {
		b = append(b, 0)
		b = append(b, part...)
	}
	if stuck > 0 {
		b = append(b, 0)
		b = append(b, "stuck"...)
		b = strconv.AppendUint(b, uint64(stuck), 10)
	}
	sum := sha256.Sum256(b)
	return Key(sum[:16])
}

// String returns the key in 32 lower case hexadecimal digits.
func (k Key) String() string { return hex.EncodeToString(k[:]) }

// MostStuck is the highest number of a row of stuck Pods.
const MostStuck = 16
