package host

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"nstance.dev/agent/durable"
	"nstance.dev/agent/paver/artifact"
	"nstance.dev/agent/paver/assignment"
	"nstance.dev/agent/paver/journal"
	"nstance.dev/agent/paver/render"
	"nstance.dev/agent/paver/slot"
	"nstance.dev/agent/paver/transition"
	"nstance.dev/agent/paver/tree"
)

// What has to be free on the disk before a machine is built, and what is left of it when what can
// be done without is deleted: in bytes, and as a part of the disk.
const (
	keepFree     = 2 << 30
	keepFreePart = 5 // a fifth
)

// fetch makes everything available that the assignment needs, and finds out whether it can be
// written down.
func (h *Host) fetch(ctx context.Context, w Work) error {
	t := w.Journal.Transition
	m, _, err := h.planner.plan(t.Assignment, t.To, w.Credential)
	if err != nil {
		return err
	}
	if err := h.planner.fit(ctx, t.Assignment); err != nil {
		return err
	}
	return h.opts.Images.Fetch(ctx, m, w.Credential)
}

// build makes the slot's tree, or refreshes it. What is secret is written shortly before the boot.
func (h *Host) build(ctx context.Context, w Work) error {
	t := w.Journal.Transition
	m, plan, err := h.planner.plan(t.Assignment, t.To, w.Credential)
	if err != nil {
		return err
	}
	contents := slot.Contents{Hash: t.Assignment.Configuration.Hash, Epoch: t.Epoch, Files: open(plan)}
	if w.Step.Kind == transition.RefreshSlot {
		if err := h.slots.Refresh(ctx, t.To, contents); err != nil {
			return err
		}
		return h.built(t.To, t.Assignment, plan, h.installed(t.To))
	}
	root, release, err := h.opts.Images.Root(ctx, m, w.Credential)
	if err != nil {
		return err
	}
	defer release()
	contents.Root = root
	var programs []artifact.File
	contents.Install = func(ctx context.Context, dir string) (err error) {
		programs, err = h.opts.Images.Install(ctx, m, dir)
		return err
	}
	if err := os.MkdirAll(h.opts.Machines, 0o700); err != nil {
		return fmt.Errorf("make directory of machines: %w", err)
	}
	if err := h.room(ctx, root, keepFree/2); err != nil {
		return err
	}
	if err := h.slots.Build(ctx, t.To, contents); err != nil {
		return err
	}
	return h.built(t.To, t.Assignment, plan, programs)
}

// room says why a copy of a tree has no place on the disk of the machines: it is not begun then, as
// the machine that runs would be the first to feel it. What is needed counts what is to stay free.
func (h *Host) room(ctx context.Context, dir string, need uint64) error {
	available, _, err := h.opts.Disk.Free(h.opts.Machines)
	if err != nil {
		return err
	}
	if !h.opts.Disk.Shares(dir, h.opts.Machines) {
		usage, err := tree.Measure(ctx, dir)
		if err != nil {
			return fmt.Errorf("measure the image: %w", err)
		}
		need += uint64(usage.Bytes)
	}
	return enough(h.opts.Machines, available, need)
}

// enough says why what is available in a directory is not.
func enough(dir string, available, need uint64) error {
	if available >= need {
		return nil
	}
	return fmt.Errorf("%w: %d MB can be written to %s, and a machine needs %d MB; delete something, or give the host a larger disk",
		errDisk, available>>20, dir, need>>20)
}

// built writes down what a slot was built from.
func (h *Host) built(s journal.Slot, a assignment.Assignment, plan render.Plan, programs []artifact.File) error {
	if before, ok, err := h.Built(s); err != nil || !ok || before.Epoch != a.Epoch {
		// Keys that were set in place were those of the machine before, whether they can be read or not.
		if err := durable.Remove(h.planner.keysFile(s)); err != nil {
			return err
		}
	}
	return errors.Join(h.writeSlotFile(s, a), h.remember(string(s), plan.Of(render.Slot), programs...))
}

// open are the files of a slot that are no secret.
func open(plan render.Plan) (files []render.File) {
	for _, f := range plan.Of(render.Slot) {
		if !f.Secret {
			files = append(files, f)
		}
	}
	return files
}

// secret are the others.
func secret(plan render.Plan) (files []render.File) {
	for _, f := range plan.Of(render.Slot) {
		if f.Secret {
			files = append(files, f)
		}
	}
	return files
}

// errDisk is matched by the error about a disk that is too full to stop a machine that runs.
var errDisk = errors.New("the disk is nearly full")

// guard looks at what the new machine needs once the old one is down.
func (h *Host) guard(ctx context.Context, w Work) error {
	t := w.Journal.Transition
	m, plan, err := h.planner.plan(t.Assignment, t.To, w.Credential)
	if err != nil {
		return err
	}
	available, _, err := h.opts.Disk.Free(h.opts.Machines)
	if err != nil {
		return err
	}
	if err := errors.Join(h.planner.fit(ctx, t.Assignment), enough(h.opts.Machines, available, keepFree/2)); err != nil {
		return err
	}
	if marker, ok := h.slots.Marker(ctx, t.To); !ok || marker.Hash != t.Assignment.Configuration.Hash {
		return fmt.Errorf("%s is not what was built", h.opts.Name(t.To))
	}
	if h.opts.Reachable != nil {
		if err := h.opts.Reachable(ctx, m); err != nil {
			return err
		}
	}
	left, err := h.opts.Settings.Try(plan)
	for _, name := range left {
		h.opts.Log.WarnContext(ctx, "setting of the host keeps its new value", "sysctl", name, "reason", "the kernel does not take the old one back")
	}
	return err
}

// DiskLow reports whether what can be done without should be deleted.
func (h *Host) DiskLow() bool {
	available, total, err := h.opts.Disk.Free(h.opts.Machines)
	return err == nil && (available < keepFree || available < total/keepFreePart)
}

func free(path string) (free, total uint64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return 0, 0, fmt.Errorf("look at the disk of %s: %w", path, err)
	}
	return s.Bavail * uint64(s.Bsize), s.Blocks * uint64(s.Bsize), nil
}

// free removes what a slot holds.
func (h *Host) free(s journal.Slot) error {
	if err := h.slots.Remove(s); err != nil {
		return err
	}
	return errors.Join(durable.Remove(h.planner.keysFile(s)), durable.Remove(h.slotFile(s)), durable.Remove(h.manifestFile(string(s))))
}
