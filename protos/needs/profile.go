package needs

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
)

// Spread asks for units to be spread over the values of a label. Only constraints that
// forbid scheduling are carried.
type Spread struct {
	TopologyKey string
	MaxSkew     int32 // at least 1
}

// Effect is what a taint does, by its number on the wire.
type Effect uint8

// The effects. The zero value stands for all of them, in tolerations alone.
const (
	AllEffects Effect = iota
	NoSchedule
	PreferNoSchedule
	NoExecute
)

// Toleration says which taint does not matter.
type Toleration struct {
	Key    string // empty, with Exists: every taint
	Exists bool   // any value is tolerated
	Value  string // the value that is tolerated, unless Exists
	Effect Effect
}

// Profile is what machines must satisfy to serve a need, and what it costs to disturb it.
// The zero value asks for nothing and is not valid on the wire: its buckets are unspecified.
type Profile struct {
	Requirements []Requirement
	Alternatives [][]Requirement // none, or 2 to 8: at least one holds beside Requirements
	Spread       []Spread
	Tolerations  []Toleration
	Priority     int32 // higher wins
	Interruption Bucket
	Reclamation  Bucket
}

// Normal returns the profile with each of its lists as a set: sorted, without duplicates.
// It shares nothing that it would have to change with p.
func (p Profile) Normal() Profile {
	p.Requirements = NormalRequirements(p.Requirements)
	p.Alternatives = NormalAlternatives(p.Alternatives)
	p.Spread = normal(p.Spread, func(a, b Spread) int {
		return cmp.Or(strings.Compare(a.TopologyKey, b.TopologyKey), cmp.Compare(a.MaxSkew, b.MaxSkew))
	})
	p.Tolerations = NormalTolerations(p.Tolerations)
	return p
}

// NormalTolerations returns a sorted copy without duplicates.
func NormalTolerations(ts []Toleration) []Toleration {
	return normal(ts, func(a, b Toleration) int {
		return cmp.Or(strings.Compare(a.Key, b.Key), cmp.Compare(a.operator(), b.operator()),
			strings.Compare(a.Value, b.Value), cmp.Compare(a.Effect, b.Effect))
	})
}

// normal returns a sorted copy without duplicates.
func normal[T comparable](list []T, compare func(a, b T) int) []T {
	if len(list) == 0 {
		return nil
	}
	sorted := slices.Clone(list)
	slices.SortFunc(sorted, compare)
	return slices.Compact(sorted)
}

// operator is that of a requirement which says the same: a value, or any.
func (t Toleration) operator() Operator {
	if t.Exists {
		return Exists
	}
	return In
}

// WithSame returns the profile with the requirement that all machines have the same value of
// a label, once, however often it is asked for.
func (p Profile) WithSame(topologyKey string) Profile {
	same := Requirement{Key: topologyKey, Operator: Same}
	if slices.ContainsFunc(p.Requirements, func(r Requirement) bool { return CompareRequirements(r, same) == 0 }) {
		return p
	}
	p.Requirements = append(slices.Clip(p.Requirements), same)
	return p
}

// Canonical returns the canonical bytes of the profile: the same for profiles that are equal
// as sets, different ones for all others.
func (p Profile) Canonical() []byte {
	return p.Normal().appendCanonical(make([]byte, 0, 256))
}

// appendCanonical writes a normal profile.
func (p Profile) appendCanonical(b []byte) []byte {
	b = append(b, "1;"...)
	b = appendRequirements(b, p.Requirements)
	b = append(b, ';')
	for i, s := range p.Spread {
		if i > 0 {
			b = append(b, '|')
		}
		b = appendPercent(b, s.TopologyKey)
		b = append(b, ':')
		b = strconv.AppendInt(b, int64(s.MaxSkew), 10)
	}
	b = append(b, ';')
	for i, t := range p.Tolerations {
		if i > 0 {
			b = append(b, '|')
		}
		b = appendPercent(b, t.Key)
		b = append(b, ':')
		b = strconv.AppendUint(b, uint64(t.operator()), 10)
		b = append(b, ':')
		b = appendPercent(b, t.Value)
		b = append(b, ':')
		b = strconv.AppendUint(b, uint64(t.Effect), 10)
	}
	b = append(b, ';')
	b = strconv.AppendInt(b, int64(p.Priority), 10)
	b = append(b, ';')
	b = strconv.AppendUint(b, uint64(p.Interruption), 10)
	b = append(b, ';')
	b = strconv.AppendUint(b, uint64(p.Reclamation), 10)
	for i, alternative := range p.Alternatives {
		if i == 0 {
			b = append(b, ';')
		} else {
			b = append(b, '&')
		}
		b = appendRequirements(b, alternative)
	}
	return b
}

// Fingerprint returns the hash of the canonical profile: 32 lower case hexadecimal digits.
func (p Profile) Fingerprint() string { return shortHash(p.Canonical()) }

// shortHash returns the first 16 bytes of the SHA-256 of b in hexadecimal digits.
func shortHash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}
