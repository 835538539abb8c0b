package selection

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/selection"
	"nstance.dev/operator/status"
)

// Decision is what the controller owns of a machine's status, and what is told of it.
type Decision struct {
	Status hostsv1.HostMachineStatus
	// Reselected: a new choice was asked for and is made; the annotation goes.
	Reselected bool
	// Reason and Note are an event; empty: nothing is told. Warning says of which type.
	Reason, Note string
	Warning      bool
}

// Decide returns what there is to say of a machine. older is the machine that has the same node
// name and came before it; empty: there is none.
func Decide(m *hostsv1.HostMachine, in selection.Cluster, older string, now time.Time) Decision {
	choice := selection.Choose(m, in)
	if older != "" {
		choice.Desired = nil
		choice.Reason = hostsv1.ReasonNodeNameConflict
		choice.Message = fmt.Sprintf("HostMachine %s has the node name %s too, and came before; give this one another name", older, m.NodeName())
	}
	d := Decision{}
	d.Status.ObservedGeneration = m.Generation
	if choice.Source != "" || choice.Desired != nil {
		d.Status.Configuration = &hostsv1.ConfigurationStatus{Source: choice.Source, Desired: choice.Desired}
	}
	conditions := []metav1.Condition{pending(choice), repave(m, choice)}
	if m.Spec.Provisioner != hostsv1.ProvisionerNstance { // of which the inventory says it
		conditions = append(conditions, status.Unknown(hostsv1.ConditionProvisioned, hostsv1.ReasonNoController, provisioned(m)))
	}
	d.Status.Conditions = status.Next(m.Status.Conditions, conditions, m.Generation, now)
	if _, asked := m.Annotations[hostsv1.AnnotationReselect]; asked && m.Spec.ConfigurationRef == nil {
		d.Reselected = true
	}
	d.tell(m, choice)
	return d
}

// provisioned is what is said of whether the host is there.
func provisioned(m *hostsv1.HostMachine) string {
	if m.Spec.Provisioner == hostsv1.ProvisionerManual {
		return "the host is set up by hand, and this release has no controller that hears its agent"
	}
	return fmt.Sprintf("this release has no controller for hosts of provisioner %s", m.Spec.Provisioner)
}

// pending says what a machine waits for.
func pending(choice selection.Choice) metav1.Condition {
	if choice.Desired == nil {
		return status.True(hostsv1.ConditionConfigurationPending, choice.Reason, choice.Message)
	}
	return status.False(hostsv1.ConditionConfigurationPending, choice.Reason, choice.Message)
}

// repave says whether a repave now would build something else than what runs.
func repave(m *hostsv1.HostMachine, choice selection.Choice) metav1.Condition {
	const repave = hostsv1.ConditionRepavePending
	var applied *hostsv1.AppliedVersion
	if m.Status.Configuration != nil {
		applied = m.Status.Configuration.Applied
	}
	switch d := choice.Desired; {
	case m.Status.Repave != nil && m.Status.Repave.Held != nil:
		held := m.Status.Repave.Held
		return status.True(repave, hostsv1.ReasonHeldPrefix+held.Reason, "the Node is gone, and the machine is not repaved: "+held.Message)
	case applied == nil:
		return status.False(repave, hostsv1.ReasonNotPaved, "no node runs on the machine")
	case d == nil:
		return status.False(repave, choice.Reason, fmt.Sprintf("the node runs version %d of %s; nothing else can be built", applied.Version, applied.Name))
	case d.Name == applied.Name && d.UID != applied.UID:
		return status.True(repave, hostsv1.ReasonConfigurationReplaced,
			fmt.Sprintf("the node runs version %d of an earlier MachineConfiguration %s; a repave builds version %d of the present one", applied.Version, applied.Name, d.Version))
	case d.Name != applied.Name || d.Version != applied.Version:
		return status.True(repave, hostsv1.ReasonOutdated,
			fmt.Sprintf("the node runs version %d of %s; a repave builds version %d of %s", applied.Version, applied.Name, d.Version, d.Name))
	case choice.Waiting > 0:
		return status.False(repave, hostsv1.ReasonConfigurationPaused,
			fmt.Sprintf("MachineConfiguration %s is paused; version %d waits", d.Name, choice.Waiting))
	}
	return status.False(repave, hostsv1.ReasonUpToDate, fmt.Sprintf("the node runs version %d of %s", applied.Version, applied.Name))
}

// tell says what is new in a choice.
func (d *Decision) tell(m *hostsv1.HostMachine, choice selection.Choice) {
	was := meta.FindStatusCondition(m.Status.Conditions, hostsv1.ConditionConfigurationPending)
	if choice.Desired == nil {
		if was == nil || was.Reason != choice.Reason {
			d.Reason, d.Note, d.Warning = hostsv1.EventConfigurationPending, choice.Message, true
			if choice.Reason == hostsv1.ReasonNodeNameConflict {
				d.Reason = hostsv1.EventNodeNameConflict
			}
		}
		return
	}
	if before := m.Status.Configuration; before == nil || before.Desired == nil || before.Desired.Name != choice.Desired.Name {
		d.Reason, d.Note = hostsv1.EventConfigurationSelected, choice.Message
	}
}

// SelectorCondition says what the selector of a configuration does.
func SelectorCondition(c *hostsv1.MachineConfiguration, parsed error, reach selection.Reach) metav1.Condition {
	const valid = hostsv1.ConditionSelectorValid
	switch {
	case parsed != nil:
		return status.False(valid, hostsv1.ReasonInvalidSelector, fmt.Sprintf("spec.machineSelector selects nothing: %v", parsed))
	case c.Spec.MachineSelector == nil:
		return status.True(valid, hostsv1.ReasonNoSelector, "only machines that name it use it: spec.machineSelector is not set")
	case reach.Matches == 0:
		return status.True(valid, hostsv1.ReasonMatchesNothing, "no machine that names no configuration matches spec.machineSelector")
	case len(reach.Rivals) > 0:
		return status.True(valid, hostsv1.ReasonAmbiguousPriority,
			fmt.Sprintf("%s, and %s with the same priority %d; the first name decides: set another priority", reached(reach), quoted(reach.Rivals), c.Spec.Priority))
	}
	return status.True(valid, hostsv1.ReasonMatches, reached(reach))
}

// reached says how many machines a selector matches, and how many of them go elsewhere.
func reached(r selection.Reach) string {
	text := fmt.Sprintf("%d machines match", r.Matches)
	if r.Lost > 0 {
		text += fmt.Sprintf(", %d of them get a configuration of higher priority", r.Lost)
	}
	return text
}

// quoted are the first names of a list that may be long.
func quoted(names []string) string {
	const most = 3
	switch {
	case len(names) == 1:
		return names[0] + " matches some of them"
	case len(names) <= most:
		return join(names) + " match some of them"
	}
	return fmt.Sprintf("%s and %d more match some of them", join(names[:most]), len(names)-most)
}
