// Package inventory keeps the HostMachines of instances: one is made when an instance has registered
// whose template has node machines, is labelled as its instance and group are, and goes with the
// instance, or in a group of mode demand with the binding to the cluster.
//
// [Decide] is what follows from what is known, and [Reconciler] carries it out; its requests name
// instances, whose names HostMachines have. That an instance is gone is believed from its shard's word
// or from a complete inventory alone, which package operator/inventory says; while a shard is out of
// sight its HostMachines stay as they are. HostMachines of other provisioners are left alone, and so
// are all of another tenant.
//
// It owns spec.provisioner, spec.instance and spec.providerID of what it makes, the labels of [Labels],
// the annotation that remembers which labels came from the group, the condition Provisioned and status.hold. All else is
// the user's or another controller's, and is in no write.
//
// Rights: hostmachines list watch create patch delete, their status patch; events create patch.
package inventory
