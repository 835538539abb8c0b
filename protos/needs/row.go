package needs

import (
	"cmp"
	"slices"
	"strings"
)

// Row is one need of a cluster: how much capacity of one kind. A Row that was handed out is
// never changed.
type Row struct {
	Profile     Profile // normal
	Fingerprint string  // of Profile
	Group       string  // key of the group; empty for most
	UnitClass   string  // size class of the units; empty in groups
	Stuck       uint32  // 0: an ordinary row; 1 to MostStuck: a row of stuck Pods
	// AllOrNothing: the row is of use only as a whole.
	AllOrNothing bool
	Aggregate    []Amount // sum over all units; sorted by name, each more than 0
	MinUnit      []Amount // componentwise maximum over them, in the same form
}

// Key returns the key of the row in a cluster, whose key is its tenant.
func (r *Row) Key(clusterKey string) Key {
	return KeyOf(clusterKey, r.Fingerprint, r.Group, r.UnitClass, r.Stuck)
}

// CompareRows orders rows as they are sent: by descending priority, then by what tells them
// apart. Two rows of one cluster never compare as equal.
func CompareRows(a, b *Row) int {
	return cmp.Or(cmp.Compare(b.Profile.Priority, a.Profile.Priority), strings.Compare(a.Fingerprint, b.Fingerprint),
		strings.Compare(a.Group, b.Group), strings.Compare(a.UnitClass, b.UnitClass), cmp.Compare(a.Stuck, b.Stuck))
}

// EqualRows says whether two rows say the same. Equal fingerprints stand for equal profiles.
func EqualRows(a, b *Row) bool {
	return a == b || CompareRows(a, b) == 0 && a.AllOrNothing == b.AllOrNothing &&
		slices.Equal(a.Aggregate, b.Aggregate) && slices.Equal(a.MinUnit, b.MinUnit)
}

// Overhead is what every machine that it matches carries for one DaemonSet.
type Overhead struct {
	Requirements []Requirement
	Alternatives [][]Requirement
	Tolerations  []Toleration
	Resources    []Amount // sorted by name, each more than 0
}

// EqualOverheads says whether two overheads say the same, as sets.
func EqualOverheads(a, b Overhead) bool {
	profile := func(o Overhead) string {
		return string(Profile{Requirements: o.Requirements, Alternatives: o.Alternatives, Tolerations: o.Tolerations}.Canonical())
	}
	return slices.Equal(a.Resources, b.Resources) && profile(a) == profile(b)
}
