package sim

import (
	"maps"
	"slices"
)

// Shrink cuts a plan that fails down: to fewer events, then to fewer kinds of
// faults, for as long as it still fails and budget tries are left. The result
// fails; it need not be the smallest that does.
func Shrink(p Plan, budget int, fails func(Plan) bool) Plan {
	try := func(candidate Plan) bool {
		if budget <= 0 {
			return false
		}
		budget--
		return fails(candidate)
	}
	for size := (len(p.Events) + 1) / 2; size > 0 && budget > 0; size /= 2 {
		p = cutEvents(p, size, try)
	}
	for _, kind := range slices.Sorted(maps.Keys(p.Weather)) {
		less := p
		less.Weather = maps.Clone(p.Weather)
		delete(less.Weather, kind)
		if try(less) {
			p = less
		}
	}
	return p
}

// cutEvents leaves out whatever runs of size events can be left out.
func cutEvents(p Plan, size int, fails func(Plan) bool) Plan {
	for at := 0; at < len(p.Events); {
		less := p
		less.Events = slices.Delete(slices.Clone(p.Events), at, min(at+size, len(p.Events)))
		if fails(less) {
			p = less
			continue
		}
		at += size
	}
	return p
}
