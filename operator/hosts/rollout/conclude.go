package rollout

import (
	"fmt"
	"slices"
	"time"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// mostUpdating is how many names the status has.
const mostUpdating = 1000

// conclude says how the rollout stands.
func (d *decision) conclude() {
	p := d.in.Progress
	outdated, updated := 0, 0
	for i := range d.in.Machines {
		switch m := &d.in.Machines[i]; {
		case m.outdated(d.in.Target.Version):
			outdated++
		case m.Follows && m.runs(d.in.Target.Version):
			updated++
		}
	}
	under := outdated > 0 || d.active > 0
	if p.StartedAt.IsZero() && under && d.in.Strategy.Rolling && !d.in.Strategy.ConfigurationPaused && d.in.Target.Synced {
		p.StartedAt = d.now
		if d.News == "" {
			d.News = Started
		}
	}
	d.state(p, updated)
	d.say(outdated, updated)
	if d.News == "" && !under && !p.StartedAt.IsZero() && !p.Complete && d.in.Strategy.Rolling {
		d.News = Complete
	}
	if !d.Open && outdated > 0 && !d.Opens.IsZero() {
		d.wait(d.Opens.Sub(d.now))
	}
}

// state is what the status says of the rollout.
func (d *decision) state(p Progress, updated int) {
	if p.StartedAt.IsZero() && d.active == 0 {
		d.Rollout = nil // nobody has anything to be told of
		return
	}
	r := d.Rollout
	r.Updated = int32(updated) //nolint:gosec // machines of one cluster
	if !p.StartedAt.IsZero() {
		r.StartedAt = at(p.StartedAt)
	}
	if !p.ResumedAt.IsZero() {
		r.ResumedAt = at(p.ResumedAt)
	}
	slices.Sort(r.Updating)
	r.Updating = r.Updating[:min(mostUpdating, len(r.Updating))]
}

// say says whether machines are brought to the newest version, and whether that has halted.
func (d *decision) say(outdated, updated int) {
	s := d.in.Strategy
	how := fmt.Sprintf("%d of %d machines run version %d", updated, d.Following, d.in.Target.Version.Version)
	if d.Rollout != nil && len(d.Rollout.Updating) > 0 {
		how += fmt.Sprintf("; begun: %s", first(d.Rollout.Updating))
	}
	no := func(reason, why string) { d.Rolling = Verdict{Reason: reason, Message: why + "; " + how} }
	switch {
	case !s.Rolling:
		no(hostsv1.ReasonOnDelete, "machines are repaved when their Nodes are deleted")
	case d.halted != "":
		no(hostsv1.ReasonHalted, d.halted)
	case outdated == 0 && d.active == 0:
		d.Rolling = Verdict{Reason: hostsv1.ReasonUpToDate, Message: how}
	case s.ConfigurationPaused:
		no(hostsv1.ReasonConfigurationPaused, "the configuration is paused")
	case !d.in.Target.Synced:
		no(hostsv1.ReasonWriting, "the newest version does not hold the template yet")
	case s.Paused:
		no(hostsv1.ReasonPaused, "the rollout is paused: spec.updateStrategy.rollingUpdate.paused is true")
	case d.faulty != "":
		no(hostsv1.ReasonInvalidWindow, d.faulty)
	case !d.Open && outdated > 0:
		no(hostsv1.ReasonOutsideWindow, d.closed())
	case d.active > 0:
		d.Rolling = Verdict{True: true, Reason: hostsv1.ReasonRollingOut, Message: how}
	default:
		no(hostsv1.ReasonBlocked, fmt.Sprintf("none of %d outdated machines can be begun; %s", outdated, d.stuck))
	}
	switch {
	case !s.Rolling:
	case d.halted != "":
		d.Halted = Verdict{True: true, Reason: d.reason, Message: d.halted + fmt.Sprintf(
			"; change the template, go back by spec.configurationRef.version, or set annotation %s to go on", hostsv1.AnnotationResume)}
	case d.Rollout != nil:
		d.Halted = Verdict{Reason: hostsv1.ReasonNotHalted, Message: fmt.Sprintf("%d of %d failures that halt it", d.Rollout.Failures, s.MaxFailures)}
	}
}

// Resync is how long a rollout that is under way is left alone at most.
const Resync = time.Minute
