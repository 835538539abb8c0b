package needs

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
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
