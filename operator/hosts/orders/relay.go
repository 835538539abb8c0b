// Package orders has hosts carry out the operations that their pavers offer, such as a reboot: it sends them by
// way of the shard of the instance, and says how they ended.
//
// An operation has the UID of its MachineOperation all the way down to the host, which makes it durable before
// it does anything, and does nothing twice for one id. So an operator that comes after another one, or a leader
// of the shard after another leader, asks again and changes nothing.
//
// A shutdown is done when the provider says that the instance is off: the host cannot say so any more. A
// reboot that asks for it begins with the drain of the Node, which is uncordoned when the host is back.
//
// It leaves to others who may claim an operation, and that the instance is on hold meanwhile.
package orders

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/operations"
)

// Carrier carries operations out at the shards of their instances. [power.Switch] does.
type Carrier interface {
	Carry(ctx context.Context, op *hostsv1.MachineOperation, m *hostsv1.HostMachine) (*operations.Outcome, error)
	// Known reports whether the shard has taken the operation.
	Known(ctx context.Context, op *hostsv1.MachineOperation, m *hostsv1.HostMachine) (bool, error)
}

// Drainer has Nodes drained for operations. [opdrain.Drains] does.
type Drainer interface {
	Drained(ctx context.Context, op *hostsv1.MachineOperation, m *hostsv1.HostMachine) (drained bool, why string, err error)
	End(op *hostsv1.MachineOperation, now time.Time)
}

// Relay carries out what pavers offer. All fields are required; it is safe for concurrent use.
type Relay struct {
	Shards Carrier
	Drains Drainer
	Now    func() time.Time
}

// Offers are the operations that the paver of a machine offers, as long as its agent is connected.
func (r *Relay) Offers(m *hostsv1.HostMachine) []string {
	if m.Spec.Instance == nil || !meta.IsStatusConditionTrue(m.Status.Conditions, hostsv1.ConditionAgentConnected) {
		return nil
	}
	for _, e := range m.Status.Executors {
		if e.Name == hostsv1.ExecutorPaver {
			return e.Operations
		}
	}
	return nil
}

// Carry makes one step of an operation; nil: it is not over. An error is worth another try.
func (r *Relay) Carry(ctx context.Context, op *hostsv1.MachineOperation, m *hostsv1.HostMachine) (*operations.Outcome, error) {
	name := operations.Name(op.Spec.OperationName)
	drains := name == hostsv1.OperationReboot && op.Spec.Parameters["drain"] == "true"
	if name == hostsv1.OperationShutdown && off(m) {
		return &operations.Outcome{Message: "the provider says that the instance is off"}, nil
	}
	known := false
	if drains { // once the order is sent its end is what counts, whatever else the Node is drained for by then
		var err error
		if known, err = r.Shards.Known(ctx, op, m); err != nil {
			return nil, err
		}
	}
	if drains && !known {
		drained, why, err := r.Drains.Drained(ctx, op, m)
		switch {
		case err != nil:
			return nil, err
		case !drained && op.Status.Deadline != nil && !r.Now().Before(op.Status.Deadline.Time):
			r.Drains.End(op, r.Now())
			return &operations.Outcome{Failed: true, Reason: hostsv1.ReasonTimeout, Message: why + " by the deadline; the host was not rebooted"}, nil
		case !drained:
			return nil, nil
		}
	}
	outcome, err := r.Shards.Carry(ctx, op, m)
	if outcome != nil && drains {
		r.Drains.End(op, r.Now())
	}
	return outcome, err
}

// off reports whether the instance of a machine is off, by what its shard says.
func off(m *hostsv1.HostMachine) bool {
	c := meta.FindStatusCondition(m.Status.Conditions, hostsv1.ConditionProvisioned)
	return c != nil && c.Reason == hostsv1.ReasonInstanceOff
}
