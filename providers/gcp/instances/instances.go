// Package instances makes, finds, lists, switches and ends the machines of a zone.
//
// A machine's name is its instance id, and so is the request id of the call that makes it.
// Creates wait for their operation, because what the zone has no room for shows there only;
// deletes do not wait. The mutex of the deleted ids is held over no call.
package instances

import (
	"log/slog"
	"sync/atomic"
	"time"

	"nstance.dev/providers/gcp/api"
)

// Instances are the machines of one zone of a project. Make it with [New]. Methods are safe
// for concurrent use.
type Instances struct {
	api   *api.Client
	log   *slog.Logger
	now   func() time.Time
	ended ended
	// plainDisks: the role does not allow labels of disks.
	plainDisks atomic.Bool
}

// New returns the machines behind a client. It asks nothing. log hears of what is done
// without.
func New(client *api.Client, log *slog.Logger, now func() time.Time) *Instances {
	return &Instances{api: client, log: log, now: now}
}
