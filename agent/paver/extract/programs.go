package extract

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"strings"

	"golang.org/x/sys/unix"
)

// Programs unpacks the regular files of an archive for which place returns a path in the
// tree. The files belong to the process, have the permissions 0755 and no attributes;
// everything else that the archive holds is left out. Directories that are missing are made.
func (t *Tree) Programs(ctx context.Context, r io.Reader, place func(name string, executable bool) (path string, ok bool)) error {
	l := &layer{tree: t}
	defer l.leave()
	return t.read(ctx, r, func(header *tar.Header, content io.Reader) error {
		if header.Typeflag != tar.TypeReg {
			return nil
		}
		name, err := clean(header.Name)
		if err != nil {
			return err
		}
		path, ok := place(strings.Join(name, "/"), header.Mode&0o111 != 0)
		if !ok {
			return nil
		}
		return l.program(path, header.Size, content)
	})
}

// Program writes one program of size bytes to the path in the tree, as [Tree.Programs] does.
func (t *Tree) Program(ctx context.Context, path string, size int64, content io.Reader) error {
	l := &layer{tree: t}
	defer l.leave()
	if err := t.count(&tar.Header{Size: size}); err != nil {
		return err
	}
	if err := l.program(path, size, &cancellable{ctx, content}); err != nil {
		return fmt.Errorf("write %.200q: %w", path, err)
	}
	return nil
}

func (l *layer) program(path string, size int64, content io.Reader) error {
	parts, err := clean(path)
	if err == nil && len(parts) == 0 {
		err = fmt.Errorf("%w: a program without a name", ErrRefused)
	}
	if err != nil {
		return err
	}
	last := len(parts) - 1
	if err := l.enter(parts[:last]); err != nil {
		return err
	}
	file, err := l.newFile(parts[last])
	if err != nil {
		return err
	}
	defer file.Close()
	if err := l.tree.fill(file, size, content); err != nil {
		return err
	}
	if err := unix.Fchmod(int(file.Fd()), 0o755); err != nil {
		return fmt.Errorf("permissions: %w", err)
	}
	return nil
}
