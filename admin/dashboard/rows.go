package dashboard

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// row is one line of a list, and what it is about.
type row struct {
	shard, group, instance string
	paused, demand         bool
	size                   int32
	bad                    bool // to be seen at once
	cells                  []string
	keys                   []float64 // by which a column is sorted where its text does not do; NaN-free
}

// several reports whether lists have a column for the shard.
func several(s State) bool { return len(s.Shards) > 1 }

// headers are those of a pane.
func headers(s State, p Pane) []string {
	list := [...][]string{
		{"GROUP", "SIZE", "RUNNING", "PENDING", "UNHEALTHY", "DRAINING", "CONDITIONS"},
		{"INSTANCE", "GROUP", "STATUS", "AGE", "SEEN", "TYPE", "ADDRESS"},
		{"TIME", "KIND", "EVENT"},
		{"GROUP", "MODE", "MACHINES", "IDLE", "VCPU", "MEMORY", "USD/H", "USD/MONTH"},
	}[p]
	if several(s) {
		return append([]string{"SHARD"}, list...)
	}
	return list
}

// rows are those of a pane that the filter lets through, sorted.
func rows(s State, p Pane) []row {
	var all []row
	switch p {
	case Groups, Cost:
		for _, shard := range s.Shards {
			for _, g := range shard.Groups {
				if p == Groups {
					all = append(all, groupRow(shard.Name, g))
				} else {
					all = append(all, costRow(shard.Name, g))
				}
			}
		}
	case Instances:
		for _, shard := range s.Shards {
			for _, in := range shard.Instances {
				all = append(all, instanceRow(shard.Name, in, s.Now))
			}
		}
	case Events:
		for _, e := range slices.Backward(s.Happened) {
			all = append(all, row{
				shard: e.Shard, bad: e.Kind == "error",
				cells: []string{e.At.UTC().Format(time.TimeOnly), e.Kind, e.Text}, keys: []float64{-float64(e.At.UnixMilli()), 0, 0},
			})
		}
	}
	filter := strings.ToLower(s.Filter)
	kept := all[:0]
	for _, r := range all {
		if several(s) {
			r.cells, r.keys = append([]string{r.shard}, r.cells...), append([]float64{0}, r.keys...)
		}
		if filter == "" || strings.Contains(strings.ToLower(strings.Join(r.cells, " ")), filter) {
			kept = append(kept, r)
		}
	}
	column, reverse := s.Sort[p], s.Reverse[p]
	slices.SortStableFunc(kept, func(a, b row) int {
		c := cmp.Or(cmp.Compare(a.keys[column], b.keys[column]), cmp.Compare(a.cells[column], b.cells[column]))
		if reverse {
			return -c
		}
		return c
	})
	return kept
}

// selected is the row under the cursor.
func selected(s State) (row, bool) {
	all := rows(s, s.Pane)
	if len(all) == 0 {
		return row{}, false
	}
	return all[max(0, min(s.Cursor[s.Pane], len(all)-1))], true
}

// modeDemand is the mode of groups whose size follows from what is needed.
const modeDemand = "demand"

func groupRow(shard string, g *nstancev1.GroupStatus) row {
	r := row{shard: shard, group: g.GetKey(), paused: g.GetPause() != nil, demand: g.GetMode() == modeDemand, size: g.GetSize()}
	size, key := strconv.Itoa(int(g.GetSize())), float64(g.GetSize())
	if r.demand {
		size, key = modeDemand, -1
	}
	var conditions []string
	for _, c := range g.GetConditions() {
		conditions = append(conditions, c.GetType())
	}
	if g.GetDeleting() {
		conditions = append(conditions, "deleting")
	}
	r.bad = g.GetUnhealthy() > 0
	r.cells = []string{g.GetKey(), size}
	r.keys = []float64{0, key}
	for _, n := range []int32{g.GetActualSize(), g.GetPending(), g.GetUnhealthy(), g.GetDraining()} {
		r.cells, r.keys = append(r.cells, strconv.Itoa(int(n))), append(r.keys, float64(n))
	}
	r.cells, r.keys = append(r.cells, strings.Join(conditions, ", ")), append(r.keys, 0)
	return r
}

func instanceRow(shard string, in *nstancev1.InstanceStatus, now time.Time) row {
	status := in.GetStatus()
	if reason := in.GetCondemned().GetReason(); reason != "" {
		status += " (" + reason + ")"
	}
	address := ""
	if len(in.GetAddresses()) > 0 {
		address = in.GetAddresses()[0]
	}
	born, seen := in.GetCreatedAt().AsTime(), in.GetLastSeen().AsTime()
	r := row{shard: shard, group: in.GetGroup(), instance: in.GetInstanceId(), bad: in.GetStatus() == "unhealthy"}
	r.cells = []string{in.GetInstanceId(), in.GetGroup(), status, "-", "-", in.GetInstanceType(), address}
	r.keys = make([]float64, len(r.cells))
	if in.GetCreatedAt() != nil {
		r.cells[3], r.keys[3] = span(now.Sub(born)), now.Sub(born).Seconds()
	}
	if in.GetLastSeen() != nil {
		r.cells[4], r.keys[4] = span(now.Sub(seen)), now.Sub(seen).Seconds()
	}
	return r
}

// hours are those of a month as bills count them.
const hours = 730

func costRow(shard string, g *nstancev1.GroupStatus) row {
	r := row{shard: shard, group: g.GetKey(), paused: g.GetPause() != nil, demand: g.GetMode() == modeDemand, size: g.GetSize()}
	u := g.GetDemandUsage()
	if u == nil {
		mode := cmp.Or(g.GetMode(), "fixed")
		r.cells = []string{g.GetKey(), mode, strconv.Itoa(int(g.GetActualSize())), "-", "-", "-", "-", "-"}
		r.keys = []float64{0, 0, float64(g.GetActualSize()), -1, -1, -1, -1, -1}
		return r
	}
	hourly := float64(u.GetHourlyMicroUsd()) / 1e6
	r.cells = []string{
		g.GetKey(), cmp.Or(g.GetMode(), "fixed"), fmt.Sprint(u.GetMachines()), fmt.Sprint(u.GetIdle()), fmt.Sprint(u.GetVcpu()),
		fmt.Sprintf("%d GiB", u.GetMemoryGib()), fmt.Sprintf("%.2f", hourly), fmt.Sprintf("%.0f", hourly*hours),
	}
	r.keys = []float64{0, 0, float64(u.GetMachines()), float64(u.GetIdle()), float64(u.GetVcpu()), float64(u.GetMemoryGib()), hourly, hourly}
	return r
}

// span is a duration in its largest unit, or two.
func span(d time.Duration) string {
	d = max(0, d)
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}
