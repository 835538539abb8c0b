package transition

import (
	"time"

	"nstance.dev/agent/paver/assignment"
	"nstance.dev/agent/paver/journal"
)

// stage is what holds in one stage of a transition.
//
//	fetch → build → guard → retire → boot → join → commit → sweep → no transition
//
// A revert begins at retire. What fails up to guard leaves the old machine as it is; what fails
// from retire to join is tried again from boot, and reverted in the end.
type stage struct {
	next journal.Stage
	// prepares: the old machine runs, and nothing of it is touched but its kubelet.
	prepares bool
	// runs is the slot that may run a machine.
	runs func(*journal.Transition) journal.Slot
	// limit is how long one attempt of the work may take.
	limit func(assignment.Timeouts) time.Duration
	// work is the step that does the stage's work; a wait for join.
	work Kind
}

func from(t *journal.Transition) journal.Slot { return t.From }
func to(t *journal.Transition) journal.Slot   { return t.To }

// guardLimit bounds looking at disk and API server; grace is what a step may take beyond what
// was given to those that it waits for.
const (
	guardLimit = time.Minute
	grace      = 30 * time.Second
)

// stages is the state machine.
var stages = map[journal.Stage]stage{
	journal.Fetch:  {journal.Build, true, from, func(t assignment.Timeouts) time.Duration { return t.Prepare }, FetchRoot},
	journal.Build:  {journal.Guard, true, from, func(t assignment.Timeouts) time.Duration { return t.Prepare }, BuildSlot},
	journal.Guard:  {journal.Retire, true, from, func(assignment.Timeouts) time.Duration { return guardLimit }, CheckGuards},
	journal.Retire: {journal.Boot, false, from, func(t assignment.Timeouts) time.Duration { return t.Stop + grace }, RetireSlot},
	journal.Boot:   {journal.Join, false, to, func(t assignment.Timeouts) time.Duration { return t.Boot }, BootSlot},
	journal.Join:   {journal.Commit, false, to, func(t assignment.Timeouts) time.Duration { return t.Join }, Wait},
	journal.Commit: {journal.Sweep, false, to, func(assignment.Timeouts) time.Duration { return guardLimit }, EnableSlot},
	journal.Sweep:  {"", false, to, func(assignment.Timeouts) time.Duration { return 5 * time.Minute }, SweepSlots},
}

// MaxAttempts is how often a transition is tried before it is given up, where there is a machine
// to go back to.
const MaxAttempts = 3

// Backoff is how long to wait after a failure, from the second one on twice as long as before:
// 30s to 10m, give or take a fifth. Jitter is from -1 to 1.
func Backoff(attempts int, jitter float64) time.Duration {
	const first, most = 30 * time.Second, 10 * time.Minute
	d := most
	if shift := attempts - 1; shift < 5 {
		d = min(most, first<<max(0, shift))
	}
	return d + time.Duration(jitter*float64(d)/5)
}

// mayRun is the slot that may run a machine while the journal is as it is.
func mayRun(j journal.Journal) journal.Slot {
	if t := j.Transition; t != nil {
		return stages[t.Stage].runs(t)
	}
	return j.Active
}
