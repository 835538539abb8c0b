package fleet

import (
	"slices"
	"time"
)

// succession is the one way in which an instance makes room for another: a
// successor is asked for by a [Create] that names it, and once that one is far
// enough the instance itself is condemned. Until then the two count as one.
//
// Every cause of a replacement is a succession: sickness, the provider's notice,
// a caller's wish, age and drift. They differ in nothing but what stands here;
// how many of one kind may be under way at once is the business of the pass that
// carries them out (repair for those that cannot wait).
type succession struct {
	reason  Reason // of the removal
	why     string // for people
	until   stage  // how far the successor has to be before the instance goes
	patient bool   // it waits for a good moment
	alone   bool   // the machine is lost in any case: it goes where no successor can be asked for, too
	hold    bool   // begun by a former leader, and perhaps pointless by now: nothing follows from it, and neither of the two is too many
}

// stage is how far a successor has come. The zero stage: there is none.
type stage uint8

const (
	asked  stage = iota + 1 // its record stands
	made                    // the provider has its VM
	joined                  // its agent has registered
	proved                  // its agent has reported since
)

// stageOf is how far a live instance has come; zero for others.
func stageOf(in *Instance) stage {
	switch {
	case in.State == Pending:
		return asked
	case in.State == Provisioning:
		return made
	case in.State.Registered() && in.Proved:
		return proved
	case in.State.Registered():
		return joined
	default:
		return 0
	}
}

// successionOf says whether in has to make room, for the most pressing of its
// causes. Those that can wait come last.
func (p *planner) successionOf(in *Instance) (succession, bool) {
	switch {
	case in.State.Sick():
		s := succession{reason: in.verdict(), why: "replaces a sick instance", until: made}
		if in.Power != Up {
			s.until, s.alone = asked, true // nothing is left that the wait could spare
		}
		return s, true
	case !in.State.Live():
		return succession{}, false
	case in.Notice.Given():
		return succession{reason: ReasonSpotTermination, why: "replaces one that the provider takes back", until: asked, alone: true}, true
	case in.ReplaceFirst:
		return succession{reason: ReasonRequested, why: "replaces one that a caller named", until: proved}, true
	}
	if s, ok := p.outdated(in); ok {
		return s, true
	}
	return succession{hold: true}, !in.Proved && in.Replacement != ""
}

// outdated says whether in has to make room for its age, or for what it was made
// from. Neither is forgotten by a change of leader.
func (p *planner) outdated(in *Instance) (succession, bool) {
	aging := p.v.Aging
	switch {
	case p.reached(in, aging.Forced):
		return succession{reason: ReasonForcedExpiry, why: "replaces one that is older than forced_age", until: proved}, true
	case p.reached(in, aging.Eligible):
		return succession{reason: ReasonExpired, why: "replaces one that is older than eligible_age", until: proved, patient: true}, true
	case p.drifted(in):
		return succession{reason: ReasonConfigDrift, why: "replaces one that was made from an older configuration", until: proved, patient: true}, true
	default:
		return succession{}, false
	}
}

// step is what a succession needs next.
type step uint8

const (
	stepWait    step = iota // for its successor, or for the gate
	stepCreate              // a successor
	stepCondemn             // the removal of the instance
)

// next says what the succession of in needs now, and why. Where that is to wait, a
// note says so, under the name of what is held back.
func (p *planner) next(in *Instance, s succession, what string) (step, string) {
	heirs := p.heirsOf(in)
	far := stage(0)
	for _, h := range heirs {
		far = max(far, stageOf(h))
	}
	switch {
	case s.hold:
		p.note(in.ID, what, BlockerProof, "its agent has not reported since the change of leader", time.Time{})
	case far >= s.until:
		return stepCondemn, "its replacement is there"
	case far > 0:
		p.note(in.ID, what, BlockerReplacement, "its replacement "+s.until.missing(), time.Time{})
	case len(heirs) > 0:
		p.note(in.ID, what, BlockerReplacement, "its replacement is sick as well and comes first", time.Time{})
	case p.v.Creates.Blocked != "" && s.alone:
		return stepCondemn, "its VM is lost, and nothing can be created now"
	case p.v.Creates.Blocked != "":
		p.holdCreates(in.ID, what)
	default:
		return stepCreate, s.why
	}
	return stepWait, ""
}

// missing says what a successor lacks that has not come as far as s.
func (s stage) missing() string {
	switch s {
	case made:
		return "has no VM yet"
	case joined:
		return "has not registered yet"
	default:
		return "has not registered and reported yet"
	}
}

// succeeds reports whether in has to make room for another one: if it has one,
// the two count as one.
func (p *planner) succeeds(in *Instance) bool {
	_, ok := p.due[in.ID]
	return ok
}

// findSuccessions notes who has to make room. On-demand instances have no
// successors. A successor that has to make room itself stays as long as the one
// that it stands for needs: it is the link to the next one.
func (p *planner) findSuccessions() {
	for _, in := range p.all {
		if in.OnDemand {
			continue
		}
		if s, ok := p.successionOf(in); ok {
			p.due[in.ID] = s
		}
	}
	for _, in := range p.all {
		for _, h := range p.heirsOf(in) {
			if s, ok := p.due[h.ID]; ok {
				s.until = max(s.until, p.due[in.ID].until)
				p.due[h.ID] = s
			}
		}
	}
}

// heirsOf are the instances that stay and take the place of in, if it has to make
// room.
func (p *planner) heirsOf(in *Instance) []*Instance {
	if !p.succeeds(in) {
		return nil
	}
	return slices.DeleteFunc(p.heirs(in), func(h *Instance) bool { return p.condemned[h.ID] })
}
