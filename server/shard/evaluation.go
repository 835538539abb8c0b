package shard

import (
	"time"

	"nstance.dev/server/explain"
	"nstance.dev/server/fleet"
)

// evaluation is one look at a group: what is planned, what becomes of it, and why.
// A pass of the loop acts on one, an explanation shows one.
type evaluation struct {
	group        fleet.GroupID
	at           time.Time
	view         fleet.View
	plan         fleet.Decision
	pause        fleet.Block
	limit        fleet.Block // of the provider, on calls; the zero Block: none is known
	archMismatch fleet.Block // of its instance types; the zero Block: they fit
	unlocked     bool        // it was static, and has left the configuration
	failed       string      // why the last new machine was of no use; "": none has been since one lasted
	lacking      []explain.Undelivered
	result       explain.Evaluation
}

// evaluate decides about a group as things stand. It changes nothing.
func (p *planner) evaluate(group fleet.GroupID, now time.Time) evaluation {
	e := evaluation{
		group: group, at: now, view: p.view(group, now),
		pause: p.groups.Paused(group, now), limit: p.launcher.Throttled(group, now), lacking: p.files.Undelivered(group),
		archMismatch: p.archMismatch(group), failed: p.launcher.FailedLaunch(group), unlocked: p.groups.Unlocked(group),
	}
	e.plan = fleet.Plan(e.view, now)
	e.result = explain.Evaluate(group, e.plan, p.blocks(group, e.pause, now), now)
	return e
}

// wake is when to look again without an event; zero: no need.
func (e evaluation) wake() time.Time {
	soonest := e.plan.Wake
	for _, t := range []time.Time{e.result.Wake, e.pause.Until, e.limit.Until} {
		if !t.IsZero() && (soonest.IsZero() || t.Before(soonest)) {
			soonest = t
		}
	}
	return soonest
}

// wakeWithin is how long to wait before the next look, and at most limit.
func (e evaluation) wakeWithin(limit time.Duration) time.Duration {
	if wake := e.wake(); wake.After(e.at) {
		return min(limit, wake.Sub(e.at))
	}
	return limit
}

// conditions are those of the group and its instances. They know no beginning.
func (e evaluation) conditions() []explain.Condition {
	return explain.Conditions(explain.Facts{
		Group: e.view.Group, Counts: e.plan.Counts, Shown: e.result.Shown,
		Blocks: []fleet.Block{e.pause, e.limit, e.archMismatch}, Undelivered: e.lacking, Instances: e.view.Instances,
		Unlocked: e.unlocked, FailedLaunch: e.failed,
	})
}

// archMismatch is what the provider has said against the instance types of a group. It
// blocks nothing: the creates go out, and fail as the provider has it.
func (p *planner) archMismatch(group fleet.GroupID) fleet.Block {
	eff, ok := p.groups.Find(group)
	if !ok {
		return fleet.Block{}
	}
	for _, name := range eff.InstanceTypes {
		if err := p.checkArch(name, eff.Arch); err != nil {
			return fleet.Block{By: fleet.BlockerType, Why: err.Error()}
		}
	}
	return fleet.Block{}
}

// blocks are what blocks actions whatever the plan says: a pause; creates
// that would only stand in line or go beyond the breaker (those before them have
// the group looked at again); and every delete while the provider's listing
// cannot be believed (S8).
func (p *planner) blocks(group fleet.GroupID, pause fleet.Block, now time.Time) explain.Blocks {
	blocks := explain.Blocks{Pause: pause}
	blocks.Room, blocks.Beyond = p.launcher.Room(group, now)
	if alarm := p.collector.Alarm(); alarm != "" {
		blocks.Listing = fleet.Block{By: fleet.BlockerListing, Why: alarm}
	}
	return blocks
}
