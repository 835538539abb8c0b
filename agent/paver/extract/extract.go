package extract

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrRefused is matched by errors about what an archive holds, as opposed to those of the
// file system or of the reader.
var ErrRefused = errors.New("refused")

// ErrNoSpace is matched by the error about a file system that has too little room.
var ErrNoSpace = errors.New("not enough free space on the file system")

// Limits bound what a tree may hold. Zero fields take the defaults.
type Limits struct {
	Bytes   int64 // of files' content, replaced files included; 20 GiB
	Entries int64 // replaced ones included; 2,000,000
	MinFree int64 // bytes that the file system has to have free all the time; none
}

// WithDefaults returns the limits without zero ones.
func (l Limits) WithDefaults() Limits {
	if l.Bytes == 0 {
		l.Bytes = 20 << 30
	}
	if l.Entries == 0 {
		l.Entries = 2_000_000
	}
	return l
}

// Usage is what was unpacked, replaced entries included.
type Usage struct {
	Bytes   int64
	Entries int64
}

// Tree is a directory that archives are unpacked into, one after another. It is used by one
// goroutine at a time, and nobody else writes to the directory meanwhile.
type Tree struct {
	root   *os.File
	base   int // length of its own path
	limits Limits
	used   Usage
	// unchecked is how many bytes were written since free space was last looked at.
	unchecked int64
	seed      maphash.Seed
	buffer    []byte
}

// Open opens the directory dir, which must exist, as a tree.
func Open(dir string, limits Limits) (*Tree, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	root := os.NewFile(uintptr(fd), dir)
	path, err := pathOf(root)
	if err != nil {
		_ = root.Close() // nothing was read from it
		return nil, err
	}
	return &Tree{
		root: root, base: len(path), limits: limits.WithDefaults(),
		seed: maphash.MakeSeed(), buffer: make([]byte, chunk),
	}, nil
}

// Close closes the directory.
func (t *Tree) Close() { _ = t.root.Close() } // nothing was written through its descriptor

// Usage is what all calls so far have unpacked.
func (t *Tree) Usage() Usage { return t.used }

// read calls each for the entries of an archive.
func (t *Tree) read(ctx context.Context, r io.Reader, each func(*tar.Header, io.Reader) error) error {
	archive := tar.NewReader(&cancellable{ctx, r})
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil && !errors.Is(err, tar.ErrInsecurePath) { // names are looked at below
			return readError(ctx, err)
		}
		if header.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		if err := t.count(header); err != nil {
			return err
		}
		if err := each(header, archive); err != nil {
			return fmt.Errorf("unpack %.200q: %w", header.Name, err)
		}
	}
}

// readError says what is wrong with an archive that cannot be read on.
func readError(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if errors.Is(err, tar.ErrHeader) {
		return fmt.Errorf("read archive: %w: %w", ErrRefused, err)
	}
	return fmt.Errorf("read archive: %w", err)
}

// entriesBetweenChecks bounds how many entries are made before free space is looked at.
const entriesBetweenChecks = 4096

// count takes an entry into account before it is made.
func (t *Tree) count(header *tar.Header) error {
	t.used.Entries++
	if t.used.Entries > t.limits.Entries {
		return fmt.Errorf("%w: the archive has more than %d entries", ErrRefused, t.limits.Entries)
	}
	if header.Size < 0 || header.Size > t.limits.Bytes-t.used.Bytes {
		return fmt.Errorf("%w: the archive holds more than %d bytes", ErrRefused, t.limits.Bytes)
	}
	t.used.Bytes += header.Size
	if t.used.Entries%entriesBetweenChecks == 1 {
		return t.checkSpace()
	}
	return nil
}

// checkSpace keeps the last bytes and inodes of the file system for what else runs on it.
func (t *Tree) checkSpace() error {
	t.unchecked = 0
	if t.limits.MinFree == 0 {
		return nil
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(t.root.Fd()), &fs); err != nil {
		return fmt.Errorf("look at free space: %w", err)
	}
	free := int64(fs.Bavail) * fs.Bsize
	if free < t.limits.MinFree || fs.Files > 0 && fs.Ffree < entriesBetweenChecks {
		return fmt.Errorf("%w: %d bytes and %d inodes are left, %d bytes have to remain", ErrNoSpace, free, fs.Ffree, t.limits.MinFree)
	}
	return nil
}

// cancellable ends with a context.
type cancellable struct {
	ctx context.Context //nolint:containedctx // of one call
	r   io.Reader
}

func (c *cancellable) Read(p []byte) (int, error) {
	if err := context.Cause(c.ctx); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

const (
	maxPath = 3000 // bytes of a path within a tree: with what stands before it tools can still name it
	maxName = 255
)

// clean returns the parts of a name in an archive. Names are relative to the tree, with a
// slash before them or without; none are left for the tree itself.
func clean(name string) ([]string, error) {
	if len(name) > maxPath {
		return nil, fmt.Errorf("%w: the name has more than %d bytes", ErrRefused, maxPath)
	}
	if strings.Contains(name, "\x00") {
		return nil, fmt.Errorf("%w: the name contains a zero byte", ErrRefused)
	}
	var parts []string
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "" || part == ".":
		case part == "..":
			return nil, fmt.Errorf(`%w: the name contains ".."`, ErrRefused)
		case len(part) > maxName:
			return nil, fmt.Errorf("%w: a part of the name has more than %d bytes", ErrRefused, maxName)
		default:
			parts = append(parts, part)
		}
	}
	return parts, nil
}
