package rollout

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// Action is what is done with a machine. Each but Delete is one write of its status.rollout: to what
// Step.Rollout says.
type Action string

// The actions, and the transitions of the stages that they are:
//
//	(none), Skipped → Draining      Begin
//	Draining        → Repaving      Replace: the Node is deleted once that is written
//	Draining        → Skipped       Skip: its Pods did not leave in time
//	Draining        → (none)        Abandon: it is no longer to be brought to the version; from
//	                                Repaving too, as long as the Node is there
//	Repaving        → Repaving      Delete: the Node is there still
//	Repaving        → (none)        Finish, or Fail
//	Skipped         → (none)        Clear: nothing is to be begun again
const (
	Begin   Action = "begin"
	Replace Action = "replace"
	Delete  Action = "delete node"
	Skip    Action = "skip"
	Abandon Action = "abandon"
	Finish  Action = "finish"
	Fail    Action = "fail"
	Clear   Action = "clear"
)

// SkippedFor is how long a machine is left alone whose Pods did not leave in time.
const SkippedFor = 10 * time.Minute

// Step is something that is done with one machine.
type Step struct {
	Machine string
	Action  Action
	// Reason says why, for people.
	Reason string
	// Rollout is what its status says then; nil: nothing.
	Rollout *hostsv1.MachineRollout
}

// next returns what follows for a machine of which something was begun: a step, or after which time it is to
// be looked at again; zero: when something changes.
func (m *Machine) next(s Strategy, halted string, now time.Time) (step Step, after time.Duration, acts bool) {
	switch m.Rollout.Stage {
	case hostsv1.RolloutDraining:
		return m.draining(s, halted, now)
	case hostsv1.RolloutRepaving:
		return m.repaving(s, now)
	default:
		return m.skipped()
	}
}

func (m *Machine) step(a Action, to *hostsv1.MachineRollout, format string, args ...any) (Step, time.Duration, bool) {
	return Step{Machine: m.Name, Action: a, Reason: fmt.Sprintf(format, args...), Rollout: to}, 0, true
}

// moved is what was begun, at another stage.
func (m *Machine) moved(stage hostsv1.RolloutStage) *hostsv1.MachineRollout {
	next := m.Rollout.DeepCopy()
	next.Stage, next.Until = stage, nil
	return next
}

// draining is for a machine whose Node is drained. Nothing is lost yet, so it is left as it was if it is no
// longer to be brought to the version.
func (m *Machine) draining(s Strategy, halted string, now time.Time) (Step, time.Duration, bool) {
	until := end(m.Rollout)
	switch {
	case m.Leaves != "":
		return m.step(Abandon, nil, "%s", m.Leaves)
	case !m.Follows:
		return m.step(Abandon, nil, "the machine no longer follows the configuration")
	case m.Node != m.Rollout.NodeUID:
		return m.step(Replace, m.moved(hostsv1.RolloutRepaving), "its Node is gone")
	case !s.Rolling:
		return m.step(Abandon, nil, "the update strategy is OnDelete")
	case halted != "":
		return m.step(Abandon, nil, "the rollout has halted: %s", halted)
	case m.Drained:
		return m.step(Replace, m.moved(hostsv1.RolloutRepaving), "its Node is drained")
	case !now.Before(until):
		next := m.moved(hostsv1.RolloutSkipped)
		next.Until = at(now.Add(SkippedFor))
		return m.step(Skip, next, "its Pods did not leave within %s; it is tried again at %s", s.DrainTimeout, clock(next.Until.Time))
	}
	return Step{}, until.Sub(now), false
}

// repaving is for a machine whose Node is deleted, or about to be. Once it is there is no way back.
func (m *Machine) repaving(s Strategy, now time.Time) (Step, time.Duration, bool) {
	r := m.Rollout
	switch there := m.Node != "" && m.Node == r.NodeUID; {
	case there && m.Leaves != "":
		return m.step(Abandon, nil, "%s", m.Leaves)
	case there:
		return m.step(Delete, r, "its Node is drained")
	}
	if m.Failed.Version != 0 && same(m.Failed, r.VersionReference) && (r.StartedAt == nil || !m.FailedAt.Before(r.StartedAt.Time)) {
		return m.step(Fail, nil, "its repave to version %d was given up", r.Version)
	}
	if m.Node == "" || m.Node == r.NodeUID || m.ReadySince.IsZero() {
		return Step{}, 0, false
	}
	if ready := now.Sub(m.ReadySince); ready < s.MinReady {
		return Step{}, s.MinReady - ready, false
	}
	return m.step(Finish, nil, "it runs version %d, and has been ready for %s", m.Applied.Version, s.MinReady)
}

// skipped is for a machine that is left alone for a while. It keeps what was begun until it is begun again.
func (m *Machine) skipped() (Step, time.Duration, bool) {
	switch {
	case !m.Follows:
		return m.step(Clear, nil, "the machine no longer follows the configuration")
	case m.runs(m.Rollout.VersionReference) || m.Node != m.Rollout.NodeUID:
		return m.step(Clear, nil, "its Node was replaced meanwhile")
	}
	return Step{}, 0, false
}

// begin is the step that begins a machine.
func (m *Machine) begin(target hostsv1.VersionReference, drainTimeout time.Duration, why string, now time.Time) Step {
	return Step{Machine: m.Name, Action: Begin, Reason: why, Rollout: &hostsv1.MachineRollout{
		VersionReference: target, Stage: hostsv1.RolloutDraining, NodeUID: m.Node, StartedAt: at(now), Until: at(now.Add(drainTimeout)),
	}}
}

// end is the end of what was begun; the zero time where it does not say.
func end(r *hostsv1.MachineRollout) time.Time {
	if r.Until == nil {
		return time.Time{}
	}
	return r.Until.Time
}

// at is a time as objects have it.
func at(t time.Time) *metav1.Time {
	is := metav1.NewTime(t.UTC().Truncate(time.Second))
	return &is
}

// clock writes a time for people.
func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }
