// Package vector is the arithmetic of resource amounts: what a machine has, what a need asks for,
// and how the one is drawn from the other.
//
// A [Space] gives each resource name of a shard an index, and a [Vector] holds one amount for each
// index. Everything is exact integer arithmetic: sums saturate, differences stop at zero, and
// quotients are compared by cross multiplication of 128 bits, so that every architecture decides
// the same. What the amounts are for, and whose they are, is left to the callers.
//
// The functions allocate nothing. A Space is not safe for concurrent change; Vectors are values.
package vector

import (
	"math"
	"math/bits"
	"slices"
)

// Width is how many resource names a shard can tell apart.
const Width = 16

// The indexes that every Space begins with.
const (
	CPU       = iota // in thousandths of a core
	Memory           // in bytes
	Pods             // a count
	Ephemeral        // ephemeral storage, in bytes
)

// Vector holds one amount for each resource of a [Space]. The zero Vector is nothing at all.
type Vector [Width]int64

// Mask is a set of resources, by index.
type Mask uint16

// Amount is so much of one resource: cpu in thousandths of a core, all others in base units.
type Amount struct {
	Name   string
	Amount int64
}

// Space numbers the resource names of one shard in the order in which they are met.
type Space struct {
	names []string
}

// NewSpace returns a Space that knows cpu, memory, pods and ephemeral-storage.
func NewSpace() *Space {
	return &Space{names: []string{"cpu", "memory", "pods", "ephemeral-storage"}}
}

// Index returns the index of a name, and false where it has none.
func (s *Space) Index(name string) (int, bool) {
	i := slices.Index(s.names, name)
	return i, i >= 0
}

// Name is the name of an index that the Space has given.
func (s *Space) Name(i int) string { return s.names[i] }

// Intern returns the index of a name, which gets one if there is room; false: there is none.
func (s *Space) Intern(name string) (int, bool) {
	if i, ok := s.Index(name); ok {
		return i, true
	}
	if len(s.names) == Width {
		return 0, false
	}
	s.names = append(s.names, name)
	return len(s.names) - 1, true
}

// Len is how many names have an index.
func (s *Space) Len() int { return len(s.names) }

// Vector returns the amounts as a Vector. Repeated names add up, negative amounts count as zero.
// False: a name found no room, and its amount is left out.
func (s *Space) Vector(amounts []Amount) (v Vector, complete bool) {
	complete = true
	for _, a := range amounts {
		i, ok := s.Intern(a.Name)
		if !ok {
			complete = complete && a.Amount <= 0
			continue
		}
		v[i] = add(v[i], max(a.Amount, 0))
	}
	return v, complete
}

// Amounts returns the positive amounts of v with their names, in the order of the indexes.
func (s *Space) Amounts(v *Vector) []Amount {
	var all []Amount
	for i, name := range s.names {
		if v[i] > 0 {
			all = append(all, Amount{Name: name, Amount: v[i]})
		}
	}
	return all
}

// Unknown returns the positive amounts whose names have no index: a Vector cannot hold them.
func (s *Space) Unknown(amounts []Amount) []Amount {
	var all []Amount
	for _, a := range amounts {
		if _, ok := s.Index(a.Name); !ok && a.Amount > 0 {
			all = append(all, a)
		}
	}
	return all
}

// Sum adds amounts of one name up, and keeps the order in which the names come first.
func Sum(amounts []Amount) []Amount {
	var all []Amount
	for _, a := range amounts {
		if i := slices.IndexFunc(all, func(o Amount) bool { return o.Name == a.Name }); i >= 0 {
			all[i].Amount = add(all[i].Amount, a.Amount)
		} else {
			all = append(all, a)
		}
	}
	return all
}

func add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Add adds o to v. A sum that does not fit is the greatest int64. Amounts must not be negative.
func (v *Vector) Add(o *Vector) {
	for d := range v {
		v[d] = add(v[d], o[d])
	}
}

// AddOf adds what row has of the resources of need to v.
func (v *Vector) AddOf(row []int64, need Mask) {
	for m := uint16(need); m != 0; m &= m - 1 {
		d := bits.TrailingZeros16(m)
		v[d] = add(v[d], row[d])
	}
}

// Sub takes o from v. A difference below zero is zero.
func (v *Vector) Sub(o *Vector) {
	for d := range v {
		v[d] = max(0, v[d]-o[d])
	}
}

// AddTimes adds o to v n times, saturating.
func (v *Vector) AddTimes(o *Vector, n int64) {
	for d := range v {
		if o[d] == 0 {
			continue
		}
		hi, lo := bits.Mul64(uint64(o[d]), uint64(max(n, 0)))
		if hi != 0 || lo > math.MaxInt64 {
			v[d] = math.MaxInt64
			continue
		}
		v[d] = add(v[d], int64(lo))
	}
}

// Min makes each amount of v the lesser of both.
func (v *Vector) Min(o *Vector) {
	for d := range v {
		v[d] = min(v[d], o[d])
	}
}

// Shrink scales v down, in its own proportions, until it has no more than most of anything. What is
// rounded is rounded up, and never above most.
func (v *Vector) Shrink(most *Vector) {
	scarce := -1
	for d := range v {
		if v[d] > most[d] && (scarce < 0 || LessProduct(most[d], v[scarce], most[scarce], v[d])) {
			scarce = d
		}
	}
	if scarce < 0 {
		return
	}
	x, w := most[scarce], v[scarce]
	for d := range v {
		v[d] = min(MulDiv(v[d], x, w), most[d])
	}
}

// IsZero reports whether v is nothing at all.
func (v *Vector) IsZero() bool { return *v == Vector{} }

// Covers reports whether v has at least what o has, of every resource.
func (v *Vector) Covers(o *Vector) bool {
	for d := range v {
		if v[d] < o[d] {
			return false
		}
	}
	return true
}

// CoversOf is Covers for the resources of need alone.
func (v *Vector) CoversOf(o *Vector, need Mask) bool {
	for m := uint16(need); m != 0; m &= m - 1 {
		d := bits.TrailingZeros16(m)
		if v[d] < o[d] {
			return false
		}
	}
	return true
}

// Positive is the set of resources of which v has something.
func (v *Vector) Positive() (m Mask) {
	for d, n := range v {
		if n > 0 {
			m |= 1 << d
		}
	}
	return m
}

// Part returns the i-th of n nearly equal parts of v: what is left over in units goes to the first
// parts. The n parts add up to v. n is positive and i below n.
func (v *Vector) Part(i, n int) (p Vector) {
	for d, all := range v {
		if all == 0 {
			continue
		}
		p[d] = all / int64(n)
		if int64(i) < all%int64(n) {
			p[d]++
		}
	}
	return p
}

// MulDiv returns a*b/c, rounded up, for 0 <= a, 0 <= b <= c, 0 < c.
func MulDiv(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi == 0 {
		q := lo / uint64(c)
		if lo%uint64(c) != 0 {
			q++
		}
		return int64(q)
	}
	q, r := bits.Div64(hi, lo, uint64(c))
	if r != 0 {
		q++
	}
	return int64(q)
}

// LessProduct reports whether a*b < c*d, exactly. None is negative.
func LessProduct(a, b, c, d int64) bool {
	h1, l1 := bits.Mul64(uint64(a), uint64(b))
	h2, l2 := bits.Mul64(uint64(c), uint64(d))
	return h1 < h2 || h1 == h2 && l1 < l2
}

// Times returns a*b, for neither below zero; a product that does not fit is the greatest int64.
func Times(a, b int64) int64 {
	if a != 0 && b > math.MaxInt64/a {
		return math.MaxInt64
	}
	return a * b
}
