package proxmox

import "nstance.dev/server/driver"

// Locks of a machine's configuration that say what becomes of it.
const (
	lockClone     = "clone"     // its disks are being copied
	lockCreate    = "create"    // it is being made
	lockDestroyed = "destroyed" // its disks are gone, its number not yet
	lockSuspended = "suspended" // its memory is on disk
)

// statusOf is the state of a machine in the words of the contract. status is what
// the cluster's resources say, or the hypervisor process where it was asked. That one
// has many words for a machine that neither runs nor is paused, such as io-error, where
// a full storage has stopped it: whether it comes back they do not say.
func statusOf(status, lock string) driver.Status {
	switch lock {
	case lockClone, lockCreate:
		return driver.Pending
	case lockDestroyed:
		return driver.Deleting
	case lockSuspended:
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
