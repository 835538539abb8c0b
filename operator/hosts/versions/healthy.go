package versions

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

const (
	// ProvenAfter is how long a machine must have been ready with a version that is healthy.
	ProvenAfter = 5 * time.Minute
	// failuresAreBad is how many machines must have failed for a version that is not.
	failuresAreBad = 2
)

// Health is what machines have shown of a version.
type Health struct {
	// Proven: a machine has been ready with it for ProvenAfter. Bad: machines have failed to be
	// built from it, and none is ready with it. Neither: nothing is known, or nothing new.
	Proven, Bad bool
	// Failed is how many machines have failed and wait.
	Failed int
	// After is when it will be proven, if a machine that is ready now stays so; 0: none is.
	After time.Duration
}

// HealthOf returns what machines show of a version of a configuration now.
func HealthOf(configuration hostsv1.ConfigurationName, number int32, machines []hostsv1.HostMachine, now time.Time) Health {
	var h Health
	readyFor := time.Duration(-1)
	for i := range machines {
		m := &machines[i]
		c := m.Status.Configuration
		if c == nil {
			continue
		}
		if c.Assigned != nil && c.Assigned.Name == configuration && c.Assigned.Version == number && meta.IsStatusConditionTrue(m.Status.Conditions, hostsv1.ConditionRepaveFailed) {
			h.Failed++
		}
		ready := meta.FindStatusCondition(m.Status.Conditions, hostsv1.ConditionReady)
		if c.Applied != nil && c.Applied.Name == configuration && c.Applied.Version == number && ready != nil && ready.Status == metav1.ConditionTrue {
			readyFor = max(readyFor, now.Sub(since(c.Applied.At, ready.LastTransitionTime)))
		}
	}
	switch {
	case readyFor >= ProvenAfter:
		h.Proven = true
	case readyFor >= 0:
		h.After = ProvenAfter - readyFor
	case h.Failed >= failuresAreBad:
		h.Bad = true
	}
	return h
}

// since is when a machine became ready with what it runs: one that was ready before was so with another
// version.
func since(applied *metav1.Time, ready metav1.Time) time.Time {
	if applied != nil && applied.After(ready.Time) {
		return applied.Time
	}
	return ready.Time
}
