package bench

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRow(t *testing.T) {
	for _, c := range []struct {
		name  string
		row   Row
		ratio string
		goal  string
		met   string
	}{
		{"a rate that is high enough", Row{Ours: 70, Floor: 100, Goal: AtLeast(0.7)}, "0.70", "≥ 0.70", "met"},
		{"a rate that is too low", Row{Ours: 69, Floor: 100, Goal: AtLeast(0.7)}, "0.69", "≥ 0.70", "missed"},
		{"a cost that is low enough", Row{Ours: 12, Floor: 10, Goal: AtMost(1.2)}, "1.20", "≤ 1.20", "met"},
		{"a cost that is too high", Row{Ours: 13, Floor: 10, Goal: AtMost(1.2)}, "1.30", "≤ 1.20", "missed"},
		{"a floor that was not measured", Row{Ours: 13, Goal: AtMost(1.2)}, "NaN", "≤ 1.20", "missed"},
		{"a good ratio with a broken promise", Row{Ours: 1, Floor: 1, Goal: AtLeast(0.95), Broken: "too early"}, "1.00", "≥ 0.95", "missed: too early"},
		{"no number at all", Row{Ours: 1, Floor: 1, Goal: AtMost(1), Err: errors.New("no room")}, "-", "≤ 1.00", "not measured: no room"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cells := c.row.cells()
			if got, want := cells[5:8], []string{c.ratio, c.goal, c.met}; !cmp.Equal(got, want) {
				t.Errorf("ratio, goal and verdict: %q, want %q", got, want)
			}
			if c.row.Met() != (c.met == "met") {
				t.Errorf("Met is %v, and the row says %q", c.row.Met(), c.met)
			}
		})
	}
}

func TestNumberKeepsThreeDigits(t *testing.T) {
	for value, want := range map[float64]string{0: "0.00", 1.234: "1.23", 45.678: "45.7", 999.4: "999", 47123.5: "47124"} {
		if got := number(value); got != want {
			t.Errorf("number(%v) = %s, want %s", value, got, want)
		}
	}
}

func TestWriteTableAlignsColumns(t *testing.T) {
	var b strings.Builder
	rows := []Row{
		{Measure: "P1", Name: "short", Unit: "1/s", Ours: 5, Floor: 10, Against: "a floor", Goal: AtLeast(0.6)},
		{Measure: "P22", Name: "a longer name", Unit: "ms", Ours: 120, Floor: 120, Against: "another", Goal: AtMost(1.1)},
	}
	if err := WriteTable(&b, rows); err != nil {
		t.Fatal(err)
	}
	want := strings.TrimPrefix(`
no.  what           ours  floor  unit  ratio  goal    met     floor is
P1   short          5.00  10.0   1/s   0.50   ≥ 0.60  missed  a floor
P22  a longer name  120   120    ms    1.00   ≤ 1.10  met     another
`, "\n")
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

func TestWriteReportSaysUnderWhatCircumstances(t *testing.T) {
	var b strings.Builder
	setting := Setting{Commit: "abc123", Date: time.Date(2026, 5, 4, 23, 0, 0, 0, time.UTC), Rounds: 5}
	rows := []Row{{Measure: "P1", Name: "a | b", Err: errors.New("first\nsecond"), Goal: AtMost(1)}}
	if err := WriteReport(&b, setting, rows); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"- commit: abc123\n", "- date: 2026-05-04\n", "- rounds: 5\n", "cores", "- Go: ",
		`| P1 | a \| b | - | - |  | - | ≤ 1.00 | not measured: first second |  |` + "\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, b.String())
		}
	}
}

func TestQuantile(t *testing.T) {
	values := []float64{5, 1, 4, 2, 3}
	for q, want := range map[float64]float64{0: 1, 0.2: 1, 0.5: 3, 0.99: 5, 1: 5} {
		if got := quantile(values, q); got != want {
			t.Errorf("quantile(%v) = %v, want %v", q, got, want)
		}
	}
}

func TestInterleaveTakesTurnsAndTheLeast(t *testing.T) {
	var order []string
	side := func(name string, costs ...float64) contender {
		return func(context.Context) (float64, error) {
			cost := costs[0]
			costs = costs[1:]
			order = append(order, name)
			return cost, nil
		}
	}
	least, err := interleave(t.Context(), 2, side("ours", 1, 7, 5), side("floor", 2, 3, 4))
	if err != nil {
		t.Fatal(err)
	}
	if want := []float64{5, 3}; !cmp.Equal(least, want) { // the first round is for warming up
		t.Errorf("least costs %v, want %v", least, want)
	}
	if want := []string{"ours", "floor", "ours", "floor", "ours", "floor"}; !cmp.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
}

func TestMeasureThatFailsIsARow(t *testing.T) {
	broken := errors.New("no network")
	m := Measure{Number: "P9", Title: "something", run: func(context.Context, Env) ([]Row, error) {
		return []Row{{Name: "half of it", Ours: 1, Floor: 1, Goal: AtMost(1)}}, broken
	}}
	rows := m.Run(t.Context(), Env{Rounds: 1})
	if len(rows) != 2 || !rows[0].Met() || !errors.Is(rows[1].Err, broken) {
		t.Errorf("rows %+v, want what was measured and the reason for the rest", rows)
	}
	for _, r := range rows {
		if r.Measure != "P9" {
			t.Errorf("row %q has no number", r.Name)
		}
	}
}
