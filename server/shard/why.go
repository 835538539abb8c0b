package shard

import (
	"fmt"
	"sync"
	"time"

	"nstance.dev/server/decisions"
	"nstance.dev/server/fleet"
)

// weighing is one look at a group: what is planned, what becomes of it, and why.
// A pass of the loop acts on one, an explanation shows one.
type weighing struct {
	group    fleet.GroupID
	at       time.Time
	view     fleet.View
	plan     fleet.Decision
	pause    decisions.Hold
	limit    decisions.Hold // of the provider, on calls; the zero Hold: none is felt
	misfit   decisions.Hold // of its instance types; the zero Hold: they fit
	unlocked bool           // it was static, and has left the configuration
	failed   string         // why the last new machine was of no use; "": none has been since one lasted
	lacking  []decisions.Undelivered
	verdict  decisions.Verdict
}

// weigh decides about a group as things stand. It changes nothing.
func (r *Reign) weigh(group fleet.GroupID, now time.Time) weighing {
	w := weighing{
		group: group, at: now, view: r.view(group, now),
		pause: r.wanted.pause(group, now), limit: r.backoffs.throttle(group, now), lacking: r.undelivered(group),
		misfit: r.misfit(group), failed: r.breakers.of(group).Why(), unlocked: r.wanted.unlocked(group),
	}
	w.plan = fleet.Plan(w.view, now)
	w.verdict = decisions.Weigh(group, w.plan, r.rails(group, w.pause, now), now)
	return w
}

// wake is when to look again without an event; zero: no need.
func (w weighing) wake() time.Time {
	soonest := w.plan.Wake
	for _, t := range []time.Time{w.verdict.Wake, w.pause.Until, w.limit.Until} {
		if !t.IsZero() && (soonest.IsZero() || t.Before(soonest)) {
			soonest = t
		}
	}
	return soonest
}

// conditions are those of the group and its instances. They know no beginning.
func (w weighing) conditions() []decisions.Condition {
	return decisions.Conditions(decisions.Facts{
		Group: w.view.Group, Counts: w.plan.Counts, Shown: w.verdict.Shown,
		Holds: []decisions.Hold{w.pause, w.limit, w.misfit}, Undelivered: w.lacking, Instances: w.view.Instances,
		Unlocked: w.unlocked, FailedLaunch: w.failed,
	})
}

// misfit is what the provider has said against the instance types of a group. It
// holds nothing back: the creates go out, and fail as the provider has it.
func (r *Reign) misfit(group fleet.GroupID) decisions.Hold {
	eff, ok := r.wanted.any(group)
	if !ok {
		return decisions.Hold{}
	}
	for _, name := range eff.InstanceTypes {
		if err := r.opts.Misfit(name, eff.Arch); err != nil {
			return decisions.Hold{By: fleet.BlockerType, Why: err.Error()}
		}
	}
	return decisions.Hold{}
}

// rails are what holds back actions whatever the plan says: a pause; creates
// that would only stand in line or go beyond the breaker (those before them have
// the group looked at again); and every delete while the provider's listing
// cannot be believed (S8).
func (r *Reign) rails(group fleet.GroupID, pause decisions.Hold, now time.Time) decisions.Rails {
	rails := decisions.Rails{
		Pause: pause, Room: r.creator.room(group),
		Beyond: decisions.Hold{By: fleet.BlockerQueue, Why: "the creates before it go first"},
	}
	bound := r.tries(group)
	breaker := r.breakers.of(group)
	if left, bounded := breaker.Left(bound, now); bounded && left < rails.Room {
		rails.Room = left
		rails.Beyond = decisions.Hold{
			By:  fleet.BlockerCrashLoop,
			Why: breaker.Explain(fmt.Sprintf("its machines do not register, or end soon after; at most %d new ones are tried within an hour", bound)),
		}
	}
	by, probing := r.backoffs.probing(group)
	if room := 1 - r.pending(group); probing && room < rails.Room {
		rails.Room = room
		rails.Beyond = decisions.Hold{By: by, Why: "one create is tried before the others, for the last ones failed"}
	}
	if alarm := r.collector.alarmed(); alarm != "" {
		rails.Listing = decisions.Hold{By: fleet.BlockerListing, Why: alarm}
	}
	return rails
}

// standings is what was last said of each group, so that only news is said
// again. It is safe for concurrent use.
type standings struct {
	mu      sync.Mutex
	byGroup map[fleet.GroupID]standing
}

type standing struct {
	shown      []decisions.Decision
	conditions []decisions.Condition
	paused     bool
}

func newStandings() *standings { return &standings{byGroup: map[fleet.GroupID]standing{}} }

// swap puts what stands now in the place of what stood before, which it returns.
func (s *standings) swap(group fleet.GroupID, now standing, at time.Time) standing {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.byGroup[group]
	now.conditions = decisions.Track(before.conditions, now.conditions, at)
	s.byGroup[group] = now
	return before
}

func (s *standings) of(group fleet.GroupID) standing {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byGroup[group]
}

// count is how many groups have each condition, none left out.
func (s *standings) count() map[string]int {
	counts := map[string]int{}
	for _, what := range decisions.Types() {
		counts[what] = 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.byGroup {
		for _, c := range st.conditions {
			if c.Instance == "" {
				counts[c.Type]++
			}
		}
	}
	return counts
}

func (s *standings) drop(group fleet.GroupID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byGroup, group)
}

// remember keeps the decisions of a pass with their reasons and says what is new
// about them.
func (r *Reign) remember(w weighing) {
	_, exists := r.wanted.any(w.group)
	if !exists && len(w.view.Instances) == 0 {
		r.standings.drop(w.group) // nothing is left that could be asked about
		r.cache.DropGroup(w.group)
		return
	}
	now := standing{shown: w.verdict.Shown, conditions: w.conditions(), paused: w.pause.By != ""}
	before := r.standings.swap(w.group, now, w.at)
	for _, d := range decisions.News(before.shown, w.verdict.Shown) {
		r.cache.AddDecision(d)
		r.opts.Metrics.decided(d)
		r.log.Info("decided", "tenant", d.Group.Tenant, "group", d.Group.Name, "action", d.Action,
			"instance", d.Instance, "reason", d.Why(), "held_by", d.By, "held_why", d.HeldBy)
	}
	if before.paused != now.paused && exists {
		r.publishGroup(w.group)
	}
}
