package sim

import (
	"testing"
	"time"
)

// The model of a group takes what calls may do in some order, and nothing else.
func TestS15_ModelOfTheGroupCalls(t *testing.T) {
	start := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	upsert := func(size, from, to int) *operation {
		return &operation{kind: opUpsert, size: size, start: at(from), end: at(to)}
	}
	unheard := func(size, from int) *operation { return &operation{kind: opUpsert, size: size, start: at(from)} }
	read := func(size, from, to int) *operation {
		return &operation{kind: opRead, seen: reading{there: true, size: size}, start: at(from), end: at(to)}
	}
	absent := func(from, to int) *operation { return &operation{kind: opRead, start: at(from), end: at(to)} }
	remove := func(from, to int) *operation { return &operation{kind: opDelete, start: at(from), end: at(to)} }
	lost := &operation{kind: opDelete, start: at(0)}
	for name, c := range map[string]struct {
		ops  []*operation
		fits bool
	}{
		"nothing":                                 {nil, true},
		"a read of what was written":              {[]*operation{upsert(2, 0, 1), read(2, 2, 3)}, true},
		"a read of what never was written":        {[]*operation{upsert(2, 0, 1), read(3, 2, 3)}, false},
		"a promise that is forgotten":             {[]*operation{upsert(2, 0, 1), upsert(3, 2, 3), read(2, 4, 5)}, false},
		"a read amid a write, before it":          {[]*operation{upsert(2, 0, 1), upsert(3, 2, 5), read(2, 3, 4)}, true},
		"a read amid a write, after it":           {[]*operation{upsert(2, 0, 1), upsert(3, 2, 5), read(3, 3, 4)}, true},
		"two reads amid a write, backwards":       {[]*operation{upsert(2, 0, 1), upsert(3, 2, 9), read(3, 3, 4), read(2, 5, 6)}, false},
		"two writes at once, either order":        {[]*operation{upsert(2, 0, 5), upsert(3, 0, 5), read(2, 6, 7)}, true},
		"a group that is deleted":                 {[]*operation{upsert(2, 0, 1), remove(2, 3), absent(4, 5)}, true},
		"a group that came back by itself":        {[]*operation{upsert(2, 0, 1), remove(2, 3), read(2, 4, 5)}, false},
		"no answer, and carried out":              {[]*operation{upsert(2, 0, 1), unheard(3, 2), read(3, 4, 5)}, true},
		"no answer, and never carried out":        {[]*operation{upsert(2, 0, 1), unheard(3, 2), read(2, 4, 5)}, true},
		"no answer, and carried out late":         {[]*operation{upsert(2, 0, 1), unheard(3, 2), read(2, 4, 5), read(3, 6, 7)}, true},
		"no answer, and carried out too early":    {[]*operation{upsert(2, 0, 1), read(3, 2, 3), unheard(3, 4)}, false},
		"no answer, and carried out twice":        {[]*operation{unheard(3, 0), upsert(2, 1, 2), read(3, 3, 4), read(2, 5, 6), read(3, 7, 8)}, false},
		"no answers, each carried out after it":   {[]*operation{unheard(3, 0), unheard(3, 0), upsert(2, 1, 2), read(3, 3, 4), upsert(2, 5, 6), read(3, 7, 8)}, true},
		"no answer to a delete":                   {[]*operation{upsert(2, 0, 1), lost, read(2, 2, 3), absent(4, 5)}, true},
		"one without an answer, two are needed":   {[]*operation{unheard(3, 0), upsert(2, 1, 2), read(3, 3, 4), upsert(2, 5, 6), read(3, 7, 8)}, false},
		"a read before anything":                  {[]*operation{absent(0, 1), upsert(2, 2, 3), read(2, 4, 5)}, true},
		"calls in the order in which they ended":  {[]*operation{read(2, 4, 5), upsert(2, 0, 1)}, true},
		"a write that overtakes one without word": {[]*operation{unheard(3, 0), upsert(2, 1, 2), read(2, 3, 4), read(3, 5, 6), read(2, 7, 8)}, false},
	} {
		if got := linearizable(c.ops); got != c.fits {
			t.Errorf("%s: there is an order: %t, want %t%s", name, got, c.fits, describe(append(c.ops, absent(99, 100))))
		}
	}
}

// However many calls were not answered, the history is judged at once: half of these
// are seen late, and the last read is wrong.
func TestS15_ManyCallsWithoutAnAnswer(t *testing.T) {
	start := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	var ops []*operation
	for i := range 200 {
		at := start.Add(time.Duration(i) * time.Second)
		ops = append(ops, &operation{kind: opUpsert, size: i % 7, start: at})
		if i%2 == 0 {
			ops = append(ops, &operation{kind: opRead, seen: reading{true, i / 2 % 7}, start: at, end: at.Add(time.Millisecond)})
		}
	}
	if !linearizable(ops) {
		t.Error("no order is found, and there is one")
	}
	end := start.Add(time.Hour)
	if linearizable(append(ops, &operation{kind: opRead, seen: reading{true, 99}, start: end, end: end})) {
		t.Error("an order is found for a read of what nobody wrote")
	}
}
