package planner

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// Bound names an upper bound of a demand pool, as its field below spec.demand is called.
type Bound string

// Machines is the bound of the number of machines.
const Machines Bound = "max"

// Bounds are the numbers of a demand pool that are divided over its shards.
type Bounds struct {
	// Min machines are kept, and MinIdle of those without work.
	Min, MinIdle int64
	// Most are the upper bounds; one that is absent is none.
	Most map[Bound]int64
}

// Holder is a shard that has a part of a demand pool, or is to have one.
type Holder struct {
	Shard string
	// Retiring: it was taken off the list, and gets nothing.
	Retiring bool
	// Written is what its shard group says now; nil: nothing yet.
	Written *Bounds
	// InForce are all bounds that its server may go by until it has accepted Written; none: it has
	// no such group.
	InForce []Bounds
	// Used is how much of each bound its machines take. Of a bound that is absent this is not
	// known, and they are taken to keep within their part.
	Used map[Bound]int64
}

// Share is what one shard gets.
type Share struct {
	Shard string
	Bounds
}

// Division is how a demand pool is divided.
type Division struct {
	Shares []Share // in the order of the holders
	// Reason says what changes, and what waits for which shard; empty: nothing does.
	Reason string
	// Waits: some shard gets less than its part until another one has given up what it has.
	Waits bool
}

// Divide gives each listed shard an equal part of each bound, the greater parts to those that are
// listed first, as EqualSplit does.
//
// The sum over all shards of what each may have never exceeds an upper bound by a division:
// what a shard may have is its new part, what its server goes by until it has accepted that
// part, or what its machines take already, whichever is the most. So parts that shrink are given at
// once, others grow by what is really free, and where machines that stay exceed a part, the others get so
// much less. Where several divisions follow one another, and
// nobody keeps what is taken from him, the last one has the equal parts.
//
// A part is consistent in itself: Min and MinIdle together do not exceed the most machines.
func Divide(pool string, total Bounds, holders []Holder) Division {
	d := Division{Shares: make([]Share, len(holders))}
	listed := 0
	for i, h := range holders {
		d.Shares[i] = Share{Shard: h.Shard}
		if !h.Retiring {
			listed++
		}
	}
	place := func(n int64) []int64 { return spread(n, listed, holders) }
	least, both := place(total.Min), place(total.Min+total.MinIdle)
	for i := range d.Shares {
		d.Shares[i].Min, d.Shares[i].MinIdle = least[i], both[i]-least[i]
	}
	var notes []string
	for _, bound := range slices.Sorted(maps.Keys(total.Most)) {
		want := place(total.Most[bound])
		got, holdsBack := grant(bound, total.Most[bound], want, holders)
		for i := range d.Shares {
			if d.Shares[i].Most == nil {
				d.Shares[i].Most = map[Bound]int64{}
			}
			d.Shares[i].Most[bound] = got[i]
			if got[i] < want[i] {
				d.Waits = true
				notes = append(notes, fmt.Sprintf("%s gets %s %d of %d until %s has given up what it has",
					holders[i].Shard, bound, got[i], want[i], strings.Join(without(holdsBack, holders[i].Shard), " and ")))
			}
		}
	}
	for i := range d.Shares {
		if most, bound := d.Shares[i].Most[Machines]; bound {
			d.Shares[i].Min = min(d.Shares[i].Min, most)
			d.Shares[i].MinIdle = min(d.Shares[i].MinIdle, most-d.Shares[i].Min)
		}
	}
	d.Reason = reasonOf(pool, d.Shares, holders, notes)
	return d
}

// without are the names but one.
func without(names []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(other string) bool { return other == name })
}

// spread gives the listed holders equal parts of n, the first ones one more, and the others none.
func spread(n int64, listed int, holders []Holder) []int64 {
	parts, nth := make([]int64, len(holders)), int64(0)
	for i, h := range holders {
		if h.Retiring {
			continue
		}
		parts[i] = n / int64(listed)
		if nth < n%int64(listed) {
			parts[i]++
		}
		nth++
	}
	return parts
}

// endless is what a shard may have that nothing bounds.
const endless = math.MaxInt64

// grant gives the parts of one bound that may be given now, and names the shards that may have more
// than they are given.
func grant(bound Bound, total int64, want []int64, holders []Holder) (got []int64, holdsBack []string) {
	got, has := make([]int64, len(want)), make([]int64, len(want))
	sum := int64(0)
	for i, h := range holders {
		got[i] = min(h.written(bound), want[i])
		has[i] = max(got[i], h.has(bound, want[i]))
		if has[i] > want[i] {
			holdsBack = append(holdsBack, h.Shard)
		}
		sum = plus(sum, has[i])
	}
	for i := range got {
		got[i] = max(got[i], min(want[i], has[i])) // it counts already
		if more := min(want[i]-got[i], total-sum); more > 0 {
			got[i] += more
			sum += more
		}
	}
	return spare(got, total, want, bound, holders), holdsBack
}

// spare takes off the parts what shards that have more than their own leave too little for: their machines
// stay, and a server that was told of a smaller part and has not accepted it goes by the greater one.
// Those that are listed last give first, and nobody gives what its machines take.
func spare(got []int64, total int64, want []int64, bound Bound, holders []Holder) []int64 {
	keeps, over := make([]int64, len(got)), -total
	for i, h := range holders {
		used, known := h.Used[bound]
		if !known && len(h.InForce) > 0 {
			used = want[i]
		}
		keeps[i] = used
		if h.Written != nil && h.Written.most(bound) == got[i] {
			keeps[i] = max(used, h.has(bound, want[i]))
			if keeps[i] == got[i] {
				keeps[i] = used
			}
		}
		over = plus(over, max(got[i], keeps[i]))
	}
	for i := len(got) - 1; i >= 0 && over > 0; i-- {
		less := min(over, max(got[i]-keeps[i], 0))
		got[i] -= less
		over -= less
	}
	return got
}

// written is the part of a bound that the shard group says.
func (h Holder) written(bound Bound) int64 {
	if h.Written == nil {
		return 0
	}
	return h.Written.most(bound)
}

// has is how much of a bound the shard may have now, apart from its next part, which is to be want in the end.
func (h Holder) has(bound Bound, want int64) int64 {
	used, known := h.Used[bound]
	if !known && len(h.InForce) > 0 {
		used = want
	}
	for _, b := range h.InForce {
		used = max(used, b.most(bound))
	}
	return used
}

func (b Bounds) most(bound Bound) int64 {
	if n, ok := b.Most[bound]; ok {
		return n
	}
	return endless
}

func plus(a, b int64) int64 {
	if a > endless-b {
		return endless
	}
	return a + b
}

// reasonOf puts a division into words, such as
//
//	batch: a min 2→1 max 10→5, b min 0→1 max 0→5
func reasonOf(pool string, shares []Share, holders []Holder, notes []string) string {
	var parts []string
	for i, s := range shares {
		was, is := Bounds{}, s.Bounds
		if holders[i].Written != nil {
			was = *holders[i].Written
		}
		if text := difference(was, is, holders[i].Written == nil); text != "" {
			parts = append(parts, s.Shard+text)
		}
	}
	text := strings.Join(parts, ", ")
	if len(notes) > 0 {
		text = strings.TrimPrefix(text+"; "+strings.Join(notes, "; "), "; ")
	}
	if text == "" {
		return ""
	}
	return pool + ": " + text
}

// difference says which bounds are others than before; of a new part all that are not 0.
func difference(was, is Bounds, isNew bool) string {
	text := ""
	change := func(name string, from, to string) {
		switch {
		case from == to:
		case isNew:
			text += " " + name + " " + to
		default:
			text += " " + name + " " + from + "→" + to
		}
	}
	change("min", fmt.Sprint(was.Min), fmt.Sprint(is.Min))
	change("minIdle", fmt.Sprint(was.MinIdle), fmt.Sprint(is.MinIdle))
	for _, bound := range slices.Sorted(maps.Keys(merged(was.Most, is.Most))) {
		change(string(bound), amount(was.Most, bound), amount(is.Most, bound))
	}
	return text
}

func merged(a, b map[Bound]int64) map[Bound]int64 {
	all := maps.Clone(a)
	if all == nil {
		all = map[Bound]int64{}
	}
	maps.Copy(all, b)
	return all
}

// amount is an upper bound in words.
func amount(most map[Bound]int64, bound Bound) string {
	if n, ok := most[bound]; ok {
		return fmt.Sprint(n)
	}
	return "unlimited"
}
