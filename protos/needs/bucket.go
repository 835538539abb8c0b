package needs

import (
	"math"
	"strconv"
)

// Bucket is an amount of US dollars, rounded up to the bound of the bucket. Its number is
// that of the wire: 1 is nothing, 27 outweighs everything, 0 is never valid.
type Bucket uint8

// The buckets that have a name of their own. Between D1 and Pinned each bound is twice the one
// before: 3+k is 2^k dollars, up to 26, which is 8,388,608.
const (
	Unspecified Bucket = 0
	Zero        Bucket = 1 // nothing
	HalfDollar  Bucket = 2 // at most 50 cents
	D1          Bucket = 3 // at most 1 dollar
	Highest     Bucket = 26
	Pinned      Bucket = 27 // more than every bound
)

const microPerDollar = 1_000_000

// Valid says whether the bucket may stand on the wire.
func (b Bucket) Valid() bool { return b >= Zero && b <= Pinned }

// MicroUSD returns the upper bound of the bucket in millionths of a US dollar, which is what
// the bucket counts as. For Pinned, which has none, and for what is not valid it is
// math.MaxInt64: what is not known is not cheap.
func (b Bucket) MicroUSD() int64 {
	switch {
	case b == Zero:
		return 0
	case b == HalfDollar:
		return microPerDollar / 2
	case b >= D1 && b <= Highest:
		return microPerDollar << (b - D1)
	default:
		return math.MaxInt64
	}
}

// BucketOf returns the bucket of an amount in millionths of a US dollar. A negative amount
// counts as nothing.
func BucketOf(microUSD int64) Bucket {
	for b := Zero; b <= Highest; b++ {
		if microUSD <= b.MicroUSD() {
			return b
		}
	}
	return Pinned
}

// String returns the bound for people, such as $0.50, $1 or pinned.
func (b Bucket) String() string {
	switch {
	case b == Pinned:
		return "pinned"
	case !b.Valid():
		return "Bucket(" + strconv.Itoa(int(b)) + ")"
	case b == HalfDollar:
		return "$0.50"
	default:
		return "$" + strconv.FormatInt(b.MicroUSD()/microPerDollar, 10)
	}
}
