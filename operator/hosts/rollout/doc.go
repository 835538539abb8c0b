// Package rollout decides which machine of a MachineConfiguration is brought to its newest version
// next, or why none is.
//
// [Observe] makes an [Input] of objects, and [Decide] a [Decision] of that and of the time: what is to be
// done with which machine, in the order in which it is to be done, what the configuration's status
// says, and, for people, all outdated machines in their order with what each waits for. Both are
// functions of their arguments, so a dry run shows what the operator would do.
//
// The life of a machine in a rollout is a state machine (stages.go): it is begun, its Node is drained
// and deleted, the machine is built again from the version that was the newest when it was begun, and
// it is done when it has been ready for a while. What is begun is finished with that version, whatever
// comes later. A machine whose Pods do not leave in time is left as it was, and begun again later:
// nothing is forced.
//
// What a caller must know:
//
//   - The budget counts machines, not steps: each that follows the configuration and is unavailable,
//     whatever for, and each that is begun and not done. So an Input must have all that was begun; a
//     caller that reads from a cache adds what it has written itself.
//   - Steps are carried out in their order up to the first that fails. A step that frees a place comes
//     before the one that takes it.
//
// It leaves to others how a Node is drained (package drain), how a machine is built again once its Node
// is gone (hosts/lifecycle), and which version a machine that was begun is built from (hosts/selection).
package rollout
