// Package hostview says how host machines, their configurations and versions look: the columns of
// tables, what there is to know of one object, and how two templates differ.
//
// It reads objects that others have fetched, asks nothing, and draws no conclusion that the
// operator does not: who gets which machine is what package selection says.
package hostview

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nstance.dev/admin/output"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

type (
	machine       = *hostsv1.HostMachine
	configuration = *hostsv1.MachineConfiguration
	version       = *hostsv1.MachineConfigurationVersion
)

// Machines are the columns of HostMachines.
func Machines(now func() time.Time) output.View[*hostsv1.HostMachine] {
	type column = output.Column[machine]
	return output.View[machine]{
		Name: machine.GetName,
		Columns: []column{
			{Header: "MACHINE", Value: machine.GetName},
			{Header: "PHASE", Value: func(m machine) string { return string(m.Status.Phase) }},
			{Header: "RUNS", Value: runs},
			{Header: "DESIRED", Value: desired},
			{Header: "WAITS", Value: func(m machine) string {
				reason, _ := Waits(m)
				return reason
			}},
			{Header: "AGE", Value: func(m machine) string { return output.Age(m.CreationTimestamp.Time, now()) }},
			{Header: "NODE", Wide: true, Value: func(m machine) string { return m.NodeName() }},
			{Header: "PROVISIONER", Wide: true, Value: func(m machine) string { return m.Spec.Provisioner }},
			{Header: "GROUP", Wide: true, Value: func(m machine) string { return string(instance(m).Group) }},
			{Header: "SHARD", Wide: true, Value: func(m machine) string { return string(instance(m).Shard) }},
			{Header: "PAUSED", Wide: true, Value: func(m machine) string { return strconv.FormatBool(m.Spec.Paused) }},
			{Header: "WHY", Wide: true, Value: func(m machine) string {
				_, message := Waits(m)
				return message
			}},
		},
	}
}

// Configurations are the columns of MachineConfigurations.
func Configurations(now func() time.Time) output.View[*hostsv1.MachineConfiguration] {
	type column = output.Column[configuration]
	counts := func(c configuration) hostsv1.ConfigurationMachines {
		if c.Status.Machines == nil {
			return hostsv1.ConfigurationMachines{}
		}
		return *c.Status.Machines
	}
	return output.View[configuration]{
		Name: configuration.GetName,
		Columns: []column{
			{Header: "CONFIGURATION", Value: configuration.GetName},
			{Header: "LATEST", Value: func(c configuration) string { return number(c.Status.LatestVersion) }},
			{Header: "EDITABLE", Value: func(c configuration) string { return number(c.Status.EditableVersion) }},
			{Header: "LOCKED", Value: func(c configuration) string { return number(c.Status.LatestDeployedVersion) }},
			{Header: "MACHINES", Value: func(c configuration) string { return count(counts(c).Selected) }},
			{Header: "OUTDATED", Value: func(c configuration) string { return count(counts(c).Outdated) }},
			{Header: "PRIORITY", Value: func(c configuration) string { return count(c.Spec.Priority) }},
			{Header: "AGE", Value: func(c configuration) string { return output.Age(c.CreationTimestamp.Time, now()) }},
			{Header: "PAUSED", Wide: true, Value: func(c configuration) string { return strconv.FormatBool(c.Spec.Paused) }},
			{Header: "KUBERNETES", Wide: true, Value: func(c configuration) string { return c.Spec.Template.Kubernetes.Version }},
			{Header: "IMAGE", Wide: true, Value: func(c configuration) string { return image(&c.Spec.Template) }},
			{Header: "SELECTOR", Wide: true, Value: func(c configuration) string { return said(c.Status.Conditions, hostsv1.ConditionSelectorValid) }},
			{Header: "VERSIONS", Wide: true, Value: func(c configuration) string { return said(c.Status.Conditions, hostsv1.ConditionVersionsSynced) }},
		},
	}
}

// Versions are the columns of MachineConfigurationVersions.
func Versions(now func() time.Time) output.View[*hostsv1.MachineConfigurationVersion] {
	type column = output.Column[version]
	return output.View[version]{
		Name: version.GetName,
		Columns: []column{
			{Header: "VERSION", Value: version.GetName},
			{Header: "STATE", Value: state},
			{Header: "MACHINES", Value: func(v version) string { return count(v.Status.Machines) }},
			{Header: "READY", Value: func(v version) string { return count(v.Status.ReadyMachines) }},
			{Header: "KUBERNETES", Value: func(v version) string { return v.Spec.Template.Kubernetes.Version }},
			{Header: "HASH", Value: func(v version) string { return short(v.Status.Hash) }},
			{Header: "AGE", Value: func(v version) string { return output.Age(v.CreationTimestamp.Time, now()) }},
			{Header: "LOCKED_AT", Wide: true, Value: func(v version) string { return clock(v.Status.DeployedAt) }},
			{Header: "FIRST_MACHINE", Wide: true, Value: func(v version) string { return v.Status.FirstMachine }},
			{Header: "IMAGE", Wide: true, Value: func(v version) string { return image(&v.Spec.Template) }},
		},
	}
}

// Waits returns why a machine waits for a configuration, and the remedy; empty: it does not.
func Waits(m *hostsv1.HostMachine) (reason, message string) {
	c := meta.FindStatusCondition(m.Status.Conditions, hostsv1.ConditionConfigurationPending)
	if c == nil || c.Status != metav1.ConditionTrue {
		return "", ""
	}
	return c.Reason, c.Message
}

// state of a version, with what its machines showed.
func state(v *hostsv1.MachineConfigurationVersion) string {
	text := "editable"
	if v.Status.Deployed {
		text = "locked"
	}
	if meta.IsStatusConditionFalse(v.Status.Conditions, hostsv1.ConditionHealthy) {
		text += ", bad"
	}
	return text
}

func runs(m *hostsv1.HostMachine) string {
	if c := m.Status.Configuration; c != nil && c.Applied != nil {
		return reference(&c.Applied.VersionReference)
	}
	return ""
}

func desired(m *hostsv1.HostMachine) string {
	if c := m.Status.Configuration; c != nil {
		return reference(c.Desired)
	}
	return ""
}

func reference(r *hostsv1.VersionReference) string {
	if r == nil {
		return ""
	}
	return fmt.Sprintf("%s-v%d", r.Name, r.Version)
}

func instance(m *hostsv1.HostMachine) hostsv1.InstanceReference {
	if m.Spec.Instance == nil {
		return hostsv1.InstanceReference{}
	}
	return *m.Spec.Instance
}

// image is what the root file system comes from.
func image(t *hostsv1.Template) string {
	switch i := t.Image; {
	case i.OCI != nil:
		return i.OCI.Reference
	case i.Archive != nil && i.Archive.URL != "":
		return string(i.Archive.URL)
	case i.Archive != nil:
		return i.Archive.StorageKey
	case i.Debootstrap != nil:
		return "debootstrap " + i.Debootstrap.Suite
	}
	return ""
}

// said is a condition on one line; empty: there is none.
func said(conditions []metav1.Condition, kind string) string {
	c := meta.FindStatusCondition(conditions, kind)
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%s: %s", c.Reason, c.Message)
}

// number is the number of a version; none for 0.
func number(n int32) string {
	if n == 0 {
		return ""
	}
	return count(n)
}

func count(n int32) string { return strconv.Itoa(int(n)) }

// short is as much of a hash as tells it from others.
func short(hash hostsv1.SHA256) string {
	text := strings.TrimPrefix(string(hash), "sha256:")
	return text[:min(len(text), 12)]
}

func clock(t *metav1.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
