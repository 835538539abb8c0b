package pavesim

import (
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"nstance.dev/e2e/sim/objects"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// concerns has the controllers look at what a change concerns: not more than the watches of the real
// ones do. For what they miss there is their own look every minute.
func (p *process) concerns(c objects.Change) {
	p.concernsRollouts(c)
	switch o := c.Object().(type) {
	case *hostsv1.MachineOperation:
		p.concernsOperations(o)
	case *hostsv1.HostMachine:
		p.add(ofHost, o.Name, 0)
		if changed(c, func(m *hostsv1.HostMachine) any {
			return []any{m.Generation, m.Status.Executors, m.Status.Hold, m.Status.Repave, m.DeletionTimestamp}
		}) {
			p.unfinished(o.Name)
		}
		if c.Before == nil || changed(c, func(m *hostsv1.HostMachine) any {
			return []any{m.Generation, m.Labels, m.Annotations, m.Status.Configuration, m.DeletionTimestamp}
		}) {
			p.add(ofSelection, o.Name, 0)
		}
		for _, v := range references(o) {
			p.add(ofVersions, string(v.Name), 0)
		}
	case *hostsv1.MachineConfiguration:
		p.add(ofVersions, o.Name, 0)
		p.all(ofSelection)
	case *hostsv1.MachineConfigurationVersion:
		p.add(ofVersions, string(o.Spec.ConfigurationName), 0)
		p.all(ofSelection)
	case *corev1.Node:
		if changed(c, func(n *corev1.Node) any {
			return []any{n.UID, n.Status.NodeInfo.BootID, ready(n), n.Annotations, n.Labels}
		}) {
			for _, m := range objects.Known[*hostsv1.HostMachine](p.cache) {
				if m.NodeName() == o.Name {
					p.add(ofHost, m.Name, 0)
				}
			}
		}
	case *certificatesv1.CertificateSigningRequest:
		p.add(ofCSR, o.Name, 0)
	}
}

// concernsRollouts has rollouts looked at, where there are any, and the drains of what they have begun.
func (p *process) concernsRollouts(c objects.Change) {
	if _, rolls := p.w.rolls(); !rolls {
		return
	}
	concerned := false
	switch o := c.Object().(type) {
	case *hostsv1.HostMachine:
		concerned = changed(c, func(m *hostsv1.HostMachine) any {
			stage := ""
			if m.Status.Repave != nil {
				stage = m.Status.Repave.Stage
			}
			return []any{m.Generation, m.DeletionTimestamp, m.Status.Configuration, m.Status.Rollout, m.Status.NodeRef, m.Status.Hold, stage, conditionsOf(m)}
		})
	case *corev1.Node:
		p.add(ofDrains, o.Name, 0)
		concerned = changed(c, func(n *corev1.Node) any { return []any{n.UID, ready(n), n.Annotations} })
	case *hostsv1.MachineConfiguration, *hostsv1.MachineConfigurationVersion:
		concerned = true
	}
	if !concerned {
		return
	}
	for _, of := range objects.Known[*hostsv1.MachineConfiguration](p.cache) {
		p.add(ofRollout, of.Name, 0)
	}
}

// conditionsOf are those of a machine that rollouts look at, with their states.
func conditionsOf(m *hostsv1.HostMachine) (all []string) {
	for _, of := range []string{hostsv1.ConditionReady, hostsv1.ConditionRepaveFailed, hostsv1.ConditionAgentConnected, hostsv1.ConditionPreflightPassed} {
		if c := meta.FindStatusCondition(m.Status.Conditions, of); c != nil {
			all = append(all, of+string(c.Status)+c.LastTransitionTime.String())
		}
	}
	return all
}

// changed is whether a part of an object is another one than before.
func changed[T client.Object](c objects.Change, part func(T) any) bool {
	before, was := c.Before.(T)
	after, is := c.After.(T)
	return !was || !is || !equality.Semantic.DeepEqual(part(before), part(after))
}

func ready(n *corev1.Node) corev1.ConditionStatus {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status
		}
	}
	return corev1.ConditionUnknown
}

// references are the versions that a machine refers to by its status.
func references(m *hostsv1.HostMachine) (all []hostsv1.VersionReference) {
	c := m.Status.Configuration
	if c == nil {
		return nil
	}
	if c.Assigned != nil {
		all = append(all, c.Assigned.VersionReference)
	}
	if c.Applied != nil {
		all = append(all, c.Applied.VersionReference)
	}
	return all
}
