package offers

import (
	"maps"
	"slices"
	"time"

	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/demand"
	"nstance.dev/server/demand/vector"
)

// ReleaseByType is the ReleaseHold of a group that does not set its own.
const releaseByType = -1

// atOnce is what a wait of "0s" is to the engine, to which 0 is a wait that is not set.
const atOnce = time.Millisecond

// groupOf is what the engine is told of a group, and when a window of its budgets opens or closes.
func groupOf(g *effective.Group, now time.Time) (demand.Group, time.Time) {
	d := g.Demand
	out := demand.Group{
		Name: g.Tenant + "/" + g.Key, Tenant: g.Tenant, Min: int64(*d.Min), Max: int64(*d.Max), MinIdle: int64(*d.MinIdle),
		ScaleDownDelay: max(d.ScaleDownDelay.Std(), atOnce), MinLifetime: d.MinLifetime.Std(), JoinDeadline: d.JoinDeadline.Std(),
		ReleaseHold: releaseByType, UserData: d.Configure == document.ConfigureUserData && g.Machine == nil, Reuse: g.Reuse,
		Limits: limitsOf(d.Limits), Consolidation: demand.Consolidation{Enabled: d.Consolidation.Enabled, MinSaving: int64(*d.Consolidation.MinSaving)},
	}
	if d.ReleaseHold != nil {
		out.ReleaseHold = max(d.ReleaseHold.Std(), atOnce)
	}
	if g.Deleted {
		out.Min, out.MinIdle, out.Max = 0, 0, 0
	}
	var next time.Time
	for _, budget := range d.Disruption {
		b, change := budgetOf(budget, now)
		out.Disruption = append(out.Disruption, b)
		if !change.IsZero() && (next.IsZero() || change.Before(next)) {
			next = change
		}
	}
	return out, next
}

func limitsOf(l *document.DemandLimits) demand.Limits {
	var out demand.Limits
	if l.VCPU != nil {
		out.Resources = append(out.Resources, vector.Amount{Name: "cpu", Amount: saturating(*l.VCPU, 1000)})
	}
	if l.MemoryGiB != nil {
		out.Resources = append(out.Resources, vector.Amount{Name: "memory", Amount: saturating(*l.MemoryGiB, 1<<30)})
	}
	for _, name := range slices.Sorted(maps.Keys(l.GPU)) {
		out.Resources = append(out.Resources, vector.Amount{Name: name, Amount: l.GPU[name]})
	}
	if l.HourlySpend != nil {
		out.HourlySpend = int64(*l.HourlySpend)
	}
	return out
}

// barred reports whether a limit of 0 keeps a machine with these resources and this price from
// being bought at all: to the engine 0 is no limit.
func barred(l *document.DemandLimits, capacity []vector.Amount, price int64) bool {
	limit := func(name string) *int64 {
		switch name {
		case "cpu":
			return l.VCPU
		case "memory":
			return l.MemoryGiB
		}
		if n, ok := l.GPU[name]; ok {
			return &n
		}
		return nil
	}
	for _, a := range capacity {
		if n := limit(a.Name); n != nil && *n == 0 && a.Amount > 0 {
			return true
		}
	}
	return l.HourlySpend != nil && *l.HourlySpend == 0 && price > 0
}

// budgetOf is a budget with the window that it is in force in: the present one, else the next one.
// The second result is when that has to be looked at again; zero: never.
func budgetOf(b document.DisruptionBudget, now time.Time) (demand.Budget, time.Time) {
	out := demand.Budget{Nodes: int64(b.Nodes.N), Percent: b.Nodes.Percent}
	for _, reason := range b.Reasons {
		out.Reasons = append(out.Reasons, demand.Reason(reason))
	}
	if b.Schedule == "" {
		return out, time.Time{}
	}
	schedule, location, err := b.Window().Schedule()
	if err != nil { // the checks refuse it; one that got in all the same is in force at all times
		return out, time.Time{}
	}
	// A window may begin while an earlier one is open: the budget is in force until the last has ended.
	opens := schedule.Next(now.In(location).Add(-b.Duration.Std()))
	if opens.IsZero() {
		out.From, out.Until = now.Add(-2*time.Second), now.Add(-time.Second) // never again
		return out, time.Time{}
	}
	out.From, out.Until = opens, opens.Add(b.Duration.Std())
	for range windowsJoined {
		again := schedule.Next(out.Until.Add(-b.Duration.Std()))
		if again.IsZero() || again.After(out.Until) {
			break
		}
		out.Until = again.Add(b.Duration.Std())
	}
	out.From, out.Until = out.From.UTC(), out.Until.UTC()
	return out, out.Until
}

// windowsJoined is how many windows that overlap are looked at as one: what comes after them is
// looked at when they have ended.
const windowsJoined = 48

// saturating is a*b for positive b, and the greatest int64 where that does not fit.
func saturating(a, b int64) int64 {
	const most = 1<<63 - 1
	if a > most/b {
		return most
	}
	return a * b
}
