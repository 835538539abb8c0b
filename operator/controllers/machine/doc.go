// Package machine keeps NstanceMachines and the instances of the servers in step.
//
// A machine in mode OnDemand gets an instance of its own: the shard is chosen, the id of
// the instance is written into the spec, and only then is the shard asked for it. So every
// repetition, also after a crash, asks for the same instance. A machine in mode Managed
// shows an instance that a group keeps. The status of both follows the inventory.
//
// A machine that is deleted lets its instance be deleted and stays until that is confirmed.
// An instance that its server has ended takes its Machine with it: never the NstanceMachine
// first, which the Machine owns.
//
// [Decide] says what to do about one machine, [placement.Choose] where an instance goes; both are
// functions of what was observed. The [Reconciler] observes and carries out. The Nodes of
// machines and their drains are not its business: see the packages node and drain,
// which write other parts of the same status; so does providererror.
//
// Whoever runs it must call [Remember] before a shard is connected: what was there before
// this process began, or before the shard was configured, and is missing from the first
// listing is then noticed as missing, and not believed at once.
//
// Rights: nstancemachines get list watch patch delete, their status and finalizers patch;
// nstanceshardgroups and nstancemachinepools get list watch; machines get list watch patch
// delete; clusters get list watch; nodes get list watch; events create patch.
package machine
