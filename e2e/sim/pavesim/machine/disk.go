package machine

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"nstance.dev/agent/paver/artifact"
	"nstance.dev/agent/paver/image"
	"nstance.dev/agent/paver/journal"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// images are trees of a file each.
type images struct {
	dir   string
	fetch func(hash string) error
}

// Fetch implements host.Images.
func (i images) Fetch(ctx context.Context, a *nstancev1.MachineAssignment, _ *nstancev1.MachineCredential) error {
	return errors.Join(ctx.Err(), i.fetch(a.GetConfiguration().GetHash()))
}

// Root implements host.Images.
func (i images) Root(_ context.Context, a *nstancev1.MachineAssignment, _ *nstancev1.MachineCredential) (string, func(), error) {
	dir := filepath.Join(i.dir, strings.TrimPrefix(a.GetConfiguration().GetHash(), "sha256:")[:12])
	err := errors.Join(os.MkdirAll(filepath.Join(dir, "usr/bin"), 0o755), os.WriteFile(filepath.Join(dir, "usr/bin/kubelet"), nil, 0o755))
	return dir, func() {}, err
}

// Install implements host.Images.
func (images) Install(context.Context, *nstancev1.MachineAssignment, string) ([]artifact.File, error) {
	return nil, nil
}

// Size implements host.Images.
func (images) Size(*nstancev1.MachineAssignment) (image.Size, error) { return image.Size{}, nil }

// Trim implements host.Images.
func (images) Trim(context.Context) error { return nil }

// Clear implements host.Images.
func (i images) Clear() error { return os.RemoveAll(i.dir) }

func (h *Host) machines() string { return filepath.Join(h.opts.Dir, "var/lib/machines") }

func (h *Host) tree(slot journal.Slot) string { return filepath.Join(h.machines(), slot.Machine()) }

// Exists reports whether there is a tree in a slot.
func (h *Host) Exists(slot journal.Slot) bool {
	_, err := os.Lstat(h.tree(slot))
	return err == nil
}

// Read returns a file of a slot's machine; empty: there is none.
func (h *Host) Read(slot journal.Slot, path string) string {
	text, err := os.ReadFile(filepath.Join(h.tree(slot), path))
	if err != nil {
		return ""
	}
	return string(text)
}

// Write writes a file of a slot's machine, as a program in it does.
func (h *Host) Write(slot journal.Slot, path, text string) error {
	path = filepath.Join(h.tree(slot), path)
	return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600))
}

// Left is what of a host's own is on its disk beside the trees of slots and what is in memory: the
// files in which a text stands, and trees that are no slot's.
func (h *Host) Left(text string) (holders, trees []string, err error) {
	err = filepath.WalkDir(h.opts.Dir, func(path string, entry fs.DirEntry, err error) error {
		short := strings.TrimPrefix(path, h.opts.Dir)
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (path == h.run() || filepath.Dir(path) == h.machines()):
			if name := entry.Name(); path != h.run() && name != journal.A.Machine() && name != journal.B.Machine() {
				trees = append(trees, short)
			}
			return filepath.SkipDir
		case !entry.Type().IsRegular():
			return nil
		}
		content, err := os.ReadFile(path)
		if bytes.Contains(content, []byte(text)) {
			holders = append(holders, short)
		}
		return err
	})
	return holders, trees, err
}
