package consolidation

import (
	"math/bits"
	"slices"
)

// span is over how long a price is averaged: one hour, in milliseconds.
const span = 3_600_000

// mostPieces bounds how many changes of a price are told apart.
const mostPieces = 64

// Mean is the mean of a price over the last hour. The zero Mean knows nothing.
type Mean struct {
	began  int64   // when the first price was noted
	last   piece   // the present price
	before []piece // the earlier ones of the last hour, oldest first
}

// piece is a price from a time on.
type piece struct{ from, price int64 }

// Note says what the price is from now on, in millionths of a dollar. Neither a price nor a time is negative,
// and times do not go back.
func (m *Mean) Note(now, price int64) {
	switch {
	case m.began == 0:
		m.began, m.last = max(now, 1), piece{now, price}
		return
	case m.last.price == price:
		return
	}
	m.before = append(m.before, m.last)
	m.last = piece{now, price}
	old := 0
	for old+1 < len(m.before) && m.before[old+1].from <= now-span {
		old++
	}
	m.before = slices.Delete(m.before, 0, old)
	if len(m.before) > mostPieces { // the two oldest become one
		a, b, c := m.before[0], m.before[1], m.before[2]
		var s sum
		s.add(a.price, b.from-a.from)
		s.add(b.price, c.from-b.from)
		m.before[1] = piece{a.from, s.over(c.from - a.from)}
		m.before = slices.Delete(m.before, 0, 1)
	}
}

// At is the mean of the hour that ends now, rounded down; false: the price is not known for an hour.
func (m *Mean) At(now int64) (price int64, known bool) {
	if m.began == 0 || now-m.began < span {
		return 0, false
	}
	var s sum
	until := now
	for p, i := m.last, len(m.before); ; p = m.before[i] {
		from := max(p.from, now-span)
		s.add(p.price, max(until-from, 0))
		if until = from; i == 0 || p.from <= now-span {
			break
		}
		i--
	}
	return s.over(span), true
}

// sum adds up prices by how long each held, exactly.
type sum struct{ hi, lo uint64 }

func (s *sum) add(price, lasted int64) {
	hi, lo := bits.Mul64(uint64(price), uint64(lasted))
	var carry uint64
	s.lo, carry = bits.Add64(s.lo, lo, 0)
	s.hi, _ = bits.Add64(s.hi, hi, carry)
}

// over is the mean of all that was added, which together lasted so long; 0 where that is 0.
func (s *sum) over(lasted int64) int64 {
	if lasted == 0 {
		return 0
	}
	q, _ := bits.Div64(s.hi, s.lo, uint64(lasted))
	return int64(q)
}

// Worth reports whether machines that cost from an hour may be replaced by others that cost to: at least
// the share minSaving of from is saved, which is in millionths. What saves nothing is never worth it.
func Worth(from, to, minSaving int64) bool {
	if to >= from {
		return false
	}
	const whole = 1_000_000
	hi, lo := bits.Mul64(uint64(from), uint64(whole-min(max(minSaving, 0), whole)))
	thi, tlo := bits.Mul64(uint64(to), whole)
	return thi < hi || thi == hi && tlo <= lo
}
