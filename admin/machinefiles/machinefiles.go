// Package machinefiles says which files a host would write for a node machine, without a host: it makes the
// assignment that the operator would publish for a version, and renders it with the package that hosts render with.
//
// It reads and writes nothing, and locks nothing. What only the host knows, and what only the servers know, is an
// argument: without it a placeholder stands for it, and a bind that depends on it is written as if its source existed.
// Secrets are placeholders that name where they come from.
package machinefiles

import (
	"fmt"
	"strings"

	"nstance.dev/agent/paver/render"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/assignment"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Surroundings are what a machine's files follow from beside the version.
type Surroundings struct {
	// APIServer that the kubelet joins.
	APIServer assignment.APIServer
	// Node is what the group of the instance sets of its Nodes; nil: the labels that the HostMachine has of it.
	Node *nstancev1.NodeSettings
	// Host is what is known of the host.
	Host render.Host
}

// Assignment returns what the operator would tell the host of a machine for a version of a configuration. It has the
// epoch of the assignment if that is of the version, and else the one of the next.
func Assignment(m *hostsv1.HostMachine, v *hostsv1.MachineConfigurationVersion, s Surroundings) (*nstancev1.MachineAssignment, error) {
	m = m.DeepCopy()
	mode := hostsv1.ModePave
	reference := hostsv1.VersionReference{
		Name: v.Spec.ConfigurationName, Version: v.Spec.Version, UID: ownerUID(v), Hash: v.Status.Hash,
	}
	if m.Status.Configuration == nil {
		m.Status.Configuration = &hostsv1.ConfigurationStatus{}
	}
	epoch, a := int64(1), m.Status.Configuration.Assigned
	if a != nil {
		epoch, mode = a.Epoch, hostsv1.ModeRepave
		if a.Name != reference.Name || a.Version != reference.Version {
			epoch++
		}
	}
	m.Status.Configuration.Assigned = &hostsv1.AssignedVersion{VersionReference: reference, Epoch: epoch}
	content := assignment.Content{Template: v.Spec.Template}
	if v.Status.Resolved != nil {
		content.ImageDigest = v.Status.Resolved.ImageDigest
	}
	if s.Node == nil {
		s.Node = settings(m)
	}
	out, err := assignment.Make(m, mode, content, s.Node, s.APIServer)
	if err != nil {
		return nil, fmt.Errorf("assignment of version %d of %s to HostMachine %s: %w", v.Spec.Version, v.Spec.ConfigurationName, m.Name, err)
	}
	return out, nil
}

// Plan returns what the host of a machine would write for a version of a configuration.
func Plan(m *hostsv1.HostMachine, v *hostsv1.MachineConfigurationVersion, s Surroundings) (render.Plan, error) {
	out, err := Assignment(m, v, s)
	if err != nil {
		return render.Plan{}, err
	}
	if s.Host.Machine == "" {
		s.Host.Machine = "node-" + slot(m, out.GetConfiguration())
	}
	plan, err := render.Render(out, s.Host, nil)
	if err != nil {
		return render.Plan{}, fmt.Errorf("files of version %d of %s for HostMachine %s: %w", v.Spec.Version, v.Spec.ConfigurationName, m.Name, err)
	}
	return plan, nil
}

// ownerUID is the UID of the configuration of a version.
func ownerUID(v *hostsv1.MachineConfigurationVersion) string {
	for _, owner := range v.OwnerReferences {
		if owner.Kind == hostsv1.KindMachineConfiguration {
			return string(owner.UID)
		}
	}
	return ""
}

// settings are what a HostMachine itself says of its group; nil: nothing.
func settings(m *hostsv1.HostMachine) *nstancev1.NodeSettings {
	var of *nstancev1.NodeSettings
	for name := range strings.SplitSeq(m.Annotations[hostsv1.AnnotationNodeLabels], ",") {
		value, has := m.Labels[name]
		if !has {
			continue
		}
		if of == nil {
			of = &nstancev1.NodeSettings{Labels: map[string]string{}}
		}
		of.Labels[name] = value
	}
	return of
}

// slot is the place that a version is built in: the one that has it, or else the one that does not run.
func slot(m *hostsv1.HostMachine, v *nstancev1.MachineConfigurationVersion) string {
	name := "a"
	for _, s := range m.Status.Slots {
		switch {
		case s.Version == fmt.Sprintf("%s-v%d", v.GetName(), v.GetVersion()):
			return s.Name
		case s.State == hostsv1.SlotRunning && s.Name == "a":
			name = "b"
		}
	}
	return name
}
