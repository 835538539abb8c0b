// Package nodes says which Node is which instance's.
//
// A provider id is the one link that everybody trusts: the URI that a shard reports for
// an instance is to be Node.spec.providerID, byte for byte. Where a Node has none yet, or
// writes it in another form, [Match] looks at what else there is. What a Node says of
// itself, its kubelet wrote; so a label or a name counts only if the Node also has an
// address that the server knows for the instance. Otherwise a machine could draw a drain
// upon another one's Node.
//
// Where more than one Node fits equally well, none does.
//
// [DeletionOf] decides who deletes a Node whose instance has ended or left, and when: Cluster API,
// demand mode, the operator, or nobody. Nothing else in the operator decides that.
//
// Deciding is pure (match.go, owner.go, providerid.go): an [Index] is made of the Nodes once and may
// then be used concurrently; everything else there is a function of its arguments.
//
// [Find], [Machine] and [FindDoubt] look in caches for the Node and the NstanceMachine of an
// instance, and the other way for the machines that a Node may be of: what changes is one of
// thousands, and nobody looks through all of them for it. The caches need the indexes of
// [MachineIndexes] and [NodeIndexes]; [Register] adds them before the caches are started.
// [FindLive] asks the API server itself, for who is about to end an instance.
// Nothing is written here.
package nodes
