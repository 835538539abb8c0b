// Package selection says in the status of each HostMachine which version it would be built from
// if it were repaved now, and in each MachineConfiguration what its selector does.
//
// What is chosen is decided in hosts/selection; [Decide] turns a choice into the part of a
// status that this controller owns: observedGeneration, configuration.source and desired, and the
// conditions ConfigurationPending and RepavePending; of hosts that no instance of a shard is, of which
// no controller of this release hears, Provisioned says just that. Why a repave which is due does not
// begin comes from the controller of hosts. Nothing is locked or assigned here.
//
// A change of one configuration may change every machine. They are looked at from the cache,
// written only if their status changes, and at most [writesPerSecond] a second.
//
// Rights: hostmachines list watch patch, their status patch; machineconfigurations and
// machineconfigurationversions get list watch, the status of the former patch; secrets get; events
// create patch.
package selection

import "time"

const (
	// writesPerSecond bounds what a change of one configuration costs the API server.
	writesPerSecond = 50
	// secretAgain is when it is asked again for a Secret that does not exist.
	secretAgain = 30 * time.Second
)
