// Package ondemand gives Pods that ask for it an instance of their own: a Machine with an
// NstanceMachine in mode OnDemand, which ends with the Pod.
//
// The Pod is known by its UID: one of the same name that comes later is another Pod. The
// Machine's name is a function of it, so making it twice finds that it is there. How far
// things are stands in annotations of the Pod, when the Pod was found to have ended in one
// of the Machine, so nothing is lost with the process.
//
// A machine whose Node does not get ready in time is given up, and another one tried. So is one on
// whose Node other Pods were bound before it had its taint, if they leave the Pod no room: they are
// not moved for it.
//
// [Decide] says what comes next for one Pod, [Zones] where its volumes and its own rules
// let it run. The [Reconciler] observes and carries out; it also looks at every Machine
// that was made for a Pod from time to time, in case the end of the Pod was missed.
//
// Rights, where the Pods are: pods get list watch patch; nodes get list watch;
// persistentvolumeclaims and persistentvolumes get list watch; events create patch. Where
// the machines are: machines get list watch create patch delete; nstancemachines get list
// watch create delete.
package ondemand
