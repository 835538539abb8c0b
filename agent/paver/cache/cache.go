package cache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"nstance.dev/agent/durable"
	"nstance.dev/agent/paver/digest"
	"nstance.dev/agent/paver/tree"
)

// Options are the settings of a Cache; zero fields take the defaults.
type Options struct {
	MaxBytes int64            // of blobs and roots together; 10 GiB
	MaxShare int              // percent of the file system that the cache may take; 30
	MinFree  int64            // bytes that the file system should have free; 2 GiB
	Now      func() time.Time // time.Now
	Log      *slog.Logger     // slog.Default

	// before is called before each step that a crash could follow; an error ends the
	// operation there and then. Tests set it.
	before func(step string) error
}

func (o Options) orDefault() Options {
	if o.MaxBytes == 0 {
		o.MaxBytes = 10 << 30
	}
	if o.MaxShare == 0 {
		o.MaxShare = 30
	}
	if o.MinFree == 0 {
		o.MinFree = 2 << 30
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.before == nil {
		o.before = func(string) error { return nil }
	}
	return o
}

// ErrNoSpace is matched by the error about a file system that has no room even without what
// could be removed from the cache.
var ErrNoSpace = errors.New("not enough free space on the file system")

const (
	blobsDir = "blobs"
	rootsDir = "roots"
	part     = ".part" // of the names of blobs that are not complete
)

// Cache is an open cache.
type Cache struct {
	dir  string
	opts Options
	busy keys // of blobs and roots that are being made

	mu    sync.Mutex
	items map[string]*item // by path below dir
	// detached counts what had to go, for names of what is being removed.
	detached int
}

// item is a blob or a root that is complete.
type item struct {
	size int64
	used time.Time
	pins int // of those that use it
}

// Open opens the cache in the directory dir, which it makes if it does not exist. It removes
// what a crash has left incomplete, and what is too much.
func Open(ctx context.Context, dir string, opts Options) (*Cache, error) {
	c := &Cache{dir: dir, opts: opts.orDefault(), items: map[string]*item{}}
	for _, d := range []string{dir, c.path(blobsDir), c.path(rootsDir)} {
		if err := durable.MakeDir(d, 0o700); err != nil {
			return nil, fmt.Errorf("open cache: %w", err)
		}
		// Others must not reach programs with set-id bits, whoever made the directory.
		if err := os.Chmod(d, 0o700); err != nil {
			return nil, fmt.Errorf("open cache: %w", err)
		}
	}
	if err := c.findBlobs(); err != nil {
		return nil, fmt.Errorf("open cache: %w", err)
	}
	if err := c.findRoots(ctx); err != nil {
		return nil, fmt.Errorf("open cache: %w", err)
	}
	if err := c.Trim(ctx, 0); err != nil && !errors.Is(err, ErrNoSpace) {
		return nil, fmt.Errorf("open cache: %w", err)
	}
	return c, nil
}

func (c *Cache) path(parts ...string) string {
	return filepath.Join(append([]string{c.dir}, parts...)...)
}

// findBlobs takes in the blobs on the disk. Anything else there but what a download has left
// is removed.
func (c *Cache) findBlobs() error {
	entries, err := os.ReadDir(c.path(blobsDir))
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := filepath.Join(blobsDir, e.Name())
		_, err := digest.Parse("sha256:" + strings.TrimSuffix(e.Name(), part))
		info, infoErr := e.Info()
		if infoErr != nil {
			return infoErr
		}
		if err != nil || !info.Mode().IsRegular() {
			if err := c.discard(name, "is no blob"); err != nil {
				return err
			}
			continue
		}
		c.items[name] = &item{size: allocated(info), used: info.ModTime()}
	}
	return nil
}

// findRoots takes in the sealed roots on the disk and removes the others.
func (c *Cache) findRoots(ctx context.Context) error {
	entries, err := os.ReadDir(c.path(rootsDir))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		name := filepath.Join(rootsDir, e.Name())
		seal, used, err := c.readSeal(e.Name())
		if err != nil {
			if err := c.discard(name, err.Error()); err != nil {
				return err
			}
			continue
		}
		c.items[name] = &item{size: seal.Bytes, used: used}
	}
	return nil
}

// discard removes what is not complete.
func (c *Cache) discard(name, reason string) error {
	c.opts.Log.Info("removing from the cache", "path", name, "reason", reason)
	return tree.Remove(c.path(name))
}

// pin marks the item as used and in use, if it exists.
func (c *Cache) pin(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	it, ok := c.items[name]
	if !ok {
		return false
	}
	it.pins++
	c.touch(name, it)
	return true
}

// touch notes the time of use, also on the disk. There it is a hint for the next process:
// that it could not be written, or is lost in a crash, costs nothing but a worse choice.
func (c *Cache) touch(name string, it *item) {
	it.used = c.opts.Now()
	stamp := c.path(name)
	if strings.HasPrefix(name, rootsDir) {
		stamp = filepath.Join(stamp, sealFile)
	}
	if err := os.Chtimes(stamp, it.used, it.used); err != nil {
		c.opts.Log.Debug("time of use of a cached item was not written", "path", name, "err", err)
	}
}

func (c *Cache) unpin(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if it, ok := c.items[name]; ok && it.pins > 0 {
		it.pins--
	}
}

// add takes in an item, in use by so many.
func (c *Cache) add(name string, size int64, pins int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	it := &item{size: size, pins: pins}
	c.items[name] = it
	c.touch(name, it)
}

// forget takes an item out of the books: it does not exist, or its maker looks after it.
func (c *Cache) forget(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.items, name)
}

// keys lets one caller at a time work on a key.
type keys struct {
	mu   sync.Mutex
	held map[string]chan struct{}
}

// lock waits until nobody works on the key. The result ends the caller's work.
func (k *keys) lock(ctx context.Context, key string) (unlock func(), err error) {
	for {
		k.mu.Lock()
		done, held := k.held[key]
		if !held {
			done = make(chan struct{})
			if k.held == nil {
				k.held = map[string]chan struct{}{}
			}
			k.held[key] = done
			k.mu.Unlock()
			return func() {
				k.mu.Lock()
				delete(k.held, key)
				k.mu.Unlock()
				close(done)
			}, nil
		}
		k.mu.Unlock()
		select {
		case <-done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// isAbsent says of an error that something does not exist.
func isAbsent(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// closeAfter reads from r and closes what it is read from.
type closeAfter struct {
	io.Reader
	io.Closer
}
