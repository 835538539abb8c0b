package pavesim

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"nstance.dev/e2e/sim/objects"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/lifecycle"
)

// rollingOut checks what a process writes of what a rollout has begun with a machine (M65 to M69, M94, M96).
func (o *oracle) rollingOut(by string, before, after *hostsv1.HostMachine) {
	was, is := before.Status.Rollout, after.Status.Rollout
	p := o.w.processes[by]
	if p == nil {
		return
	}
	if begun(was) && begun(is) && was.StartedAt.Equal(is.StartedAt) && was.VersionReference != is.VersionReference {
		o.w.violate("M68", "%s was begun with version %d, and is to be brought to %d", after.Name, was.Version, is.Version)
	}
	if begun(was) && epochOf(after) > epochOf(before) && before.Spec.ConfigurationRef == nil && follows(after) {
		o.builds(after, was)
	}
	if o.rolled[p] == nil {
		o.rolled[p] = map[string]bool{}
	}
	if begun(is) && !begun(was) {
		o.begins(p, after)
	}
	if begun(is) != begun(was) {
		o.w.notef("%s: rollout of %s: %v", by, after.Name, is)
		o.rolled[p][after.Name] = begun(is)
	}
}

// builds checks that a machine is built from the version that it was begun with (M68), if that still exists.
func (o *oracle) builds(m *hostsv1.HostMachine, r *hostsv1.MachineRollout) {
	switch m.Status.Repave.Reason {
	case lifecycle.ReasonNodeDeleted, lifecycle.ReasonNodeReplaced:
	default:
		return
	}
	assigned := m.Status.Configuration.Assigned.VersionReference
	if r.Stage == hostsv1.RolloutRepaving && assigned != r.VersionReference {
		o.w.violate("M68", "%s was begun with version %d, and is built from %d", m.Name, r.Version, assigned.Version)
	}
}

func begun(r *hostsv1.MachineRollout) bool { return r != nil && r.Stage.Begun() }

// follows is whether a machine is to be brought to the newest version of the one configuration there is. One that has not
// chosen it yet is not.
func follows(m *hostsv1.HostMachine) bool {
	ref, c := m.Spec.ConfigurationRef, m.Status.Configuration
	return m.DeletionTimestamp.IsZero() && (ref == nil || ref.Version == nil) && c != nil && c.Desired != nil
}

// begins checks whether a machine may be begun, by what the process that does it can know.
func (o *oracle) begins(p *process, m *hostsv1.HostMachine) {
	for _, c := range objects.Known[*hostsv1.MachineConfiguration](p.cache) {
		if c.Name != string(m.Status.Rollout.Name) {
			continue
		}
		s := c.Spec.UpdateStrategy
		switch {
		case s == nil || s.Type != hostsv1.UpdateRolling:
			o.w.violate("M65", "%s is begun, and the strategy is OnDelete", m.Name)
		case c.Spec.Paused || s.RollingUpdate != nil && s.RollingUpdate.Paused:
			o.w.violate("M94", "%s is begun, and the configuration or its rollout is paused", m.Name)
		case !o.w.within():
			o.w.violate("M96", "%s is begun outside of the window", m.Name)
		}
		o.halts(p, c, m)
	}
	budget, _ := o.w.rolls()
	down, active, itself := 0, 1, false
	for _, other := range objects.Known[*hostsv1.HostMachine](p.cache) {
		unavailable := o.unavailable(p, other)
		switch {
		case other.Name == m.Name:
			itself = unavailable
		case o.isBegun(p, other):
			active++
			down++
		case unavailable && follows(other):
			down++
		}
	}
	switch {
	case active > budget:
		o.w.violate("M66", "%s is begun as one of %d, and %d may be", m.Name, active, budget)
	case !itself && down+1 > budget:
		o.w.violate("M67", "%s is begun, which makes %d machines that cannot be used, and %d may be", m.Name, down+1, budget)
	}
}

// isBegun is whether a process knows that a machine was begun, and not that it is done.
func (o *oracle) isBegun(p *process, m *hostsv1.HostMachine) bool {
	stored, there := objects.Find[*hostsv1.HostMachine](o.w.api.Store, m.Name)
	own, wrote := o.rolled[p][m.Name]
	return there && begun(stored.Status.Rollout) && (begun(m.Status.Rollout) || wrote && own)
}

// unavailable is whether a process knows that a machine has no Node that works, which is so.
func (o *oracle) unavailable(p *process, m *hostsv1.HostMachine) bool {
	stored, there := objects.Find[*hostsv1.HostMachine](o.w.api.Store, m.Name)
	return there && without(m, objects.Known[*corev1.Node](p.cache)) && without(stored, objects.All[*corev1.Node](o.w.api.Store))
}

// without is whether there is no Node among all that a machine works with.
func without(m *hostsv1.HostMachine, all []*corev1.Node) bool {
	for _, n := range all {
		if n.Name == m.NodeName() {
			return uidOf(m) != string(n.UID) || ready(n) != corev1.ConditionTrue
		}
	}
	return true
}

// halts checks that nothing is begun once a repave into the version was given up, unless a user wants that (M68).
func (o *oracle) halts(p *process, c *hostsv1.MachineConfiguration, m *hostsv1.HostMachine) {
	for _, other := range objects.Known[*hostsv1.HostMachine](p.cache) {
		failed := meta.FindStatusCondition(other.Status.Conditions, hostsv1.ConditionRepaveFailed)
		s := other.Status.Configuration
		if failed == nil || failed.Status != "True" || s == nil || s.Assigned == nil || !follows(other) || failed.LastTransitionTime.Before(&o.resumed) {
			continue
		}
		if s.Assigned.VersionReference == m.Status.Rollout.VersionReference {
			o.w.violate("M68", "%s is begun with version %d of %s, and the repave of %s into it was given up", m.Name, m.Status.Rollout.Version, c.Name, other.Name)
		}
	}
}

// rolledOut is whether the Node of a machine may be deleted by a rollout: it is drained (M69).
func (o *oracle) rolledOut(m *hostsv1.HostMachine, n *corev1.Node) bool {
	r := m.Status.Rollout
	return begun(r) && r.Stage == hostsv1.RolloutRepaving && r.NodeUID == string(n.UID) && o.empty[types.UID(r.NodeUID)]
}
