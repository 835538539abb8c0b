package prebuild

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/versions"
)

// Observe returns what the preparation of a configuration follows from. Versions and machines of others are left out.
// edited is when the newest version with its hash was first seen; host returns what the shard knows of a machine's host.
func Observe(c *hostsv1.MachineConfiguration, all []hostsv1.MachineConfigurationVersion, machines []hostsv1.HostMachine,
	host func(*hostsv1.HostMachine) Host, edited func(hostsv1.VersionReference) time.Time,
) Input {
	in := Input{Paused: c.Spec.Paused}
	if p := c.Spec.Prebuild; p != nil && c.DeletionTimestamp.IsZero() {
		in.Mode, in.MaxConcurrent = p.Mode, max(1, int(p.MaxConcurrent))
	}
	in.Target, in.Synced = Newest(c, all)
	if in.Target.Version != 0 {
		in.Edited = edited(in.Target)
	}
	for i := range machines {
		m := &machines[i]
		if follows(m, c) || m.Status.Prebuild != nil && string(m.Status.Prebuild.Name) == c.Name {
			in.Machines = append(in.Machines, machineOf(m, c, in.Target, host))
		}
	}
	return in
}

// Newest is the newest version that a configuration owns, and whether it holds the template; zero: there is none.
func Newest(c *hostsv1.MachineConfiguration, all []hostsv1.MachineConfigurationVersion) (ref hostsv1.VersionReference, synced bool) {
	var newest *hostsv1.MachineConfigurationVersion
	for i := range all {
		v := &all[i]
		if metav1.IsControlledBy(v, c) && v.DeletionTimestamp.IsZero() && versions.Recorded(v) && (newest == nil || v.Spec.Version > newest.Spec.Version) {
			newest = v
		}
	}
	if newest == nil {
		return ref, false
	}
	hash := versions.Hash(&newest.Spec.Template)
	return hostsv1.VersionReference{Name: newest.Spec.ConfigurationName, Version: newest.Spec.Version, UID: string(c.UID), Hash: hash},
		c.Status.PendingVersion == nil && hash == versions.Hash(&c.Spec.Template)
}

// follows is whether a machine is built from the newest version of a configuration.
func follows(m *hostsv1.HostMachine, c *hostsv1.MachineConfiguration) bool {
	s := m.Status.Configuration
	if s == nil || s.Desired == nil || !m.DeletionTimestamp.IsZero() {
		return false
	}
	if ref := m.Spec.ConfigurationRef; ref != nil && ref.Version != nil {
		return false
	}
	return string(s.Desired.Name) == c.Name && s.Desired.UID == string(c.UID)
}

func machineOf(m *hostsv1.HostMachine, c *hostsv1.MachineConfiguration, target hostsv1.VersionReference, host func(*hostsv1.HostMachine) Host) Machine {
	is := Machine{Name: m.Name, Follows: follows(m, c), Host: host(m)}
	if p := m.Status.Prebuild; p != nil && string(p.Name) == c.Name {
		is.Prebuild = p
	}
	s := m.Status.Configuration
	is.Outdated = s != nil && s.Applied != nil && target.Version != 0 && !same(s.Applied.VersionReference, target)
	if meta.IsStatusConditionTrue(m.Status.Conditions, hostsv1.ConditionRepaveFailed) && s != nil && s.Assigned != nil {
		is.Failed = s.Assigned.VersionReference
	}
	is.Waits = waits(m)
	is.Stray = (m.Status.Prebuild == nil || m.Status.Prebuild.State.Over()) && is.Host.works()
	return is
}

// waits says why nothing is begun with a machine; empty: something may be.
func waits(m *hostsv1.HostMachine) string {
	s := m.Status.Configuration
	switch {
	case m.Spec.Paused:
		return "the HostMachine is paused"
	case m.Spec.Instance == nil:
		return "its host is no instance of a shard"
	case m.Status.Prebuild != nil && s != nil && s.Desired != nil && m.Status.Prebuild.Name != s.Desired.Name && m.Status.Prebuild.State == hostsv1.PrebuildRunning:
		return fmt.Sprintf("version %d of %s is being prepared on it", m.Status.Prebuild.Version, m.Status.Prebuild.Name)
	case m.Status.Rollout != nil && m.Status.Rollout.Stage.Begun():
		return fmt.Sprintf("a rollout brings it to version %d", m.Status.Rollout.Version)
	case s == nil || s.Applied == nil || m.Status.NodeRef == nil || m.Status.NodeRef.UID == "":
		return "no Node of it has joined"
	case s.Assigned != nil && !same(s.Assigned.VersionReference, s.Applied.VersionReference) && !meta.IsStatusConditionTrue(m.Status.Conditions, hostsv1.ConditionRepaveFailed):
		return "it is being repaved"
	case !meta.IsStatusConditionTrue(m.Status.Conditions, hostsv1.ConditionAgentConnected):
		return "its agent is not connected"
	}
	if p := meta.FindStatusCondition(m.Status.Conditions, hostsv1.ConditionPreflightPassed); p != nil && p.Status == metav1.ConditionFalse {
		return "it could not be built: " + p.Message
	}
	return ""
}

// Awaited says why a rollout does not begin a machine yet that it would bring to a version (M95): it is being prepared,
// or will be. It waits for a preparation until that is over, or should be; empty: it waits for none.
func Awaited(c *hostsv1.MachineConfiguration, m *hostsv1.HostMachine, target hostsv1.VersionReference, now time.Time) string {
	if c.Spec.Prebuild == nil || !On(c.Spec.Prebuild.Mode) || target.Version == 0 {
		return ""
	}
	p := m.Status.Prebuild
	switch {
	case p == nil || !same(p.VersionReference, target) || p.Mode != c.Spec.Prebuild.Mode:
		return fmt.Sprintf("version %d is prepared on it first", target.Version)
	case p.State.Over() || !now.Before(end(p)):
		return ""
	}
	return fmt.Sprintf("version %d is being prepared on it, until %s at the latest", target.Version, end(p).UTC().Format(time.RFC3339))
}
