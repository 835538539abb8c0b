package pavesim

import (
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"nstance.dev/e2e/sim/objects"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// concerns has the controllers look at what a change concerns: not more than the watches of the real
// ones do. For what they miss there is their own look every minute.
func (p *process) concerns(c objects.Change) {
	switch o := c.Object().(type) {
	case *hostsv1.HostMachine:
		p.add(ofHost, o.Name, 0)
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
