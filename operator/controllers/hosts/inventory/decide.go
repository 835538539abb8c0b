package inventory

import (
	"cmp"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/status"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Observation is all that is known of one instance.
type Observation struct {
	Tenant  string               // of the operator
	Machine *hostsv1.HostMachine // that is named like the instance; nil: there is none
	// ClaimedBy is a HostMachine of another name that stands for the instance; empty: there is none.
	ClaimedBy string

	Shard    string // that has the instance, or that the HostMachine says; empty: none is known to
	Presence inventory.Presence
	WhyGone  string // in the server's words
	Instance *nstancev1.InstanceStatus
	Group    *nstancev1.GroupStatus // nil: it is not known yet
	// HeldUntil is until when the instance is on hold; zero: it is not.
	HeldUntil time.Time
}

// Action is what becomes of the HostMachine of an instance.
type Action string

// The actions.
const (
	Leave  Action = "leave" // as it is, or away
	Make   Action = "make"
	Keep   Action = "keep" // and have it say what is known
	Delete Action = "delete"
)

// Decision is an action, and why.
type Decision struct {
	Action Action
	Reason string

	// With Make and Keep: labels as [Labels] gives them, nil while the group is not known; and the provider's name
	// for the machine, empty while that is not known.
	Own, OfGroup map[string]string
	Unfit        []string
	ProviderID   string
	// Conditions and Hold, with Make and Keep; nil: there is no hold.
	Conditions []metav1.Condition
	Hold       *hostsv1.HoldStatus
}

func leave(format string, args ...any) Decision {
	return Decision{Action: Leave, Reason: fmt.Sprintf(format, args...)}
}

// Binding of an instance that serves no cluster, in the words of the servers.
const bindingIdle = "idle"

// Decide returns what becomes of the HostMachine of an instance (M3).
func Decide(o Observation) Decision {
	if why := foreign(o); why != "" {
		return leave("%s", why)
	}
	there := o.Machine != nil
	switch in := o.Instance; {
	case o.Presence == inventory.Gone && there:
		return Decision{Action: Delete, Reason: "the instance is gone: " + cmp.Or(o.WhyGone, "its shard deleted it")}
	case o.Presence != inventory.Present || in == nil:
		return leave("no connected shard has the instance")
	case !inventory.HasDetails(in):
		return leave("its shard has not described the instance yet")
	case in.GetMachine() == nil && there:
		return leave("its shard does not say that the instance has a node machine, and not that it is gone")
	case in.GetMachine() == nil:
		return leave("the template of the instance has no machine that is enabled")
	case in.GetRegisteredAt() == nil:
		return leave("the instance has not registered")
	case in.GetMachine().GetBinding() == bindingIdle && there:
		return Decision{Action: Delete, Reason: "the instance no longer serves the cluster: its binding has ended"}
	case in.GetMachine().GetBinding() == bindingIdle:
		return leave("the instance serves no cluster")
	case there:
		return describe(o, Decision{Action: Keep, Reason: "the instance exists"})
	case o.ClaimedBy != "":
		return leave("HostMachine %s stands for the instance", o.ClaimedBy)
	case in.GetCondemned() != nil:
		return leave("the instance is about to be deleted: %s", in.GetCondemned().GetReason())
	case o.Group == nil:
		return leave("its shard has not described group %s yet", in.GetGroup())
	default:
		return describe(o, Decision{Action: Make, Reason: made(in)})
	}
}

// foreign says why a HostMachine is none of this controller's business; empty: it is, or there is none.
func foreign(o Observation) string {
	m := o.Machine
	switch {
	case m == nil:
	case m.Spec.Provisioner != hostsv1.ProvisionerNstance:
		return fmt.Sprintf("the HostMachine is of provisioner %s", m.Spec.Provisioner)
	case m.Spec.Instance == nil || string(m.Spec.Instance.ID) != m.Name:
		return "the HostMachine is not named like its instance"
	case string(m.Spec.Instance.Tenant) != o.Tenant:
		return fmt.Sprintf("the HostMachine is of tenant %s", m.Spec.Instance.Tenant)
	case !m.DeletionTimestamp.IsZero():
		return "the HostMachine is being deleted"
	}
	return ""
}

func made(in *nstancev1.InstanceStatus) string {
	if b := in.GetMachine().GetBinding(); b != "" {
		return "the instance has registered and its binding is " + b
	}
	return "the instance has registered"
}

// describe adds what the HostMachine says.
func describe(o Observation, d Decision) Decision {
	if o.Group != nil {
		d.Own, d.OfGroup, d.Unfit = Labels(o.Shard, o.Instance, o.Group)
	}
	d.ProviderID = o.Instance.GetProviderUri()
	d.Conditions = []metav1.Condition{provisioned(o.Instance)}
	if !o.HeldUntil.IsZero() {
		until := metav1.NewTime(o.HeldUntil.Truncate(time.Second))
		d.Hold = &hostsv1.HoldStatus{Reason: o.Instance.GetHold().GetReason(), Until: &until}
	}
	return d
}

// provisioned says whether the host runs.
func provisioned(in *nstancev1.InstanceStatus) metav1.Condition {
	switch in.GetStatus() {
	case inventory.StatusRunning:
		return status.True(hostsv1.ConditionProvisioned, hostsv1.ReasonInstanceRunning, "the instance runs")
	case inventory.StatusPoweredOff:
		return status.True(hostsv1.ConditionProvisioned, hostsv1.ReasonInstanceOff, "the instance is switched off on purpose; status.hold says until when it may be")
	}
	return status.False(hostsv1.ConditionProvisioned, hostsv1.ReasonInstanceWaiting, fmt.Sprintf("the instance is %s", cmp.Or(in.GetStatus(), inventory.StatusUnknown)))
}
