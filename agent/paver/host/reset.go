package host

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"nstance.dev/agent/durable"
	"nstance.dev/agent/paver/assignment"
	"nstance.dev/agent/paver/journal"
	"nstance.dev/agent/paver/tree"
)

// Reset takes back everything that was ever done here: both slots with their machines, whatever
// the journal says, the host's settings, what is left in its network, and with wipe also the
// directories that survive repaves and what was fetched. The journal and the assignment are the
// caller's, and go last. It may be repeated.
func (h *Host) Reset(ctx context.Context, j journal.Journal, wipe bool) error {
	var errs []error
	try := func(what string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("reset: %s: %w", what, err))
		}
	}
	try("disable both machines", h.opts.Runner.Enable(ctx, journal.None))
	var machines []string
	for _, s := range journal.Slots() {
		machines = append(machines, h.opts.Name(s))
		if err := h.stop(ctx, s, assignment.Timeouts{Stop: time.Minute}); err != nil {
			try("kill "+h.opts.Name(s), h.opts.Runner.Kill(ctx, s))
		}
	}
	if len(errs) > 0 { // the tree of a machine that may run is not deleted
		return errors.Join(errs...)
	}
	for _, s := range journal.Slots() {
		try("delete "+h.opts.Name(s), h.free(s))
	}
	h.sweepNetwork(ctx, j)
	try("settings", h.opts.Settings.Restore(ctx, j.Settings, machines...))
	try("manifest", durable.Remove(h.manifestFile(onHost)))
	if wipe {
		try("persisted directories", tree.Remove(filepath.Join(h.opts.Dir, "persist")))
		try("cache", h.opts.Images.Clear())
	}
	return errors.Join(errs...)
}
