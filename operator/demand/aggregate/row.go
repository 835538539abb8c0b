package aggregate

import (
	"math"
	"math/bits"
	"slices"
	"strings"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	"nstance.dev/protos/needs"
)

// rowKey tells rows apart.
type rowKey struct {
	fingerprint, group, class string
	stuck                     uint32
}

// unit is what requests that are alike in everything add to a row: the Pods of one template.
type unit struct {
	raw          string // what was read of them
	row          *row
	vector       []needs.Amount // sorted by name
	allOrNothing bool
	members      int
	specs        []*demandv1.CapacityRequestSpec // shared ones by which it is found
}

// row is a row while its units come and go.
type row struct {
	key     rowKey
	profile needs.Profile
	units   map[*unit]struct{}
	made    *needs.Row // what was handed out; nil when it has changed since
}

// mostAmounts is how many resources a row may have on the wire. Of more the first by name count.
const mostAmounts = 64

// out returns the row as it is handed out: the same one until it changes.
func (r *row) out() *needs.Row {
	if r.made != nil {
		return r.made
	}
	made := &needs.Row{
		Profile: r.profile, Fingerprint: r.key.fingerprint, Group: r.key.group, UnitClass: r.key.class, Stuck: r.key.stuck,
	}
	// Sums have no order, so neither matters the one in which the units are visited.
	for u := range r.units {
		made.AllOrNothing = made.AllOrNothing || u.allOrNothing
		for _, a := range u.vector {
			i, found := slices.BinarySearchFunc(made.Aggregate, a.Name, func(have needs.Amount, name string) int { return strings.Compare(have.Name, name) })
			if !found {
				made.Aggregate = slices.Insert(made.Aggregate, i, needs.Amount{Name: a.Name})
				made.MinUnit = slices.Insert(made.MinUnit, i, needs.Amount{Name: a.Name})
			}
			made.Aggregate[i].Amount = addTimes(made.Aggregate[i].Amount, a.Amount, u.members)
			made.MinUnit[i].Amount = max(made.MinUnit[i].Amount, a.Amount)
		}
	}
	if len(made.Aggregate) > mostAmounts {
		made.Aggregate, made.MinUnit = made.Aggregate[:mostAmounts], made.MinUnit[:mostAmounts]
	}
	r.made = made
	return made
}

// addTimes returns sum and n times amount, none of which is negative, at most math.MaxInt64.
func addTimes(sum, amount int64, n int) int64 {
	high, low := bits.Mul64(uint64(amount), uint64(n))
	total, carry := bits.Add64(low, uint64(sum), 0)
	if high > 0 || carry > 0 || total > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(total)
}
