package hostile

import (
	"flag"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

var (
	programs = flag.String("programs", "", "directory with the programs that are attacked; empty: bin/ of the repository")
	open     = flag.String("open", "", "file that names the rows that those programs do not hold, one a line; # begins a comment")
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
	apart   bool     // it would disturb others: it has a cluster of its own
	inOrder bool     // its rows are made one after the other
	flags   []string // of the server, of one that is apart
}

// areas are those of the suite.
var areas = []area{
	{name: "nonces", least: 370, rows: nonces},
	{name: "theft", least: 4, rows: theft},
	{name: "documents", least: 38, rows: documents},
	{name: "certificates", least: 230, rows: certificates},
	{name: "tenants", least: 88, rows: tenancy, apart: true, inOrder: true},
	{name: "streams", least: 24, rows: streams},
	{name: "refreshes", least: 14, rows: refreshes, apart: true, inOrder: true},
	{name: "secrets at rest", least: 9, rows: atRest, apart: true, inOrder: true, flags: []string{"--debug"}},
	{name: "ports", least: 15, rows: httpPorts},
	{name: "HTTP", least: 90, rows: overHTTP},
	{name: "files of the agent", least: 9, rows: agentFiles},
	{name: "floods", least: 21, rows: floods, apart: true},
	{name: "enrolment", least: 6, rows: enrolment},
}

// attempts is how many there are at least, in all areas.
const attempts = 314

// TestHostile makes all attempts.
func TestHostile(t *testing.T) {
	known := readOpen(t)
	for _, a := range areas {
		if a.apart {
			t.Run(a.name, func(t *testing.T) { a.run(t, newWorld(t, few, a.flags...), known) })
		}
	}
	w := newWorld(t, many)
	w.leadsCluster(t)
	for _, a := range areas {
		if !a.apart {
			t.Run(a.name, func(t *testing.T) {
				t.Parallel()
				a.run(t, w, known)
			})
		}
	}
}

// run makes the attempts of an area. Those that are known to be open must succeed.
func (a area) run(t *testing.T, w *world, known map[string]bool) {
	for _, row := range a.rows() {
		t.Run(row.promise+" "+row.name, func(t *testing.T) {
			if !a.inOrder {
				t.Parallel()
			}
			name, got := a.name+": "+row.name, row.try(t, w)
			switch isOpen := known[name]; {
			case isOpen && got == row.held:
				t.Errorf("%s\nis said to be open, and came to\n%s", name, got)
			case isOpen:
				t.Logf("%s\nis open, as is known: it came to\n%s\ninstead of\n%s", name, got, row.held)
			case got != row.held:
				t.Errorf("%s\ncame to\n%s\nand must come to\n%s", name, got, row.held)
			}
		})
	}
}

// readOpen returns the rows that are known to be open, each as "AREA: NAME".
func readOpen(t *testing.T) map[string]bool {
	t.Helper()
	if *open == "" {
		return nil
	}
	text, err := os.ReadFile(*open)
	if err != nil {
		t.Fatal(err)
	}
	rows, known := map[string]bool{}, map[string]bool{}
	for _, a := range areas {
		for _, row := range a.rows() {
			rows[a.name+": "+row.name] = true
		}
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if !rows[line] {
			t.Errorf("%s: there is no row %q", *open, line)
		}
		known[line] = true
	}
	return known
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
	if all < attempts {
		t.Errorf("%d attempts, and there must be %d", all, attempts)
	}
}
