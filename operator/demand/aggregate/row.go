package aggregate

import (
	"math"
	"math/bits"
	"slices"

	"nstance.dev/protos/needs"
)

// rowKey tells rows apart.
type rowKey struct {
	fingerprint, group, class string
	stuck                     uint32
}

// row is a row while its members come and go.
type row struct {
	key          rowKey
	profile      needs.Profile
	members      int
	allOrNothing int // members that ask for it
	dims         []dimension
	made         *needs.Row // what was handed out; nil when it has changed since
}

// dimension is one resource of a row: everything that a sum and a maximum need when members
// leave.
type dimension struct {
	name    string
	sumHigh uint64 // exact, so that what was added can be taken away
	sumLow  uint64
	counts  map[int64]int // members by amount
	most    int64         // the largest of them; 0 when it is not known
}

func (d *dimension) add(amount int64) {
	var carry uint64
	d.sumLow, carry = bits.Add64(d.sumLow, uint64(amount), 0)
	d.sumHigh += carry
	d.counts[amount]++
	if len(d.counts) == 1 || d.most > 0 {
		d.most = max(d.most, amount)
	}
}

func (d *dimension) remove(amount int64) {
	var borrow uint64
	d.sumLow, borrow = bits.Sub64(d.sumLow, uint64(amount), 0)
	d.sumHigh -= borrow
	if d.counts[amount]--; d.counts[amount] == 0 {
		delete(d.counts, amount)
		if amount == d.most {
			d.most = 0
		}
	}
}

// sum returns the sum, at most math.MaxInt64.
func (d *dimension) sum() int64 {
	if d.sumHigh > 0 || d.sumLow > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(d.sumLow)
}

func (d *dimension) maximum() int64 {
	if d.most == 0 {
		for amount := range d.counts {
			d.most = max(d.most, amount)
		}
	}
	return d.most
}

// change adds a member with a vector, or removes one.
func (r *row) change(vector []needs.Amount, allOrNothing, joins bool) {
	r.made = nil
	step := -1
	if joins {
		step = 1
	}
	r.members += step
	if allOrNothing {
		r.allOrNothing += step
	}
	for _, a := range vector {
		i := slices.IndexFunc(r.dims, func(d dimension) bool { return d.name == a.Name })
		if i < 0 {
			r.dims = append(r.dims, dimension{name: a.Name, counts: map[int64]int{}})
			i = len(r.dims) - 1
		}
		if joins {
			r.dims[i].add(a.Amount)
		} else {
			r.dims[i].remove(a.Amount)
		}
	}
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
		AllOrNothing: r.allOrNothing > 0,
	}
	slices.SortFunc(r.dims, func(a, b dimension) int { return compareNames(a.name, b.name) })
	r.dims = slices.DeleteFunc(r.dims, func(d dimension) bool { return len(d.counts) == 0 })
	for i := range r.dims[:min(len(r.dims), mostAmounts)] {
		d := &r.dims[i]
		made.Aggregate = append(made.Aggregate, needs.Amount{Name: d.name, Amount: d.sum()})
		made.MinUnit = append(made.MinUnit, needs.Amount{Name: d.name, Amount: d.maximum()})
	}
	r.made = made
	return made
}

func compareNames(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
