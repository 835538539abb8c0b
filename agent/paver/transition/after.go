package transition

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"nstance.dev/agent/paver/assignment"
	"nstance.dev/agent/paver/journal"
)

// Result is what became of a step.
type Result struct {
	Err error
	// BootID and Leader are those of the machine that [BootSlot], [StartActive] or [LookAgain] found.
	BootID string
	Leader journal.Leader
	// CredentialUntil is until when the credential can be used that was written into the slot;
	// zero if none was.
	CredentialUntil time.Time
	// Settings are the host's sysctls, and Network what its network has, that [RecordHost] found
	// before the first change. Of what is recorded already nothing is taken.
	Settings map[string]string
	Network  json.RawMessage
	// Jitter is from -1 to 1.
	Jitter float64
	Now    time.Time
}

// After returns what the journal is once a step was carried out, and whether it changed: only
// then has it to be written. It is to be durable before the next step is decided.
func After(v View, step Step, r Result) (journal.Journal, bool) {
	j := v.Journal.Clone()
	switch step.Kind {
	case Wait, AskForSecret, KillSlot, StopKubelet:
		return j, false
	case TakeOver, Refuse, StartActive, FreeSlot, ResetHost:
		if r.Err != nil {
			return j, false
		}
	}
	switch step.Kind {
	case Begin:
		start(&j, *v.Assignment, v.Slots, r.Now)
	case ResetHost:
		return journal.Journal{V: journal.Version}, true
	case TakeOver:
		takeOver(&j, v.Assignment)
	case Refuse:
		refuse(&j, v.Assignment, step.Reason, r.Now)
	case StartActive:
		noteBoot(&j, step.Slot, r)
	case FreeSlot:
		j.Previous = journal.None
		delete(j.Contents, step.Slot)
		if p := j.Prebuild; p != nil && p.Slot == step.Slot {
			p.Stage, p.Slot, p.Since, p.LastError = journal.PrebuildFailed, journal.None, r.Now, journal.Cut("what was built is deleted: "+step.Reason)
		}
	default:
		if j.Transition == nil {
			return j, false
		}
		if r.Err != nil || step.Kind == LoseAttempt {
			failed(&j, step, r)
		} else {
			done(&j, v, step, r)
		}
	}
	return j, true
}

// start writes down a transition to the assignment.
func start(j *journal.Journal, a assignment.Assignment, slots map[journal.Slot]Observed, now time.Time) {
	next := target(*j)
	j.Prebuild = nil // what is prepared is used, or in the way
	j.Epoch, j.Hash, j.MachineUID, j.Outcome = a.Epoch, a.Configuration.Hash, a.MachineUID, nil
	j.Transition = &journal.Transition{
		Kind: journal.KindBuild, Epoch: a.Epoch, From: j.Active, To: next, Stage: journal.Fetch, Since: now, Started: now, Assignment: a,
	}
	idle, held := slots[next], j.Contents[next]
	if idle.Reusable != "" && idle.Reusable == a.Configuration.Hash && !held.Broken {
		j.Transition.Stage, j.Transition.Marks.Reuse = journal.Build, true
	}
}

// takeOver gives what runs to another HostMachine (adopt mode).
func takeOver(j *journal.Journal, a *assignment.Assignment) {
	j.Epoch, j.Hash, j.MachineUID, j.Outcome, j.Transition, j.Prebuild = a.Epoch, a.Configuration.Hash, a.MachineUID, nil, nil, nil
	content := j.Contents[j.Active]
	content.Epoch, content.Configuration = a.Epoch, a.Configuration
	j.Contents[j.Active] = content
}

// refuse ends an assignment that the host cannot carry out.
func refuse(j *journal.Journal, a *assignment.Assignment, reason string, now time.Time) {
	j.Epoch, j.Hash, j.Transition = a.Epoch, a.Configuration.Hash, nil
	j.Outcome = &journal.Outcome{Epoch: j.Epoch, Configuration: a.Configuration, Result: journal.Refused, At: now, Error: journal.Cut(reason)}
}

func noteBoot(j *journal.Journal, slot journal.Slot, r Result) {
	if j.Contents == nil {
		j.Contents = map[journal.Slot]journal.Content{}
	}
	content := j.Contents[slot]
	content.BootID, content.Leader = r.BootID, r.Leader
	j.Contents[slot] = content
}

// done moves a transition on after a step that succeeded.
func done(j *journal.Journal, v View, step Step, r Result) {
	t := j.Transition
	switch step.Kind {
	case StopSlot:
		t.Marks.Dirty = replaceable(v) // between two attempts it still is
	case GiveUp:
		j.Outcome = &journal.Outcome{Epoch: t.Epoch, Configuration: t.Assignment.Configuration, Stage: t.Marks.FailedIn, Result: journal.Kept, At: r.Now, Error: t.LastError}
		j.Transition = nil
	case BuildSlot, RefreshSlot:
		content(j, t, r)
		advance(t, r.Now)
	case BootSlot:
		noteBoot(j, t.To, r)
		t.Marks.BootID, t.Marks.Dirty = r.BootID, false
		if !r.CredentialUntil.IsZero() {
			t.Marks.CredentialUntil = r.CredentialUntil
		}
		advance(t, r.Now)
	case LookAgain:
		noteBoot(j, t.To, r)
		t.Marks.BootID = r.BootID
	case RecordHost:
		record(j, r)
		t.Marks.Recorded = true
	case ConfirmJoin:
		if confirmed(v, t) {
			t.Marks.NodeUID = v.Confirmed.NodeUID
		}
		t.Stage, t.Since, t.RetryAt, t.Marks.Dirty = journal.Commit, r.Now, time.Time{}, false
	case EnableSlot:
		commit(j, t, r.Now)
	case SweepSlots:
		j.Transition = nil
	default:
		advance(t, r.Now)
	}
}

// record notes what the host was like before anything of it was changed.
func record(j *journal.Journal, r Result) {
	settings := maps.Clone(r.Settings)
	if settings == nil {
		settings = map[string]string{}
	}
	maps.Copy(settings, j.Settings) // what was recorded first is from before
	if len(settings) > 0 {
		j.Settings = settings
	}
	if j.Network == nil {
		j.Network = r.Network
	}
}

// advance goes on to the next stage. The attempts of preparing and those of switching are counted
// apart.
func advance(t *journal.Transition, now time.Time) {
	before := stages[t.Stage]
	t.Stage, t.Since, t.RetryAt = before.next, now, time.Time{}
	if before.prepares && !stages[t.Stage].prepares {
		t.Attempts = 0
	}
}

// content notes what a slot holds from now on. What it held before cannot be gone back to.
func content(j *journal.Journal, t *journal.Transition, r Result) {
	if j.Contents == nil {
		j.Contents = map[journal.Slot]journal.Content{}
	}
	j.Contents[t.To] = journal.Content{Configuration: t.Assignment.Configuration, Epoch: t.Epoch}
	if j.Previous == t.To {
		j.Previous = journal.None
	}
	if !r.CredentialUntil.IsZero() {
		t.Marks.CredentialUntil = r.CredentialUntil
	}
}

// commit makes the new slot the active one. The old one is kept to go back to, unless it is the
// one that was reverted.
func commit(j *journal.Journal, t *journal.Transition, now time.Time) {
	j.Active, j.Previous = t.To, t.From
	if t.Kind == journal.KindRevert {
		j.Previous = journal.None
		if j.Outcome != nil {
			j.Outcome.Result = journal.Reverted
		}
	}
	joined := j.Contents[t.To]
	joined.Broken = false
	if joined.BootID == "" { // a machine that was started again since has another one
		joined.BootID = t.Marks.BootID
	}
	if t.Marks.NodeUID != "" {
		joined.NodeUID = t.Marks.NodeUID
	}
	j.Contents[t.To] = joined
	t.Stage, t.Since, t.Attempts, t.RetryAt, t.LastError = journal.Sweep, now, 0, time.Time{}, ""
}

// failed counts a failure and decides what it leads to.
func failed(j *journal.Journal, step Step, r Result) {
	t := j.Transition
	reason := step.Reason
	if r.Err != nil {
		reason = r.Err.Error()
	}
	t.Attempts++
	t.LastError, t.Marks.FailedIn, t.Since = journal.Cut(reason), t.Stage, r.Now
	t.RetryAt = r.Now.Add(Backoff(t.Attempts, r.Jitter))
	switch {
	case step.Kind == RefreshSlot:
		// What the slot holds is not what its marker says: it is built from the beginning.
		t.Stage, t.Marks.Reuse = journal.Fetch, false
	case t.Stage == journal.Boot || t.Stage == journal.Join:
		t.Stage, t.Marks.Dirty = journal.Boot, true
	}
	// To stop the old machine, to commit and to sweep there is no alternative, and on the first
	// pave and on the way back no machine to go back to: these are tried for ever.
	if t.Attempts < MaxAttempts || t.From == journal.None || t.Kind == journal.KindRevert || t.Marks.GaveUp {
		return
	}
	if preparing := stages[t.Stage].prepares; preparing || t.Stage == journal.Boot {
		end(j, t, preparing, r.Now)
	}
}

// end ends a transition after its last failure, as the assignment's failure policy says.
func end(j *journal.Journal, t *journal.Transition, preparing bool, now time.Time) {
	t.RetryAt = time.Time{}
	failure := journal.Outcome{Epoch: t.Epoch, Stage: t.Marks.FailedIn, At: now, Configuration: t.Assignment.Configuration, Error: t.LastError}
	switch {
	case t.Assignment.Hold:
		failure.Result = journal.Held
		t.Marks.Held = true
	case preparing:
		t.Marks.GaveUp = true
		return
	default:
		failure.Result = journal.Reverting
		broken := j.Contents[t.To]
		broken.Broken = true
		j.Contents[t.To] = broken
		j.Transition = &journal.Transition{
			Kind: journal.KindRevert, Epoch: t.Epoch, From: t.To, To: t.From, Stage: journal.Retire, Since: now, Started: t.Started,
			LastError: t.LastError, Assignment: t.Assignment,
		}
	}
	j.Outcome = &failure
}

// Unwritten returns what is gone on from where a step was carried out, and the journal that follows
// from it could not be written. One that prepares counts as an attempt that failed, in memory alone:
// on a disk that is full it would be repeated for ever, at its whole cost, while the old machine
// stands still. The journal on the disk says less then, and a restart goes on from that. Every other
// step is to be carried out again; counted is false.
func Unwritten(v View, step Step, r Result) (j journal.Journal, counted bool) {
	t := v.Journal.Transition
	if t == nil || !stages[t.Stage].prepares || t.Marks.GaveUp {
		return v.Journal, false
	}
	switch step.Kind {
	case FetchRoot, BuildSlot, RefreshSlot, RecordHost, CheckGuards, LoseAttempt:
	default:
		return v.Journal, false
	}
	built := step.Kind == BuildSlot && r.Err == nil
	if r.Err == nil {
		r.Err = errUnwritten
	}
	j, counted = After(v, step, r)
	if built { // what the slot held before is gone all the same
		delete(j.Contents, t.To)
		if j.Previous == t.To {
			j.Previous = journal.None
		}
	}
	return j, counted
}

// errUnwritten is what a step failed of that was carried out.
var errUnwritten = errors.New("the journal cannot be written")

// Accept decides about an assignment that came in (M41). Stored is the last accepted one; nil if
// there is none. Reset is the epoch of the reset that was carried out since: the journal that would
// refuse what was told before it is gone with it; 0: there was none. An error says why it is ignored;
// one that was accepted before is no error, and fresh is false.
func Accept(j journal.Journal, stored *assignment.Assignment, reset int64, a assignment.Assignment) (fresh bool, err error) {
	epoch, hash, uid := j.Epoch, j.Hash, j.MachineUID
	switch {
	case a.Epoch > reset:
	case a.Epoch == reset && a.Mode == assignment.Reset:
		return false, nil
	default:
		return false, fmt.Errorf("assignment of epoch %d is ignored: the host was reset by epoch %d since", a.Epoch, reset)
	}
	if stored != nil && stored.Epoch >= epoch {
		epoch, hash, uid = stored.Epoch, stored.Configuration.Hash, stored.MachineUID
	}
	switch {
	case a.Epoch < epoch:
		return false, fmt.Errorf("assignment of epoch %d is ignored: epoch %d was accepted before", a.Epoch, epoch)
	case a.Epoch > epoch:
		return true, nil
	case a.Configuration.Hash != hash:
		return false, fmt.Errorf("EpochConflict: an assignment of epoch %d was accepted with content %.19s, and this one has %.19s", epoch, hash, a.Configuration.Hash)
	case a.MachineUID != uid:
		return false, fmt.Errorf("EpochConflict: an assignment of epoch %d was accepted for machine %s, and this one is for %s", epoch, uid, a.MachineUID)
	}
	return false, nil
}
