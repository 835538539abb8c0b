package demandloop

import (
	"cmp"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"nstance.dev/server/demand"
)

// audit logs what becomes of each decision. What is carried out is a line of its own; what is not is decided again in
// every cycle, and logged when it begins, when there is more or less of it, and when it ends.
type audit struct {
	log      *slog.Logger
	withheld map[withheld]int // by what is alike
	capped   int
}

// withheld is what decisions that are not carried out have in common.
type withheld struct {
	disposition demand.Disposition
	kind        demand.Kind
	cluster     string
	what        string // the machine; with a purchase the offer
	reason      demand.Reason
}

func newAudit(log *slog.Logger) *audit { return &audit{log: log, withheld: map[withheld]int{}} }

// decided takes in the decisions of a cycle.
func (a *audit) decided(r demand.Result) {
	now := map[withheld]int{}
	for _, action := range r.Actions {
		switch {
		case action.Disposition == demand.Execute:
			a.log.Info("demand decision", "action", action.Kind.String(), "machine", action.Machine, "cluster", action.Cluster, "offer", action.Offer,
				"reason", action.Reason, "disposition", action.Disposition.String())
		case action.Kind == demand.Provision: // its machine has another name in each cycle
			now[withheld{action.Disposition, action.Kind, action.Cluster, action.Offer, action.Reason}]++
		default:
			now[withheld{action.Disposition, action.Kind, action.Cluster, action.Machine, action.Reason}]++
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(now), withheld.compare) {
		if now[key] != a.withheld[key] {
			a.note(key, now[key])
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(a.withheld), withheld.compare) {
		if now[key] == 0 {
			a.note(key, 0)
		}
	}
	a.withheld = now
	if r.Capped != a.capped {
		a.log.Info("demand decision", "action", demand.Reclaim.String(), "reason", "as many go already as may at once", "disposition", "capped", "count", r.Capped)
		a.capped = r.Capped
	}
}

// note logs how many decisions of a sort are not carried out.
func (a *audit) note(w withheld, count int) {
	subject := "machine"
	if w.kind == demand.Provision {
		subject = "offer"
	}
	a.log.Info("demand decision", "action", w.kind.String(), subject, w.what, "cluster", w.cluster, "reason", w.reason,
		"disposition", w.disposition.String(), "count", count)
}

func (w withheld) compare(o withheld) int {
	return cmp.Or(cmp.Compare(w.disposition, o.disposition), cmp.Compare(w.kind, o.kind), strings.Compare(w.cluster, o.cluster),
		strings.Compare(w.what, o.what), strings.Compare(string(w.reason), string(o.reason)))
}

// stopwatch measures the phases of the engine's cycles.
type stopwatch struct {
	metrics *Metrics
	now     func() time.Time
	phase   string // that is under way; empty: none
	began   time.Time
}

// next notes that a phase begins, and with it that the one before has ended; "" begins none.
func (s *stopwatch) next(phase string) {
	now := s.now()
	if s.phase != "" {
		s.metrics.phase(s.phase, now.Sub(s.began))
	}
	s.phase, s.began = phase, now
}
