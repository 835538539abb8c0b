package cache

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"nstance.dev/agent/durable"
	"nstance.dev/agent/paver/digest"
)

// Blob is a complete blob in use: it is not removed until it is closed.
type Blob struct {
	c      *Cache
	digest digest.Digest
	size   int64
	close  sync.Once
}

// Digest is the blob's name.
func (b *Blob) Digest() digest.Digest { return b.digest }

// Size is the number of its bytes.
func (b *Blob) Size() int64 { return b.size }

// Close ends the use.
func (b *Blob) Close() { b.close.Do(func() { b.c.unpin(b.c.blob(b.digest)) }) }

// Open reads the blob. At its end the reader returns an error that matches
// [digest.ErrMismatch] if the content went bad on the disk.
func (b *Blob) Open() (io.ReadCloser, error) {
	file, err := os.Open(b.c.path(b.c.blob(b.digest)))
	if err != nil {
		return nil, fmt.Errorf("open blob: %w", err)
	}
	return closeAfter{digest.Verify(bufio.NewReaderSize(file, 256<<10), b.digest), file}, nil
}

// Discard removes the blob, whose content went bad. It is fetched again when it is asked for.
func (b *Blob) Discard() error {
	name := b.c.blob(b.digest)
	b.c.forget(name)
	return b.c.discard(name, "its content is not what its digest says")
}

func (c *Cache) blob(d digest.Digest) string { return filepath.Join(blobsDir, d.Hex()) }

// Blob returns the blob of the digest. If it is not in the cache, fill completes the file
// that it is called with, which is open for reading and writing and holds what an earlier
// call may have left; it returns nil only when the file holds the digest's content. size is
// that of the content if it is known, else negative, and room for it is made before.
func (c *Cache) Blob(ctx context.Context, d digest.Digest, size int64, fill func(context.Context, *os.File) error) (*Blob, error) {
	name := c.blob(d)
	unlock, err := c.busy.lock(ctx, name)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if b, err := c.FindBlob(d); b != nil || err != nil {
		return b, err
	}
	if err := c.Trim(ctx, max(size, 0)); err != nil {
		return nil, err
	}
	// A part that is being completed does not count as something that may go.
	c.forget(name + part)
	info, err := c.complete(ctx, name, fill)
	if err != nil {
		if info != nil {
			c.add(name+part, allocated(info), 0)
		}
		return nil, err
	}
	c.add(name, allocated(info), 1)
	return &Blob{c: c, digest: d, size: info.Size()}, nil
}

// complete fills a blob's file and publishes it. With an error comes what it has left.
func (c *Cache) complete(ctx context.Context, name string, fill func(context.Context, *os.File) error) (fs.FileInfo, error) {
	file, err := os.OpenFile(c.path(name+part), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("keep blob: %w", err)
	}
	defer file.Close()
	filled := fill(ctx, file)
	info, err := file.Stat()
	if err = errors.Join(filled, err); err != nil {
		return info, err
	}
	if err := c.publish(name, file); err != nil {
		return info, fmt.Errorf("keep blob: %w", err)
	}
	return info, nil
}

// publish gives a complete file its name.
func (c *Cache) publish(name string, file *os.File) error {
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"sync blob", file.Sync},
		{"rename blob", func() error { return os.Rename(c.path(name+part), c.path(name)) }},
		{"sync blobs", func() error { return durable.SyncDir(c.path(blobsDir)) }},
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

// FindBlob returns the blob of the digest, or nil if the cache does not have all of it.
func (c *Cache) FindBlob(d digest.Digest) (*Blob, error) {
	name := c.blob(d)
	if !c.pin(name) {
		return nil, nil
	}
	info, err := os.Stat(c.path(name))
	if err != nil {
		c.forget(name)
		if isAbsent(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("open blob: %w", err)
	}
	return &Blob{c: c, digest: d, size: info.Size()}, nil
}

// allocated is what a file takes on the disk.
func allocated(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Blocks * 512
	}
	return info.Size()
}
