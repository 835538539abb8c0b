package tree

import (
	"context"
	"os"

	"golang.org/x/sys/unix"
)

// Usage is how much a tree holds.
type Usage struct {
	Entries int64 // names, that of the tree itself not included
	Bytes   int64 // allocated on the disk; content that has several names counts once
}

// Measure counts the tree at path.
func Measure(ctx context.Context, path string) (Usage, error) {
	dir, err := openTop(path)
	if err != nil {
		return Usage{}, err
	}
	defer dir.Close()
	m := measuring{ctx: ctx, seen: map[uint64]struct{}{}}
	err = m.within(dir)
	return m.usage, err
}

type measuring struct {
	ctx   context.Context //nolint:containedctx // of one call of Measure
	usage Usage
	seen  map[uint64]struct{} // inodes with several names
}

func (m *measuring) within(dir *os.File) error {
	if err := context.Cause(m.ctx); err != nil {
		return err
	}
	return EachName(dir, func(name string) error {
		st, err := lstat(dir, name)
		if err != nil {
			return err
		}
		m.usage.Entries++
		if isDir(st) {
			m.usage.Bytes += st.Blocks * 512
			return m.below(dir, name)
		}
		if st.Nlink > 1 {
			if _, ok := m.seen[st.Ino]; ok {
				return nil
			}
			m.seen[st.Ino] = struct{}{}
		}
		m.usage.Bytes += st.Blocks * 512
		return nil
	})
}

func (m *measuring) below(parent *os.File, name string) error {
	dir, err := open(parent, name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer dir.Close()
	return m.within(dir)
}
