package vector

import (
	"math"
	"math/bits"
)

// Draw takes from r, what is left of a machine, as much of v, what a need still wants, as r can
// feed in v's own proportions, and reports whether it took anything. need is the set of resources
// that v has something of; a larger set costs time alone.
//
// It takes nothing unless one unit u, or the whole of a v that is smaller, fits into r. The
// resource that r is shortest of decides how much of every other is taken: a machine without
// memory is not credited for processors that no Pod could use there. r has an amount for each
// resource of need at least.
func Draw(r []int64, v, u *Vector, need Mask) bool {
	scarce := -1
	for m := uint16(need); m != 0; m &= m - 1 {
		d := bits.TrailingZeros16(m)
		if v[d] == 0 {
			continue
		}
		if r[d] < min(u[d], v[d]) {
			return false
		}
		if scarce < 0 || LessProduct(r[d], v[scarce], r[scarce], v[d]) {
			scarce = d
		}
	}
	if scarce < 0 {
		return false
	}
	w := v[scarce]
	x := min(r[scarce], w)
	if x == 0 {
		return false
	}
	for m := uint16(need); m != 0; m &= m - 1 {
		d := bits.TrailingZeros16(m)
		y := v[d]
		if x < w {
			y = MulDiv(v[d], x, w)
		}
		y = min(y, r[d])
		r[d] -= y
		v[d] -= y
	}
	return true
}

// Whole is the share of a machine that serves all of a need.
const Whole = 1 << 32

// Share is the part of v that a serves at once: the least ratio of a to v over the resources that v
// has something of, in units of 1/[Whole], between 1 and Whole. For a v of nothing it is Whole.
func Share(a, v *Vector, need Mask) int64 {
	share := int64(Whole)
	for m := uint16(need); m != 0; m &= m - 1 {
		d := bits.TrailingZeros16(m)
		if v[d] == 0 || a[d] >= v[d] {
			continue
		}
		hi, lo := bits.Mul64(uint64(a[d]), Whole)
		q, _ := bits.Div64(hi, lo, uint64(v[d]))
		share = min(share, int64(q))
	}
	return max(share, 1)
}

// Count is how many machines that have a it takes to have v; the greatest int64, where a has nothing of
// something that v has.
func Count(a, v *Vector) (n int64) {
	for d := range v {
		switch {
		case v[d] == 0:
		case a[d] == 0:
			return math.MaxInt64
		default:
			n = max(n, (v[d]-1)/a[d]+1)
		}
	}
	return n
}

// Coverage is how much of want have is, in units of 1/2^20 for each resource that want has something
// of, none counted above one, added up.
func Coverage(have, want *Vector, need Mask) (sum int64) {
	for m := uint16(need); m != 0; m &= m - 1 {
		d := bits.TrailingZeros16(m)
		switch {
		case want[d] == 0:
		case have[d] >= want[d]:
			sum += 1 << 20
		default:
			hi, lo := bits.Mul64(uint64(have[d]), 1<<20)
			q, _ := bits.Div64(hi, lo, uint64(want[d]))
			sum += int64(q)
		}
	}
	return sum
}

// FitsIn reports whether one unit u fits into a, as far as the resources of need go.
func FitsIn(u, a *Vector, need Mask) bool {
	for m := uint16(need); m != 0; m &= m - 1 {
		d := bits.TrailingZeros16(m)
		if a[d] < u[d] {
			return false
		}
	}
	return true
}
