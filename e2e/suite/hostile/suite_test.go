package hostile

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// attempt is one row: something that must not succeed, or must not harm anybody.
type attempt struct {
	promise string // its number in docs/invariants.md
	name    string // what the attacker does, or gets where it is not held
	held    string // what try returns while the promise holds

	// try makes the attempt and returns what came of it. Rows of one area run at the same
	// time unless the area is in order.
	try func(t *testing.T, w *world) string
}

// area is a subject with its rows.
type area struct {
	name    string
	least   int // rows; the number only grows
	rows    func() []attempt
	apart   bool // it would disturb others: it has a cluster of its own
	inOrder bool // its rows are made one after the other
}

// areas are those of the suite.
var areas = []area{
	{name: "nonces", least: 370, rows: nonces},
	{name: "tenants", least: 88, rows: tenancy, apart: true, inOrder: true},
	{name: "streams", least: 24, rows: streams},
	{name: "enrolment", least: 6, rows: enrolment},
}

// TestHostile makes all attempts.
func TestHostile(t *testing.T) {
	for _, a := range areas {
		if a.apart {
			t.Run(a.name, func(t *testing.T) { a.run(t, newWorld(t)) })
		}
	}
	w := newWorld(t)
	for _, a := range areas {
		if !a.apart {
			t.Run(a.name, func(t *testing.T) {
				t.Parallel()
				a.run(t, w)
			})
		}
	}
}

func (a area) run(t *testing.T, w *world) {
	for _, row := range a.rows() {
		t.Run(row.promise+" "+row.name, func(t *testing.T) {
			if !a.inOrder {
				t.Parallel()
			}
			if got := row.try(t, w); got != row.held {
				t.Errorf("%s: it came to\n%s\nand must come to\n%s", row.name, got, row.held)
			}
		})
	}
}

// TestHostileRowsAreCounted: each area has the rows that it once had, and no two rows of
// one area have the same name.
func TestHostileRowsAreCounted(t *testing.T) {
	all := 0
	for _, a := range areas {
		rows, names := a.rows(), map[string]bool{}
		for _, row := range rows {
			if row.promise == "" || row.name == "" || row.held == "" || row.try == nil {
				t.Errorf("%s: a row is not complete: %q %q", a.name, row.promise, row.name)
			}
			if names[row.name] {
				t.Errorf("%s: two rows are called %q", a.name, row.name)
			}
			names[row.name] = true
		}
		if len(rows) < a.least {
			t.Errorf("%s: %d rows, and there were %d", a.name, len(rows), a.least)
		}
		t.Logf("%4d %s", len(rows), a.name)
		all += len(rows)
	}
	t.Logf("%4d attempts", all)
}
