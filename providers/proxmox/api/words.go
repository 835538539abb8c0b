package api

import (
	"errors"
	"regexp"
	"strings"

	"nstance.dev/server/driver"
)

// ChangedMeanwhile reports whether err says that a machine's configuration has changed
// since it was read: by an earlier call of ours whose answer was lost, or by somebody.
func ChangedMeanwhile(err error) bool {
	var r *Refusal
	return errors.As(err, &r) && changedWords.MatchString(r.reason)
}

// The words are those of PVE::Tools::assert_if_modified and of qemu-server.
var changedWords = regexp.MustCompile(`(?i)(file changed by other user|checksum mismatch)`)

// TaskFailed reports whether err, of waiting for a task, is what became of it. A
// task that nobody knows any more has failed too.
func TaskFailed(err error) bool {
	var r *Refusal
	return errors.As(err, &r) && (r.status == 0 || r.kind() == driver.Invalid)
}

// AlreadyRuns reports whether err says that a machine was not started because it runs.
func AlreadyRuns(err error) bool {
	var r *Refusal
	return errors.As(err, &r) && strings.Contains(r.reason, "already running")
}

// Overtaken reports whether err says that a machine's state was another one when it
// was to be changed. Another look shows which.
func Overtaken(err error) bool {
	var r *Refusal
	return KindOf(err) == driver.NotFound ||
		errors.As(err, &r) && (strings.Contains(r.reason, "not running") || strings.Contains(r.reason, "is running"))
}

// VolumeMissing reports whether err says that a volume does not exist, or its storage.
func VolumeMissing(err error, volume string) bool {
	var r *Refusal
	if !errors.As(err, &r) {
		return false
	}
	for _, words := range []string{
		"storage '" + StorageOf(volume) + "' does not exist", "no such volume", "volume '" + volume + "' does not exist",
	} {
		if strings.Contains(r.reason, words) {
			return true
		}
	}
	return false
}

// StorageOf is the storage of a volume.
func StorageOf(volume string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(volume, "file="), ":")
	return name
}
