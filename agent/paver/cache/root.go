package cache

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"nstance.dev/agent/durable"
	"nstance.dev/agent/paver/digest"
	"nstance.dev/agent/paver/tree"
)

const (
	sealFile = "sealed.json"
	treeDir  = "rootfs"
)

// Seal is the marker of a root that is complete.
type Seal struct {
	V       int               `json:"v"`
	Key     digest.Digest     `json:"-"`       // that it was made for
	Entries int64             `json:"entries"` // names in the tree
	Bytes   int64             `json:"bytes"`   // on the disk
	Notes   map[string]string `json:"notes,omitempty"`
}

// Root is a sealed root in use: it is not removed until it is closed. Its tree must not be
// changed.
type Root struct {
	Seal
	c     *Cache
	close sync.Once
}

// Path is the root file system.
func (r *Root) Path() string { return r.c.path(r.c.root(r.Key), treeDir) }

// Close ends the use.
func (r *Root) Close() { r.close.Do(func() { r.c.unpin(r.c.root(r.Key)) }) }

// Note adds a note to the seal, for good.
func (r *Root) Note(key, value string) error {
	seal := r.Seal
	seal.Notes = map[string]string{key: value}
	for k, v := range r.Notes {
		if k != key {
			seal.Notes[k] = v
		}
	}
	if err := r.c.writeSeal(seal); err != nil {
		return err
	}
	r.Seal = seal
	return nil
}

func (c *Cache) root(key digest.Digest) string { return filepath.Join(rootsDir, key.Hex()) }

// Root returns the root of the key. If the cache does not have it, build makes it in the
// empty directory that it is called with, and returns notes about it; it is sealed when
// build has returned nil. Call [Cache.Trim] before, with what the root may take.
func (c *Cache) Root(ctx context.Context, key digest.Digest, build func(ctx context.Context, dir string) (map[string]string, error)) (*Root, error) {
	name := c.root(key)
	unlock, err := c.busy.lock(ctx, name)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if r := c.findRoot(key); r != nil {
		return r, nil
	}
	seal, err := c.build(ctx, key, build)
	if err != nil {
		// What is left has no seal: it is garbage now or at the next start.
		return nil, errors.Join(err, tree.Remove(c.path(name)))
	}
	c.add(name, seal.Bytes, 1)
	return &Root{Seal: seal, c: c}, nil
}

// FindRoot returns the root of the key, or nil if the cache does not have it.
func (c *Cache) FindRoot(ctx context.Context, key digest.Digest) (*Root, error) {
	unlock, err := c.busy.lock(ctx, c.root(key))
	if err != nil {
		return nil, err
	}
	defer unlock()
	return c.findRoot(key), nil
}

// RootSize returns what the root of the key takes on the disk; false: the cache does not have it, or it is being made.
func (c *Cache) RootSize(key digest.Digest) (int64, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	it, is := c.items[c.root(key)]
	if !is {
		return 0, false
	}
	return it.size, true
}

func (c *Cache) findRoot(key digest.Digest) *Root {
	name := c.root(key)
	if !c.pin(name) {
		return nil
	}
	seal, _, err := c.readSeal(key.Hex())
	if err == nil {
		return &Root{Seal: seal, c: c}
	}
	c.forget(name) // it was changed by hand
	return nil
}

func (c *Cache) build(ctx context.Context, key digest.Digest, build func(context.Context, string) (map[string]string, error)) (Seal, error) {
	top := c.path(c.root(key))
	dir := filepath.Join(top, treeDir)
	if err := tree.Remove(top); err != nil { // of a build that failed
		return Seal{}, err
	}
	if err := os.Mkdir(top, 0o700); err != nil {
		return Seal{}, fmt.Errorf("make root: %w", err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return Seal{}, fmt.Errorf("make root: %w", err)
	}
	notes, err := build(ctx, dir)
	if err != nil {
		return Seal{}, err
	}
	usage, err := tree.Measure(ctx, dir)
	if err != nil {
		return Seal{}, fmt.Errorf("measure root: %w", err)
	}
	seal := Seal{V: 1, Key: key, Entries: usage.Entries, Bytes: usage.Bytes, Notes: notes}
	if err := c.seal(seal, dir); err != nil {
		return Seal{}, fmt.Errorf("seal root: %w", err)
	}
	return seal, nil
}

// seal makes everything durable, the marker last.
func (c *Cache) seal(seal Seal, dir string) error {
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"sync root", func() error { return syncFS(dir) }},
		{"write seal", func() error { return c.writeSeal(seal) }},
		{"sync roots", func() error { return durable.SyncDir(c.path(rootsDir)) }},
	} {
		if err := c.opts.before(step.name); err != nil {
			return err
		}
		if err := step.do(); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cache) writeSeal(seal Seal) error {
	data, err := json.Marshal(seal)
	if err != nil {
		return fmt.Errorf("write seal: %w", err)
	}
	return durable.WriteFile(c.path(c.root(seal.Key), sealFile), data, 0o600)
}

// readSeal reads the seal of the root whose directory is called name, and when the root was
// last used.
func (c *Cache) readSeal(name string) (seal Seal, used time.Time, err error) {
	key, err := digest.Parse("sha256:" + name)
	if err != nil {
		return seal, used, errors.New("is no root")
	}
	path := c.path(rootsDir, name, sealFile)
	data, err := os.ReadFile(path)
	if isAbsent(err) {
		return seal, used, errors.New("it was not completed")
	}
	if err != nil {
		return seal, used, err
	}
	if err := json.Unmarshal(data, &seal); err != nil || seal.V != 1 {
		return seal, used, errors.New("its seal cannot be read")
	}
	seal.Key = key
	info, err := os.Stat(path)
	if err != nil {
		return seal, used, err
	}
	if _, err := os.Lstat(c.path(rootsDir, name, treeDir)); err != nil {
		return seal, used, errors.New("its tree does not exist")
	}
	return seal, info.ModTime(), nil
}

// syncFS writes everything that a file system still has in memory.
func syncFS(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return os.NewSyscallError("syncfs", unix.Syncfs(int(d.Fd())))
}
