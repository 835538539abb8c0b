package vector

import (
	"math"
	"math/bits"
)

// This file counts in whole units: what Pods that are all alike ask for.

// Multiple returns how many units u the amount v is, exactly and in every resource of need; 0: it is no whole number of
// them.
func Multiple(v, u *Vector, need Mask) (n int64) {
	for m := uint16(need); m != 0; m &= m - 1 {
		d := bits.TrailingZeros16(m)
		if u[d] == 0 || v[d]%u[d] != 0 || n > 0 && v[d]/u[d] != n {
			return 0
		}
		n = v[d] / u[d]
	}
	return n
}

// Units returns how many whole units u fit into r at once, as far as the resources of need go: into what a machine has left,
// with an amount for each of them at least. For no resources it is the greatest int64. u has something of each.
func Units(r []int64, u *Vector, need Mask) int64 {
	n := int64(math.MaxInt64)
	for m := uint16(need); m != 0; m &= m - 1 {
		d := bits.TrailingZeros16(m)
		if r[d] < u[d] {
			return 0
		}
		n = min(n, r[d]/u[d])
	}
	return n
}

// DrawUnits takes from r, what a machine has left, as many whole units u of v as fit, and reports whether it took any. v is
// a multiple of u, and stays one.
func DrawUnits(r []int64, v, u *Vector, need Mask) bool {
	n, all := int64(math.MaxInt64), true
	for m := uint16(need); m != 0; m &= m - 1 {
		d := bits.TrailingZeros16(m)
		switch {
		case r[d] < u[d] || v[d] == 0:
			return false
		case r[d] >= v[d]:
		case all || LessProduct(r[d], 1, n, u[d]): // a quotient costs more than what shows that it is not needed
			n, all = r[d]/u[d], false
		}
	}
	for m := uint16(need); m != 0; m &= m - 1 {
		d := bits.TrailingZeros16(m)
		y := v[d]
		if !all {
			y = n * u[d]
		}
		r[d] -= y
		v[d] -= y
	}
	return need != 0
}

// Ratio is the part of want that have is, in units of 1/[Whole], between 1 and Whole; of a want of nothing it is Whole.
func Ratio(have, want int64) int64 {
	if have >= want {
		return Whole
	}
	hi, lo := bits.Mul64(uint64(have), Whole)
	q, _ := bits.Div64(hi, lo, uint64(want))
	return max(int64(q), 1)
}

// AddTimesOf adds what row has of the resources of need to v, n times, saturating.
func (v *Vector) AddTimesOf(row []int64, n int64, need Mask) {
	for m := uint16(need); m != 0; m &= m - 1 {
		d := bits.TrailingZeros16(m)
		v[d] = add(v[d], Times(row[d], n))
	}
}
