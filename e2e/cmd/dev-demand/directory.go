package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"nstance.dev/providers/local"
	"nstance.dev/providers/local/dev"
	"nstance.dev/server/cache"
	"nstance.dev/server/driver"
)

// directory is where everything is, while this process has it.
type directory struct {
	name, path string // as the user named it, and absolute
	bin        string
	unlock     func() error
}

func (d *directory) logs() string         { return filepath.Join(d.name, "logs") }
func (d *directory) shard() string        { return filepath.Join(d.path, "shard") }
func (d *directory) controls() string     { return filepath.Join(d.path, "kube") }
func (d *directory) kubeconfig() string   { return filepath.Join(d.path, "kubeconfig") }
func (d *directory) log(of string) string { return filepath.Join(d.path, "logs", of+".log") }
func (d *directory) machines() string     { return dev.Box{Dir: d.shard()}.Machines() }

// mark is the file by which a directory is known to be one of this program.
const mark = "dev-demand"

// take makes a directory this process's own, and empties it of what is left of an earlier one that
// was killed, whose machines end.
func take(name, bin string) (*directory, error) {
	path, err := filepath.Abs(name)
	if err != nil {
		return nil, err
	}
	d := &directory{name: name, path: path, bin: bin}
	there, err := os.ReadDir(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(path, mark)); len(there) > 0 && err != nil {
		return nil, fmt.Errorf("%s is not empty, and was not made by dev-demand: choose another directory with -dir", name)
	}
	if d.unlock, err = cache.LockDir(path); errors.Is(err, cache.ErrLocked) {
		return nil, fmt.Errorf("%s is %w: end that one, or choose another directory with -dir", name, cache.ErrLocked)
	} else if err != nil {
		return nil, err
	}
	if err := d.empty(); err != nil {
		return nil, errors.Join(err, d.unlock())
	}
	for _, dir := range []string{filepath.Join(path, "logs"), d.controls(), d.shard()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, errors.Join(err, d.unlock())
		}
	}
	return d, os.WriteFile(filepath.Join(path, mark), []byte("made by dev-demand, which removes this directory\n"), 0o600)
}

func (d *directory) empty() error {
	if err := d.halt(); err != nil {
		return fmt.Errorf("end the machines that are left in %s: %w", d.name, err)
	}
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == "lock" || e.Name() == mark {
			continue
		}
		if err := os.RemoveAll(filepath.Join(d.path, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// haltTimeout is how long machines may take to end.
const haltTimeout = 30 * time.Second

// halt ends the machines that are still there.
func (d *directory) halt() error {
	if _, err := os.Stat(d.machines()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	machines, err := local.New(local.Options{Dir: d.machines(), Agent: filepath.Join(d.bin, "nstance-agent"), Shard: dev.Shard})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), haltTimeout)
	defer cancel()
	return machines.Halt(ctx, driver.Owner{Cluster: dev.Cluster, Shard: dev.Shard})
}

// remove removes the directory.
func (d *directory) remove() error {
	return errors.Join(os.RemoveAll(d.path), d.unlock())
}
