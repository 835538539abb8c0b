package extract

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Layer unpacks a layer of a container image over what the tree holds: its whiteouts remove
// what earlier layers have brought. r is the tar archive, decompressed.
func (t *Tree) Layer(ctx context.Context, r io.Reader) error {
	return t.unpack(ctx, r, &layer{tree: t, whiteouts: true, touched: map[uint64]struct{}{}})
}

// Archive unpacks a tar archive over what the tree holds. r is decompressed.
func (t *Tree) Archive(ctx context.Context, r io.Reader) error {
	return t.unpack(ctx, r, &layer{tree: t})
}

// layer is one archive that is being unpacked.
type layer struct {
	tree      *Tree
	whiteouts bool
	parent    directory // of the latest entry
	// touched holds a hash of each name that this layer has brought, with its directory: a
	// whiteout does not reach them.
	touched map[uint64]struct{}
	times   dirTimes
}

func (t *Tree) unpack(ctx context.Context, r io.Reader, l *layer) error {
	defer l.leave()
	if err := t.read(ctx, r, l.entry); err != nil {
		return err
	}
	return l.times.set(t)
}

// directory is an open directory of the tree.
type directory struct {
	file *os.File // nil: none
	path string   // as it was asked for
	ino  uint64
}

func (d *directory) close() {
	if d.file != nil {
		_ = d.file.Close() // opened as a path
	}
	*d = directory{}
}

func (d *directory) fd() int { return int(d.file.Fd()) }

// enter makes the directory with the given parts the parent of what comes next. It makes
// what is missing of it.
func (l *layer) enter(parts []string) error {
	path := strings.Join(parts, "/")
	if l.parent.file != nil && l.parent.path == path {
		return nil
	}
	file, err := l.openDir(parts)
	if err != nil {
		return err
	}
	l.parent.close()
	l.parent = directory{file: file, path: path}
	var st unix.Stat_t
	if err := unix.Fstat(l.parent.fd(), &st); err != nil {
		return &os.PathError{Op: "stat", Path: path, Err: err}
	}
	l.parent.ino = st.Ino
	return nil
}

// leave closes the parent. It is called when a directory or a link may have gone that the
// path to it led through.
func (l *layer) leave() { l.parent.close() }

func (l *layer) openDir(parts []string) (*os.File, error) {
	path := strings.Join(parts, "/")
	file, err := l.tree.resolve(path)
	if !errors.Is(err, unix.ENOENT) || len(parts) == 0 {
		return file, err
	}
	last := len(parts) - 1
	parent, err := l.openDir(parts[:last])
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	if err := l.makeParent(parent, parts[last]); err != nil {
		return nil, err
	}
	return l.tree.resolve(path)
}

// makeParent makes a directory that an archive needs and does not name itself.
func (l *layer) makeParent(parent *os.File, name string) error {
	err := unix.Mkdirat(int(parent.Fd()), name, 0o755)
	if errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("%w: %q is a symbolic link that leads nowhere", ErrRefused, name)
	}
	if err != nil {
		return &os.PathError{Op: "make directory", Path: name, Err: err}
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(parent.Fd()), &st); err != nil {
		return &os.PathError{Op: "stat", Path: name, Err: err}
	}
	l.touch(st.Ino, name)
	// The process's mask has no say in what a tree looks like.
	if err := unix.Fchmodat(int(parent.Fd()), name, 0o755, 0); err != nil {
		return &os.PathError{Op: "chmod", Path: name, Err: err}
	}
	return nil
}

// touch remembers that this layer has brought name in the directory with inode dir.
func (l *layer) touch(dir uint64, name string) {
	if l.touched != nil {
		l.touched[l.tree.key(dir, name)] = struct{}{}
	}
}

func (l *layer) isTouched(dir uint64, name string) bool {
	_, ok := l.touched[l.tree.key(dir, name)]
	return ok
}

func (t *Tree) key(dir uint64, name string) uint64 {
	return maphash.Comparable(t.seed, struct {
		dir  uint64
		name string
	}{dir, name})
}
