// Package settings sets on a host what its node machines need and cannot set for themselves, and
// takes it back: files below /etc, parameters and modules of the kernel, directories that survive
// a repave. What is set is decided by render; what was there before is recorded by the caller, in
// the journal, before the first change.
package settings

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"nstance.dev/agent/paver/command"
	"nstance.dev/agent/paver/inroot"
	"nstance.dev/agent/paver/render"
	"nstance.dev/agent/paver/tree"
)

// Host is where settings are made; the zero Host is this one.
type Host struct {
	// Root is the directory that takes the place of /; empty: /.
	Root string
	// Load loads a module of the kernel; nil: modprobe does.
	Load func(ctx context.Context, module string) error
	// Reload makes sshd read its configuration again; nil: systemctl does.
	Reload func(ctx context.Context) error
}

func (h Host) root() string {
	if h.Root == "" {
		return "/"
	}
	return h.Root
}

func (h Host) path(path string) string { return filepath.Join(h.root(), path) }

// parameter is the file of a parameter, by its path below /proc/sys.
func (h Host) parameter(path string) string { return filepath.Join(h.root(), "/proc/sys", path) }

// Values reads what the parameters are set to now, by their paths below /proc/sys. Those that the
// kernel does not have are left out.
func (h Host) Values(parameters []render.Setting) (map[string]string, error) {
	values := map[string]string{}
	for _, p := range parameters {
		text, err := os.ReadFile(h.parameter(p.Path))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read sysctl %s: %w", p.Name, err)
		}
		values[p.Path] = strings.TrimSpace(string(text))
	}
	return values, nil
}

// Apply makes the host as a plan says, before its machine boots. Warnings are what the kernel does
// not have: a module that cannot be loaded, a parameter that does not exist. The kubelet may run
// without; it says itself if it cannot.
func (h Host) Apply(ctx context.Context, plan render.Plan) (warnings []string, err error) {
	if err := h.files(ctx, plan.Of(render.OnHost)); err != nil {
		return nil, err
	}
	for _, module := range plan.Modules {
		if err := h.load(ctx, module); err != nil {
			warnings = append(warnings, fmt.Sprintf("kernel module %s: %v", module, err))
		}
	}
	for _, p := range plan.Sysctls {
		switch err := h.set(p.Path, p.Value); {
		case errors.Is(err, fs.ErrNotExist):
			warnings = append(warnings, fmt.Sprintf("sysctl %s does not exist in this kernel", p.Name))
		case err != nil:
			return warnings, fmt.Errorf("set sysctl %s: %w", p.Name, err)
		}
	}
	for _, d := range plan.Persist {
		if err := h.persist(d); err != nil {
			return warnings, err
		}
	}
	return warnings, nil
}

// Keys writes the SSH keys of a plan, and takes away all others that were ever written.
func (h Host) Keys(ctx context.Context, plan render.Plan) error {
	return h.files(ctx, slices.DeleteFunc(slices.Clone(plan.Of(render.OnHost)), func(f render.File) bool {
		return f.Path != render.SSHDropIn && !strings.HasPrefix(f.Path, render.SSHDir+"/")
	}))
}

// Try finds out which parameters of a plan the kernel refuses, while the machine from before still
// runs with its own: each that differs is set, and at once set back. Left are those that the kernel did
// not take back. Parameters that do not exist, or cannot be read, are no error.
func (h Host) Try(plan render.Plan) (left []string, err error) {
	var errs []error
	for _, p := range plan.Sysctls {
		before, err := os.ReadFile(h.parameter(p.Path))
		if err != nil {
			continue
		}
		old := strings.TrimSpace(string(before))
		if err := h.set(p.Path, p.Value); err != nil {
			errs = append(errs, fmt.Errorf("set sysctl %s: %w", p.Name, err))
			continue
		}
		if err := h.set(p.Path, old); err != nil {
			left = append(left, p.Name)
		}
	}
	return left, errors.Join(errs...)
}

// persist makes a directory that survives.
func (h Host) persist(d render.Directory) error {
	if err := os.MkdirAll(h.path(filepath.Dir(d.Path)), 0o700); err != nil {
		return fmt.Errorf("make persisted directory: %w", err)
	}
	if err := os.Mkdir(h.path(d.Path), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make persisted directory: %w", err)
	}
	return nil
}

// Wipe empties the directories of a plan that do not survive this repave.
func (h Host) Wipe(plan render.Plan) error {
	for _, d := range plan.Persist {
		if !d.Wipe {
			continue
		}
		if err := tree.Remove(h.path(d.Path)); err != nil {
			return fmt.Errorf("wipe persisted directory: %w", err)
		}
	}
	return nil
}

// files writes those that differ, and makes the ssh daemon read its own again if one did.
func (h Host) files(ctx context.Context, files []render.File) error {
	root, err := inroot.Open(h.root())
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // it was only written through
	keys := false
	for _, f := range files {
		info, statErr := os.Lstat(h.path(f.Path))
		old, err := root.Read(f.Path, 1<<20)
		if f.Link == "" && err == nil && statErr == nil && string(old) == f.Content && info.Mode() == f.Mode {
			continue
		}
		if f.Link != "" {
			err = root.Link(f.Path, f.Link)
		} else {
			err = root.File(f.Path, []byte(f.Content), f.Mode)
		}
		if err != nil {
			return fmt.Errorf("write the host's settings: %w", err)
		}
		keys = keys || f.Path == render.SSHDropIn
	}
	gone, err := h.goneKeys(files)
	if err != nil {
		return err
	}
	for _, path := range gone {
		if err := root.Remove(path); err != nil {
			return fmt.Errorf("remove keys of ssh: %w", err)
		}
		keys = keys || path == render.SSHDropIn
	}
	if err := root.Sync(); err != nil {
		return err
	}
	if keys {
		return h.reload(ctx)
	}
	return nil
}

// goneKeys are the files of users who have no keys in the plan, and what makes sshd read them where
// nobody has any.
func (h Host) goneKeys(files []render.File) (gone []string, err error) {
	planned := func(path string) bool {
		return slices.ContainsFunc(files, func(f render.File) bool { return f.Path == path })
	}
	entries, err := os.ReadDir(h.path(render.SSHDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read keys of ssh: %w", err)
	}
	for _, entry := range entries {
		if path := render.SSHDir + "/" + entry.Name(); !planned(path) {
			gone = append(gone, path)
		}
	}
	if _, err := os.Lstat(h.path(render.SSHDropIn)); err == nil && !planned(render.SSHDropIn) {
		gone = append(gone, render.SSHDropIn)
	}
	return gone, nil
}

func (h Host) reload(ctx context.Context) error {
	if h.Reload != nil {
		return h.Reload(ctx)
	}
	// It is called ssh or sshd, or does not run; the keys are read at its next start then.
	for _, unit := range []string{"ssh.service", "sshd.service"} {
		if out, err := command.Run(exec.CommandContext(ctx, "systemctl", "reload", unit)); err == nil && out.Code == 0 {
			return nil
		}
	}
	return nil
}

func (h Host) load(ctx context.Context, module string) error {
	if _, err := os.Stat(h.path("/sys/module/" + strings.ReplaceAll(module, "-", "_"))); err == nil {
		return nil
	}
	if h.Load != nil {
		return h.Load(ctx, module)
	}
	out, err := command.Run(exec.CommandContext(ctx, "modprobe", "--", module))
	if err == nil && out.Code != 0 {
		err = errors.New(strings.TrimSpace(string(out.Text)))
	}
	return err
}

// set writes a parameter that has another value.
func (h Host) set(path, value string) error {
	now, err := os.ReadFile(h.parameter(path))
	if err == nil && slices.Equal(strings.Fields(string(now)), strings.Fields(value)) {
		return nil // also where it cannot be written, as in a container
	}
	f, err := os.OpenFile(h.parameter(path), os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value + "\n")
	return errors.Join(err, f.Close())
}

// Restore sets parameters back to values that [Host.Values] read, and removes every file that a plan for one of
// the machines may have written. What is gone already is no error.
func (h Host) Restore(ctx context.Context, values map[string]string, machines ...string) error {
	var errs []error
	for _, path := range render.HostPaths(machines...) {
		errs = append(errs, tree.Remove(h.path(strings.TrimSuffix(path, "/"))))
	}
	for path, value := range values {
		if err := h.set(path, value); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("restore sysctl %s: %w", path, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return h.reload(ctx)
}
