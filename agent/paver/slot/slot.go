// Package slot builds the root file systems of node machines in the two slots of a host.
//
// A tree is built beside its place and renamed into it when it is complete and durable, so that
// what stands in a slot's place is always whole. Its marker, written last, says what it was built
// from. Nothing here looks at what runs: who calls sees to it that the slot's machine does not.
package slot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"nstance.dev/agent/durable"
	"nstance.dev/agent/paver/inroot"
	"nstance.dev/agent/paver/journal"
	"nstance.dev/agent/paver/render"
	"nstance.dev/agent/paver/tree"
)

// markerFile is the marker's name in the tree.
const markerFile = "/.nstance-slot.json"

// sealed are the directories whose entries a marker counts: those that programs are in, and that
// a machine does not change by running. Pods of networks put their plugins into opt.
var sealed = []string{"usr"}

// perMachine is what a machine makes of its own, and the next one in the tree must not find.
var perMachine = []string{"var/lib/kubelet", "etc/kubernetes/pki", "run", "var/lib/cni"}

// Marker says what a tree was built from.
type Marker struct {
	Hash    string `json:"hash"`    // of the template
	Epoch   int64  `json:"epoch"`   // of the assignment that it was last written for
	Entries int64  `json:"entries"` // of the directories that programs are in
}

// Slots are the slots of a host. It may be used by one goroutine at a time for each slot.
type Slots struct {
	// Machines is the directory of the trees; all are on its file system.
	Machines string
	// Name is what a slot's tree is called; nil: node-a and node-b.
	Name func(journal.Slot) string
}

func (s Slots) name(slot journal.Slot) string {
	if s.Name != nil {
		return s.Name(slot)
	}
	return slot.Machine()
}

// Path is the place of a slot's tree.
func (s Slots) Path(slot journal.Slot) string { return filepath.Join(s.Machines, s.name(slot)) }

// Contents are what a tree is made of beside its root.
type Contents struct {
	// Root is the tree that it begins as a copy of.
	Root string
	// Install puts programs into the tree at the path that it is given; nil: none.
	Install func(ctx context.Context, dir string) error
	// Files of the slot; others are left out.
	Files []render.File
	Hash  string
	Epoch int64
}

// Build makes a slot's tree. What was in the slot before is gone afterwards; when it fails that
// is as it was.
func (s Slots) Build(ctx context.Context, slot journal.Slot, c Contents) error {
	fresh := s.Path(slot) + ".new"
	if err := tree.Remove(fresh); err != nil {
		return fmt.Errorf("build %s: %w", s.name(slot), err)
	}
	if err := s.assemble(ctx, slot, fresh, c); err != nil {
		// What is half made does not wait for another try: the disk may be what it failed of.
		return errors.Join(err, tree.Remove(fresh))
	}
	return nil
}

// assemble makes a tree in the directory fresh and puts it in its place.
func (s Slots) assemble(ctx context.Context, slot journal.Slot, fresh string, c Contents) error {
	if _, err := tree.Copy(ctx, c.Root, fresh); err != nil {
		return fmt.Errorf("build %s: %w", s.name(slot), err)
	}
	if c.Install != nil {
		if err := c.Install(ctx, fresh); err != nil {
			return fmt.Errorf("build %s: %w", s.name(slot), err)
		}
	}
	if err := s.seal(ctx, fresh, c); err != nil {
		return fmt.Errorf("build %s: %w", s.name(slot), err)
	}
	if err := s.place(slot, fresh); err != nil {
		return fmt.Errorf("build %s: %w", s.name(slot), err)
	}
	return nil
}

// seal writes the files, then the marker, and makes all of it durable.
func (s Slots) seal(ctx context.Context, dir string, c Contents) error {
	if err := write(dir, c.Files); err != nil {
		return err
	}
	entries, err := count(ctx, dir)
	if err != nil {
		return err
	}
	root, err := inroot.Open(dir)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // it was only read and written through
	// The marker vouches for the rest, so that is durable first.
	if err := root.Sync(); err != nil {
		return err
	}
	text, err := json.Marshal(Marker{c.Hash, c.Epoch, entries})
	if err != nil {
		return err
	}
	if err := root.File(markerFile, text, 0o600); err != nil {
		return err
	}
	return root.Sync()
}

// place renames a complete tree to where it belongs.
func (s Slots) place(slot journal.Slot, fresh string) error {
	path := s.Path(slot)
	var old string
	for n := 0; ; n++ {
		old = fmt.Sprintf("%s.old-%d", path, n)
		if _, err := os.Lstat(old); errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if err := os.Rename(path, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(fresh, path); err != nil {
		return err
	}
	if err := durable.SyncDir(s.Machines); err != nil {
		return err
	}
	return tree.Remove(old)
}

// Refresh makes a slot's tree ready for another boot of the same content. Without a marker that
// vouches for it this is an error: the slot has to be built.
func (s Slots) Refresh(ctx context.Context, slot journal.Slot, c Contents) error {
	if m, ok := s.Marker(ctx, slot); !ok || m.Hash != c.Hash {
		return fmt.Errorf("refresh %s: its marker is not of the wanted content", s.name(slot))
	}
	dir, err := os.Open(s.Path(slot))
	if err != nil {
		return fmt.Errorf("refresh %s: %w", s.name(slot), err)
	}
	defer dir.Close()
	for _, path := range perMachine {
		if err := removeIn(dir, path); err != nil {
			return fmt.Errorf("refresh %s: %w", s.name(slot), err)
		}
	}
	if err := s.seal(ctx, s.Path(slot), c); err != nil {
		return fmt.Errorf("refresh %s: %w", s.name(slot), err)
	}
	return nil
}

// removeIn removes what is at a path within a directory, without leaving it. What is a link is
// removed itself; where the way to it leads through one, that begins at the directory.
func removeIn(dir *os.File, path string) error {
	how := &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(int(dir.Fd()), filepath.Dir(path), how)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	parent := os.NewFile(uintptr(fd), filepath.Dir(path))
	defer parent.Close()
	return tree.RemoveAt(parent, filepath.Base(path))
}

// Write writes files into a slot's tree, such as a credential, and makes them durable.
func (s Slots) Write(slot journal.Slot, files []render.File) error {
	if err := write(s.Path(slot), files); err != nil {
		return fmt.Errorf("write into %s: %w", s.name(slot), err)
	}
	root, err := inroot.Open(s.Path(slot))
	if err != nil {
		return err
	}
	return errors.Join(root.Sync(), root.Close())
}

func write(dir string, files []render.File) error {
	root, err := inroot.Open(dir)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // it was only written through
	for _, f := range files {
		if f.Place != render.Slot {
			continue
		}
		if f.Link != "" {
			err = root.Link(f.Path, f.Link)
		} else {
			err = root.File(f.Path, []byte(f.Content), f.Mode)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Marker reads a slot's marker. It is not ok where there is none, or where the tree is not what it
// vouches for.
func (s Slots) Marker(ctx context.Context, slot journal.Slot) (m Marker, ok bool) {
	root, err := inroot.Open(s.Path(slot))
	if err != nil {
		return Marker{}, false
	}
	text, err := root.Read(markerFile, 4096)
	if errors.Join(err, root.Close()) != nil || json.Unmarshal(text, &m) != nil {
		return Marker{}, false
	}
	entries, err := count(ctx, s.Path(slot))
	return m, err == nil && entries == m.Entries
}

func count(ctx context.Context, dir string) (entries int64, err error) {
	for _, name := range sealed {
		path := filepath.Join(dir, name)
		if info, err := os.Lstat(path); err != nil || !info.IsDir() {
			continue
		}
		usage, err := tree.Measure(ctx, path)
		if err != nil {
			return 0, err
		}
		entries += usage.Entries
	}
	return entries, nil
}

// Size is what a slot's tree takes on the disk, in bytes; 0 if there is none.
func (s Slots) Size(ctx context.Context, slot journal.Slot) int64 {
	usage, err := tree.Measure(ctx, s.Path(slot))
	if err != nil {
		return 0
	}
	return usage.Bytes
}

// Exists reports whether a slot holds a tree.
func (s Slots) Exists(slot journal.Slot) bool {
	info, err := os.Lstat(s.Path(slot))
	return err == nil && info.IsDir()
}

// Remove removes a slot's tree, and all that is left over of it.
func (s Slots) Remove(slot journal.Slot) error {
	if _, err := os.Lstat(s.Machines); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	lock := filepath.Join(s.Machines, ".#"+s.name(slot)+".lck") // of systemd-nspawn
	return errors.Join(tree.Remove(s.Path(slot)), tree.Remove(lock), s.sweep(slot), durable.SyncDir(s.Machines))
}

// Sweep removes what is left over beside the trees.
func (s Slots) Sweep() error {
	var errs []error
	for _, slot := range journal.Slots() {
		errs = append(errs, s.sweep(slot))
	}
	return errors.Join(errs...)
}

func (s Slots) sweep(slot journal.Slot) error {
	entries, err := os.ReadDir(s.Machines)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("sweep %s: %w", s.name(slot), err)
	}
	var errs []error
	for _, entry := range entries {
		rest, ours := strings.CutPrefix(entry.Name(), s.name(slot)+".")
		if ours && (rest == "new" || strings.HasPrefix(rest, "old-")) {
			errs = append(errs, tree.Remove(filepath.Join(s.Machines, entry.Name())))
		}
	}
	return errors.Join(errs...)
}
