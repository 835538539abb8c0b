package rollout

import (
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// Input is all that a decision follows from.
type Input struct {
	Strategy Strategy
	Target   Target
	// Progress is what the status of the configuration says of the rollout.
	Progress Progress
	// Machines are those that follow the configuration, and those that a rollout of it has begun, in
	// any order.
	Machines []Machine
}

// Strategy is what the configuration's spec says.
type Strategy struct {
	// Rolling: machines are brought to the newest version; otherwise none is begun, and what was begun
	// and not deleted is left as it was.
	Rolling bool
	// ConfigurationPaused and Paused: nothing is begun, because the configuration is paused, or the rollout.
	ConfigurationPaused, Paused bool
	MaxUnavailable              intstr.IntOrString
	DrainTimeout                time.Duration
	MinReady                    time.Duration
	MaxFailures                 int
	// Windows in which machines are begun; none: always.
	Windows []hostsv1.Window
	// Resume: a user wants a rollout that has halted to go on.
	Resume bool
}

// Target is the newest version.
type Target struct {
	// Version; its zero value: there is none.
	Version hostsv1.VersionReference
	// Synced: it holds the template that the configuration has.
	Synced bool
	// Bad is since when it is known that machines built from it do not become ready; zero: it is not.
	Bad time.Time
}

// Progress is what is remembered of a rollout between decisions.
type Progress struct {
	// Target is the number of the version that the rest is about; 0: there was no rollout.
	Target int32
	// StartedAt is when it began, ResumedAt when it was last resumed; zero: it was not.
	StartedAt, ResumedAt time.Time
	// Halted is the reason for which it has halted, HaltedWhy what is said of that; empty: it has not.
	Halted, HaltedWhy string
	// Complete: its end was told.
	Complete bool
}

// Machine is a machine as far as a rollout is concerned.
type Machine struct {
	Name string
	// Rollout is what was begun with it; nil: nothing was.
	Rollout *hostsv1.MachineRollout
	// Follows: it would be built from the newest version of the configuration, whichever that is. One
	// that names a version does not, nor one that is being deleted.
	Follows bool
	// Applied is what its Node was built from, AppliedAt since when; zero: no Node has joined.
	Applied   hostsv1.VersionReference
	AppliedAt time.Time
	// Node is the UID of its Node; empty: it has none.
	Node string
	// Down says why it is unavailable; empty: it is not.
	Down string
	// Drained: nothing is left on the Node, by the drain that the rollout asked for.
	Drained bool
	// Rebuilding: it is being built again, or will be, as its Node is gone.
	Rebuilding bool
	// ReadySince is since when it is ready with what was assigned; zero: it is not.
	ReadySince time.Time
	// Failed is the version whose repave was given up last, FailedAt when that was; zero: none was, or
	// another was assigned since.
	Failed   hostsv1.VersionReference
	FailedAt time.Time
	// Leaves says why its instance goes or the machine is not to be touched, so that what was begun is left as it was; empty: it
	// is to stay.
	Leaves string
	// Waits says why it may not be begun now, though it may be finished; empty: it may.
	Waits string
}

// begun is whether the rollout has begun the machine and not finished it.
func (m *Machine) begun() bool { return m.Rollout != nil && m.Rollout.Stage.Begun() }

// runs is whether its Node was built from a version.
func (m *Machine) runs(v hostsv1.VersionReference) bool {
	return same(m.Applied, v)
}

// same is whether two references mean the same version.
func same(a, b hostsv1.VersionReference) bool {
	return a.Name == b.Name && a.Version == b.Version && a.UID == b.UID
}

// outdated is whether the machine is to be brought to a version. One that no Node has joined from is not:
// it is paved with what is newest then.
func (m *Machine) outdated(target hostsv1.VersionReference) bool {
	return m.Follows && m.Applied.Version != 0 && target.Version != 0 && !m.runs(target)
}

// failed is whether the repave of the machine to a version was given up, after a time.
func (m *Machine) failed(target hostsv1.VersionReference, after time.Time) bool {
	return m.Failed.Version != 0 && same(m.Failed, target) && m.FailedAt.After(after)
}

// Budget is how many of so many machines may be unavailable at once: at least one.
func Budget(maxUnavailable intstr.IntOrString, machines int) int {
	n, err := intstr.GetScaledValueFromIntOrPercent(&maxUnavailable, machines, false)
	if err != nil {
		return 1
	}
	return max(1, n)
}
