package operations

import (
	"crypto/sha256"
	"encoding/hex"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// ChildName is the name of the operation that is made for a machine.
func ChildName(parent, machineUID string) string {
	sum := sha256.Sum256([]byte(machineUID))
	return parent + "-" + hex.EncodeToString(sum[:4])
}

// Child returns the operation that is made for a machine. It has no time to live: it goes with its
// parent.
func Child(parent *hostsv1.MachineOperation, m *hostsv1.HostMachine) *hostsv1.MachineOperation {
	yes := true
	child := &hostsv1.MachineOperation{ObjectMeta: metav1.ObjectMeta{
		Name:   ChildName(parent.Name, string(m.UID)),
		Labels: map[string]string{hostsv1.LabelMachine: m.Name, hostsv1.LabelParentUID: string(parent.UID)},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: hostsv1.GroupVersion.String(), Kind: hostsv1.KindMachineOperation, Name: parent.Name, UID: parent.UID, Controller: &yes,
		}},
	}}
	child.Spec = *parent.Spec.DeepCopy()
	child.Spec.MachineSelector, child.Spec.MaxConcurrent, child.Spec.TTLSecondsAfterFinished = nil, nil, nil
	child.Spec.MachineRef = &hostsv1.MachineReference{Name: hostsv1.Label(m.Name)}
	return child
}

// IsChildOf reports whether an operation was made for a parent.
func IsChildOf(op, parent *hostsv1.MachineOperation) bool {
	return op.Labels[hostsv1.LabelParentUID] == string(parent.UID) && metav1.IsControlledBy(op, parent)
}

// madeForAnother reports whether the machine with this UID is another one than that which an operation was
// made for. A child tells by its name, from its first look on; any other remembers what its first look found.
func madeForAnother(op *hostsv1.MachineOperation, machineUID string) bool {
	if remembered := op.Status.MachineUID; remembered != "" {
		return remembered != machineUID
	}
	parent := metav1.GetControllerOf(op)
	return parent != nil && parent.Kind == hostsv1.KindMachineOperation && op.Labels[hostsv1.LabelParentUID] == string(parent.UID) &&
		op.Name != ChildName(parent.Name, machineUID)
}
