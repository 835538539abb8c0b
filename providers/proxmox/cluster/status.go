package cluster

import (
	"nstance.dev/server/driver"
)

// Locks of a machine's configuration that say what becomes of it.
const (
	LockClone     = "clone"     // its disks are being copied
	lockCreate    = "create"    // it is being made
	LockDestroyed = "destroyed" // its disks are gone, its number not yet
	LockSuspended = "suspended" // its memory is on disk
)

// StatusOf is the state of a machine in the words of the contract. status is what
// the cluster's resources say, or the hypervisor process where it was asked. That one
// has many words for a machine that neither runs nor is paused, such as io-error, where
// a full storage has stopped it: whether it comes back they do not say.
func StatusOf(status, lock string) driver.Status {
	switch lock {
	case LockClone, lockCreate:
		return driver.Pending
	case LockDestroyed:
		return driver.Deleting
	case LockSuspended:
		return driver.Suspended
	}
	switch status {
	case "running":
		return driver.Running
	case "stopped":
		return driver.Stopped
	case "paused", "suspended":
		return driver.Suspended
	}
	return driver.Unknown
}
