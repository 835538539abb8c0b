package bench

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"text/tabwriter"
)

// Goal is a bound on the ratio of ours to the floor.
type Goal struct {
	Bound   float64
	AtLeast bool // the ratio is to be Bound or more; else Bound or less
}

// AtMost is the goal of a cost.
func AtMost(bound float64) Goal { return Goal{Bound: bound} }

// AtLeast is the goal of a rate.
func AtLeast(bound float64) Goal { return Goal{Bound: bound, AtLeast: true} }

// String writes the goal as it stands in the table, such as "≥ 0.60".
func (g Goal) String() string {
	sign := "≤"
	if g.AtLeast {
		sign = "≥"
	}
	return fmt.Sprintf("%s %.2f", sign, g.Bound)
}

// Met reports whether a ratio fulfils the goal. No number is never enough.
func (g Goal) Met(ratio float64) bool {
	if g.AtLeast {
		return ratio >= g.Bound
	}
	return ratio <= g.Bound
}

// Row is one number: ours and the floor's, in the same unit.
type Row struct {
	Measure string // such as "P1"
	Name    string
	Unit    string // of Ours and Floor
	Ours    float64
	Floor   float64
	Against string // what the floor is
	Goal    Goal
	Err     error // why there is no number; the fields above may be zero then

	// Broken names a promise beside the ratio that did not hold; empty: none.
	Broken string
}

// Ratio is ours divided by the floor, NaN where there is no floor.
func (r Row) Ratio() float64 {
	if r.Err != nil || r.Floor == 0 {
		return math.NaN()
	}
	return r.Ours / r.Floor
}

// Met reports whether the row has a number that fulfils its goal, and breaks no
// other promise.
func (r Row) Met() bool { return r.Err == nil && r.Broken == "" && r.Goal.Met(r.Ratio()) }

// verdict is the last word of a row.
func (r Row) verdict() string {
	switch {
	case r.Err != nil:
		return "not measured: " + r.Err.Error()
	case r.Broken != "":
		return "missed: " + r.Broken
	case r.Met():
		return "met"
	default:
		return "missed"
	}
}

// header names the columns of a row, in the order of cells.
var header = []string{"no.", "what", "ours", "floor", "unit", "ratio", "goal", "met", "floor is"}

// cells are a row's columns as text.
func (r Row) cells() []string {
	if r.Err != nil {
		return []string{r.Measure, r.Name, "-", "-", r.Unit, "-", r.Goal.String(), r.verdict(), r.Against}
	}
	return []string{
		r.Measure, r.Name, number(r.Ours), number(r.Floor), r.Unit,
		fmt.Sprintf("%.2f", r.Ratio()), r.Goal.String(), r.verdict(), r.Against,
	}
}

// number writes a measured value with the digits that can mean something.
func number(v float64) string {
	switch {
	case math.Abs(v) >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case math.Abs(v) >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	default:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
}

// WriteTable writes rows as aligned columns for a terminal.
func WriteTable(w io.Writer, rows []Row) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(cells []string) {
		for i, cell := range cells {
			if i > 0 {
				_, _ = io.WriteString(t, "\t") // Flush returns the first error
			}
			_, _ = io.WriteString(t, cell)
		}
		_, _ = io.WriteString(t, "\n")
	}
	line(header)
	for _, r := range rows {
		line(r.cells())
	}
	return t.Flush()
}
