package cache

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"nstance.dev/agent/durable"
	"nstance.dev/agent/paver/tree"
)

// Trim removes what was used least recently until the cache is within its limit and the file
// system has room for another need bytes and what should remain free. If it has not even then,
// the error matches [ErrNoSpace].
func (c *Cache) Trim(ctx context.Context, need int64) error {
	for {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		disk, err := c.space()
		if err != nil {
			return err
		}
		gone, err := c.evict(disk, need)
		if err != nil {
			return fmt.Errorf("trim cache: %w", err)
		}
		if gone == "" {
			return c.enough(disk, need)
		}
		if err := tree.Remove(gone); err != nil {
			return fmt.Errorf("trim cache: %w", err)
		}
	}
}

// Clear removes everything that is not in use.
func (c *Cache) Clear() error {
	for {
		gone, err := c.evictAny()
		if err != nil || gone == "" {
			return err
		}
		if err := tree.Remove(gone); err != nil {
			return fmt.Errorf("clear cache: %w", err)
		}
	}
}

func (c *Cache) evictAny() (gone string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, it := range c.items {
		if it.pins == 0 {
			c.opts.Log.Info("evicting from the cache", "path", name, "reason", "the cache is cleared")
			delete(c.items, name)
			return c.detach(name)
		}
	}
	return "", nil
}

// space is that of a file system.
type space struct{ whole, free int64 }

func (c *Cache) space() (space, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(c.dir, &fs); err != nil {
		return space{}, fmt.Errorf("look at free space: %w", err)
	}
	return space{whole: int64(fs.Blocks) * fs.Bsize, free: int64(fs.Bavail) * fs.Bsize}, nil
}

func (c *Cache) enough(disk space, need int64) error {
	if disk.free-need >= c.opts.MinFree {
		return nil
	}
	return fmt.Errorf("%w of %s: %d bytes are free, %d are needed and %d have to remain; remove something, or enlarge it",
		ErrNoSpace, c.dir, disk.free, need, c.opts.MinFree)
}

// evict takes the next item that has to go out of the cache. What it returns is the path of
// what is to be removed; empty if nothing has to go, or nothing may.
func (c *Cache) evict(disk space, need int64) (gone string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var total int64
	var free []string
	for name, it := range c.items {
		total += it.size
		if it.pins == 0 {
			free = append(free, name)
		}
	}
	limit := min(c.opts.MaxBytes, disk.whole/100*int64(c.opts.MaxShare))
	reason := excess(total+need, limit, disk.free-need, c.opts.MinFree)
	if reason == "" || len(free) == 0 {
		return "", nil
	}
	name := slices.MinFunc(free, func(a, b string) int {
		return cmp.Or(c.items[a].used.Compare(c.items[b].used), cmp.Compare(a, b))
	})
	c.opts.Log.Info("evicting from the cache", "path", name, "reason", reason)
	delete(c.items, name)
	return c.detach(name)
}

// excess says why something has to go; empty: nothing has to.
func excess(total, limit, free, minFree int64) string {
	switch {
	case total > limit:
		return fmt.Sprintf("the cache takes %d bytes with what is needed, its limit is %d", total, limit)
	case free < minFree:
		return fmt.Sprintf("the file system would have %d bytes free, %d should remain", free, minFree)
	}
	return ""
}

// detach takes an item's name away, so that another one of the name can be made while it is
// removed. The seal of a root goes first: a crash leaves garbage and not half a root.
func (c *Cache) detach(name string) (gone string, err error) {
	if strings.HasPrefix(name, rootsDir) {
		if err := c.opts.before("remove seal"); err != nil {
			return "", err
		}
		if err := durable.Remove(filepath.Join(c.path(name), sealFile)); err != nil && !isAbsent(err) {
			return "", err
		}
	}
	if err := c.opts.before("detach"); err != nil {
		return "", err
	}
	c.detached++
	gone = fmt.Sprintf("%s.gone-%d", c.path(name), c.detached)
	if err := os.Rename(c.path(name), gone); err != nil && !isAbsent(err) {
		return "", err
	}
	return gone, c.opts.before("remove")
}
