package fleet

import (
	"slices"
	"time"

	"nstance.dev/protos/identity"
)

// replacement says why and how an instance is replaced, in two steps: another one is
// asked for by a [Create] that names it, and once that one is far enough the instance
// itself is condemned. Until then the two count as one.
//
// The causes are sickness, the provider's notice, a caller's wish, age and drift. They
// differ in nothing but what stands here; how many of one kind may be under way at once
// is the business of the pass that carries them out (repair for those that cannot wait).
type replacement struct {
	reason  Reason // of the removal
	why     string // for people
	until   stage  // how far the new instance has to be before the old one goes
	canWait bool   // it waits until the group is settled and rotation may go on

	// evenAlone: the machine is lost in any case, and goes even where no new instance can
	// be asked for.
	evenAlone bool
	// undecided: a former leader began it, and it may be pointless by now. Nothing follows
	// from it, and neither of the two instances is too many.
	undecided bool
}

// stage is how far a new instance has come. The zero stage: there is none.
type stage uint8

const (
	asked    stage = iota + 1 // its record stands
	made                      // the provider has its VM
	joined                    // its agent has registered
	reported                  // its agent has reported since
)

// stageOf is how far a live instance has come; zero for others.
func stageOf(in *Instance) stage {
	switch {
	case in.State == Pending:
		return asked
	case in.State == Provisioning:
		return made
	case in.State.Registered() && in.Reported:
		return reported
	case in.State.Registered():
		return joined
	default:
		return 0
	}
}

// replacementFor says whether in has to make room, for the most urgent of its
// causes. Those that can wait come last.
func (p *planner) replacementFor(in *Instance) (replacement, bool) {
	switch {
	case in.State.Sick():
		r := replacement{reason: in.verdict(), why: "replaces an unhealthy instance", until: made}
		if in.Power != Up {
			r.until, r.evenAlone = asked, true // nothing is left that the wait could spare
		}
		return r, true
	case !in.State.Live():
		return replacement{}, false
	case in.Notice.Given():
		return replacement{reason: ReasonSpotTermination, why: "replaces one that the provider takes back", until: asked, evenAlone: true}, true
	case in.ReplaceFirst:
		return replacement{reason: ReasonRequested, why: "replaces one that a caller named", until: reported}, true
	}
	if r, ok := p.outdated(in); ok {
		return r, true
	}
	return replacement{undecided: true}, !in.Reported && in.Replacement != ""
}

// outdated says whether in has to make room for its age, or for what it was made
// from. Neither is forgotten by a change of leader.
func (p *planner) outdated(in *Instance) (replacement, bool) {
	aging := p.v.Aging
	switch {
	case p.reached(in, aging.Forced):
		return replacement{reason: ReasonForcedExpiry, why: "replaces one that is older than forced_age", until: reported}, true
	case p.reached(in, aging.Eligible):
		return replacement{reason: ReasonExpired, why: "replaces one that is older than eligible_age", until: reported, canWait: true}, true
	case p.drifted(in):
		return replacement{reason: ReasonConfigDrift, why: "replaces one that was made from an older configuration", until: reported, canWait: true}, true
	default:
		return replacement{}, false
	}
}

// drifted reports whether in was made from something else than what the group is
// made from now.
func (p *planner) drifted(in *Instance) bool {
	hash := p.v.Group.InfraHash
	return hash != "" && in.InfraHash != "" && in.InfraHash != hash
}

// step is what a replacement needs next.
type step uint8

const (
	stepWait    step = iota // until the new instance is further, or may be created
	stepCreate              // the new instance
	stepCondemn             // the removal of the old one
)

// next says what the replacement of in needs now, and why. Where that is to wait, a
// note says so, under the name of what is blocked.
func (p *planner) next(in *Instance, r replacement, what string) (step, string) {
	replacements := p.replacementsOf(in)
	far := stage(0)
	for _, other := range replacements {
		far = max(far, stageOf(other))
	}
	switch {
	case r.undecided:
		p.note(in.ID, what, BlockerUnproven, "its agent has not reported since the change of leader", time.Time{})
	case far >= r.until:
		return stepCondemn, "its replacement is there"
	case far > 0:
		p.note(in.ID, what, BlockerReplacement, "its replacement "+r.until.missing(), time.Time{})
	case len(replacements) > 0:
		p.note(in.ID, what, BlockerReplacement, "its replacement is unhealthy as well and comes first", time.Time{})
	case p.v.CreatesBlocked.Why != "" && r.evenAlone:
		return stepCondemn, "its VM is lost, and nothing can be created now"
	case p.v.CreatesBlocked.Why != "":
		p.noteCreatesBlocked(in.ID, what)
	default:
		return stepCreate, r.why
	}
	return stepWait, ""
}

// missing says what a new instance lacks that has not come as far as s.
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

// hasToBeReplaced reports whether in has to make room for another one: if it has one,
// the two count as one.
func (p *planner) hasToBeReplaced(in *Instance) bool {
	_, ok := p.due[in.ID]
	return ok
}

// findReplacements notes who has to make room. On-demand instances have no
// replacement. A new instance that has to make room itself stays as long as the one
// that it replaces needs: it is the link to the next one.
func (p *planner) findReplacements() {
	for _, in := range p.all {
		if in.OnDemand {
			continue
		}
		if r, ok := p.replacementFor(in); ok {
			p.due[in.ID] = r
		}
	}
	for _, in := range p.all {
		for _, other := range p.replacementsOf(in) {
			if r, ok := p.due[other.ID]; ok {
				r.until = max(r.until, p.due[in.ID].until)
				p.due[other.ID] = r
			}
		}
	}
}

// replacementChain are the instances that took the place of in and are not leaving, in the
// order in which they did: its replacement, the replacement of that one, and so
// on, up to the first that works and does not have to make room itself. Links that
// lead in a circle mean nothing.
func (p *planner) replacementChain(in *Instance) []*Instance {
	var found []*Instance
	seen := []identity.ID{in.ID}
	for in.Replacement != "" {
		next, ok := p.byID[in.Replacement]
		if !ok || next.OnDemand {
			break
		}
		if slices.Contains(seen, next.ID) {
			return nil
		}
		seen = append(seen, next.ID)
		if next.State.Live() || next.State.Sick() {
			found = append(found, next)
		}
		if next.State.Live() && !p.hasToBeReplaced(next) {
			break // what was made for it is not needed
		}
		in = next
	}
	return found
}

// replacementsOf are the instances that stay and take the place of in, if it has to make
// room.
func (p *planner) replacementsOf(in *Instance) []*Instance {
	if !p.hasToBeReplaced(in) {
		return nil
	}
	return slices.DeleteFunc(p.replacementChain(in), func(other *Instance) bool { return p.condemned[other.ID] })
}
