package rollout

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/lifecycle"
	"nstance.dev/operator/hosts/prebuild"
	"nstance.dev/operator/hosts/versions"
)

// Around is what a rollout depends on besides the objects of host machines.
type Around struct {
	// Nodes by their names.
	Nodes map[string]*corev1.Node
	// Instance returns what the shard says of a machine's instance: that it leaves, and why nothing
	// may be begun with it; empty: nothing. Nil: nobody knows.
	Instance func(*hostsv1.HostMachine) (leaves, waits string)
	// Drained reports whether a Node is empty by the drain that is known by an instruction. Nil: none is.
	Drained func(node *corev1.Node, instruction string) bool
}

// Observe returns what a rollout of a configuration follows from. Versions and machines of other
// configurations are left out.
func Observe(c *hostsv1.MachineConfiguration, all []hostsv1.MachineConfigurationVersion, machines []hostsv1.HostMachine, around Around, now time.Time) Input {
	in := Input{Strategy: strategyOf(c), Target: targetOf(c, all), Progress: progressOf(c)}
	for i := range machines {
		m := &machines[i]
		if follows(m, c) || begunFor(m, c) {
			is := machineOf(m, c, around, now)
			is.Waits = cmp.Or(is.Waits, prebuild.Awaited(c, m, in.Target.Version, now))
			in.Machines = append(in.Machines, is)
		}
	}
	return in
}

// begunFor is whether a rollout of a configuration has begun something with a machine.
func begunFor(m *hostsv1.HostMachine, c *hostsv1.MachineConfiguration) bool {
	return m.Status.Rollout != nil && string(m.Status.Rollout.Name) == c.Name
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

// The defaults of a rollout, which the API server fills in where rollingUpdate is set.
const (
	defaultDrainTimeout = 10 * time.Minute
	defaultMinReady     = 30 * time.Second
	defaultMaxFailures  = 1
)

func strategyOf(c *hostsv1.MachineConfiguration) Strategy {
	s := Strategy{
		ConfigurationPaused: c.Spec.Paused, MaxUnavailable: intstr.FromInt32(1),
		DrainTimeout: defaultDrainTimeout, MinReady: defaultMinReady, MaxFailures: defaultMaxFailures,
	}
	_, s.Resume = c.Annotations[hostsv1.AnnotationResume]
	u := c.Spec.UpdateStrategy
	s.Rolling = u != nil && u.Type == hostsv1.UpdateRolling && c.DeletionTimestamp.IsZero()
	if u == nil || u.RollingUpdate == nil {
		return s
	}
	r := u.RollingUpdate
	s.Paused, s.Windows = r.Paused, r.Windows
	if r.MaxUnavailable != nil {
		s.MaxUnavailable = *r.MaxUnavailable
	}
	if d, err := time.ParseDuration(string(r.DrainTimeout)); err == nil {
		s.DrainTimeout = d
	}
	if r.MinReadySeconds != nil {
		s.MinReady = time.Duration(*r.MinReadySeconds) * time.Second
	}
	if r.MaxFailures != nil {
		s.MaxFailures = int(*r.MaxFailures)
	}
	return s
}

// targetOf is the newest version that the configuration owns.
func targetOf(c *hostsv1.MachineConfiguration, all []hostsv1.MachineConfigurationVersion) Target {
	var newest *hostsv1.MachineConfigurationVersion
	for i := range all {
		v := &all[i]
		if metav1.IsControlledBy(v, c) && v.DeletionTimestamp.IsZero() && versions.Recorded(v) && (newest == nil || v.Spec.Version > newest.Spec.Version) {
			newest = v
		}
	}
	if newest == nil {
		return Target{}
	}
	hash := versions.Hash(&newest.Spec.Template)
	t := Target{
		Version: hostsv1.VersionReference{Name: newest.Spec.ConfigurationName, Version: newest.Spec.Version, UID: string(c.UID), Hash: hash},
		Synced:  c.Status.PendingVersion == nil && hash == versions.Hash(&c.Spec.Template),
	}
	if bad := meta.FindStatusCondition(newest.Status.Conditions, hostsv1.ConditionHealthy); bad != nil && bad.Status == metav1.ConditionFalse {
		t.Bad = bad.LastTransitionTime.Time
	}
	return t
}

func progressOf(c *hostsv1.MachineConfiguration) Progress {
	r := c.Status.Rollout
	if r == nil {
		return Progress{}
	}
	p := Progress{Target: r.Target}
	if r.StartedAt != nil {
		p.StartedAt = r.StartedAt.Time
	}
	if r.ResumedAt != nil {
		p.ResumedAt = r.ResumedAt.Time
	}
	if halted := meta.FindStatusCondition(c.Status.Conditions, hostsv1.ConditionRolloutHalted); halted != nil && halted.Status == metav1.ConditionTrue {
		p.Halted = halted.Reason
		p.HaltedWhy, _, _ = strings.Cut(halted.Message, "; ")
	}
	rolling := meta.FindStatusCondition(c.Status.Conditions, hostsv1.ConditionRollingOut)
	p.Complete = rolling != nil && rolling.Reason == hostsv1.ReasonUpToDate
	return p
}

func machineOf(m *hostsv1.HostMachine, c *hostsv1.MachineConfiguration, around Around, now time.Time) Machine {
	is := Machine{Name: m.Name, Follows: follows(m, c)}
	if begunFor(m, c) {
		is.Rollout = m.Status.Rollout
	}
	if s := m.Status.Configuration; s != nil && s.Applied != nil {
		is.Applied = s.Applied.VersionReference
		if s.Applied.At != nil {
			is.AppliedAt = s.Applied.At.Time
		}
	}
	if r := meta.FindStatusCondition(m.Status.Conditions, hostsv1.ConditionReady); r != nil && r.Status == metav1.ConditionTrue {
		is.ReadySince = r.LastTransitionTime.Time
		if is.AppliedAt.After(is.ReadySince) {
			is.ReadySince = is.AppliedAt
		}
	}
	if f := meta.FindStatusCondition(m.Status.Conditions, hostsv1.ConditionRepaveFailed); f != nil && f.Status == metav1.ConditionTrue && m.Status.Configuration != nil && m.Status.Configuration.Assigned != nil {
		is.Failed, is.FailedAt = m.Status.Configuration.Assigned.VersionReference, f.LastTransitionTime.Time
	}
	is.Leaves, is.Waits = untouchable(m, now)
	if around.Instance != nil {
		leaves, waits := around.Instance(m)
		is.Leaves, is.Waits = cmp.Or(leaves, is.Leaves), cmp.Or(is.Waits, waits)
	}
	if is.Rollout != nil && is.Rollout.UID != string(c.UID) {
		is.Leaves = cmp.Or(is.Leaves, "the MachineConfiguration that it was begun for is gone")
	}
	node := around.Nodes[m.NodeName()]
	is.Drained = is.Rollout != nil && node != nil && around.Drained != nil && around.Drained(node, Instruction(is.Rollout))
	is.look(m, node)
	return is
}

// untouchable says why the machine itself is left alone, or why nothing is begun with it.
func untouchable(m *hostsv1.HostMachine, now time.Time) (leaves, waits string) {
	switch {
	case !m.DeletionTimestamp.IsZero():
		leaves = "the HostMachine is being deleted"
	case m.Spec.Paused:
		leaves = "the HostMachine is paused"
	}
	for _, c := range []string{hostsv1.ConditionAgentConnected, hostsv1.ConditionPreflightPassed} {
		if not := meta.FindStatusCondition(m.Status.Conditions, c); waits == "" && not != nil && not.Status == metav1.ConditionFalse {
			waits = "it could not be built again: " + not.Message
		}
	}
	if h := m.Status.Hold; waits == "" && h != nil && h.Reason != hostsv1.HoldRollout && h.Until != nil && now.Before(h.Until.Time) {
		waits = fmt.Sprintf("its instance is on hold (%s) until %s", h.Reason, clock(h.Until.Time))
	}
	return leaves, waits
}

// look takes the Node of a machine in.
func (m *Machine) look(object *hostsv1.HostMachine, node *corev1.Node) {
	ref := object.Status.NodeRef
	if node != nil {
		m.Node = string(node.UID)
	}
	stage := ""
	if r := object.Status.Repave; r != nil && lifecycle.Stage(r.Stage).Building() {
		stage = r.Stage
	}
	switch {
	case stage != "":
		m.Down, m.Rebuilding = "its host is in stage "+stage, true
	case node == nil:
		m.Down, m.Rebuilding = fmt.Sprintf("Node %s does not exist", object.NodeName()), true
	case ref == nil || ref.UID != m.Node:
		m.Down, m.Rebuilding = fmt.Sprintf("Node %s has not joined", node.Name), true
	case m.Leaves != "" && !object.Spec.Paused:
		m.Down = m.Leaves
	default:
		m.Down = notReady(node)
	}
}

func notReady(n *corev1.Node) string {
	for _, c := range n.Status.Conditions {
		if c.Type != corev1.NodeReady {
			continue
		}
		if c.Status == corev1.ConditionTrue {
			return ""
		}
		return fmt.Sprintf("Node %s is not ready: %s", n.Name, cmp.Or(c.Message, "its kubelet says nothing"))
	}
	return fmt.Sprintf("Node %s is not ready: its kubelet says nothing", n.Name)
}

// Instruction is what the drain of a machine's Node is known by on the Node: another one each time that the machine
// is begun.
func Instruction(r *hostsv1.MachineRollout) string {
	var began int64
	if r.StartedAt != nil {
		began = r.StartedAt.Unix()
	}
	return fmt.Sprintf("%s%s/%d/%d", hostsv1.DrainOfRollout, r.Name, r.Version, began)
}

// ConfigurationOf is the configuration whose rollout asked for a drain; false: none did.
func ConfigurationOf(instruction string) (string, bool) {
	rest, ours := strings.CutPrefix(instruction, hostsv1.DrainOfRollout)
	name, _, _ := strings.Cut(rest, "/")
	return name, ours && name != ""
}
