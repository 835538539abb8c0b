package tree

import (
	"context"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// content gives to the content of from: shared if the file system can do that, else copied
// with the holes that it has.
func (c *copying) content(from, to *os.File, st unix.Stat_t) error {
	if st.Size == 0 {
		return nil
	}
	if !c.noClone {
		err := unix.IoctlFileClone(int(to.Fd()), int(from.Fd()))
		if err == nil {
			return nil
		}
		if !isUnsupported(err) {
			return os.NewSyscallError("share content", err)
		}
		c.noClone = true
	}
	if st.Blocks*512 >= st.Size {
		return c.extent(from, to, 0, st.Size)
	}
	return c.extents(from, to, st.Size)
}

// Shares says whether the file system can give files in the directory to the content of those in
// the tree from, so that a copy takes next to nothing. It leaves nothing behind.
func Shares(from, to string) bool {
	source, err := os.OpenFile(from, os.O_RDWR|unix.O_TMPFILE, 0o600)
	if err != nil {
		return false
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_RDWR|unix.O_TMPFILE, 0o600)
	if err != nil {
		return false
	}
	defer target.Close()
	if _, err := source.WriteString("shared"); err != nil {
		return false
	}
	return unix.IoctlFileClone(int(target.Fd()), int(source.Fd())) == nil
}

// extents copies what is no hole.
func (c *copying) extents(from, to *os.File, size int64) error {
	if err := to.Truncate(size); err != nil {
		return err
	}
	for at := int64(0); at < size; {
		begin, err := unix.Seek(int(from.Fd()), at, unix.SEEK_DATA)
		switch {
		case errors.Is(err, unix.ENXIO):
			return nil // holes up to the end
		case isUnsupported(err):
			return c.extent(from, to, at, size)
		case err != nil:
			return os.NewSyscallError("seek", err)
		}
		end, err := unix.Seek(int(from.Fd()), begin, unix.SEEK_HOLE)
		if err != nil {
			return os.NewSyscallError("seek", err)
		}
		if err := c.extent(from, to, begin, end); err != nil {
			return err
		}
		at = end
	}
	return nil
}

// atOnce bounds what is copied between two looks at the context.
const atOnce = 16 << 20

// extent copies the bytes from begin to end to the same place.
func (c *copying) extent(from, to *os.File, begin, end int64) error {
	in, out := begin, begin
	for in < end {
		if err := context.Cause(c.ctx); err != nil {
			return err
		}
		n, err := unix.CopyFileRange(int(from.Fd()), &in, int(to.Fd()), &out, int(min(end-in, atOnce)), 0)
		switch {
		case isUnsupported(err):
			return c.through(from, to, in, end)
		case err != nil:
			return os.NewSyscallError("copy_file_range", err)
		case n == 0:
			return io.ErrUnexpectedEOF
		}
	}
	return nil
}

// through copies by way of memory.
func (c *copying) through(from, to *os.File, begin, end int64) error {
	if c.buffer == nil {
		c.buffer = make([]byte, 1<<20)
	}
	for begin < end {
		if err := context.Cause(c.ctx); err != nil {
			return err
		}
		n, err := from.ReadAt(c.buffer[:min(end-begin, int64(len(c.buffer)))], begin)
		if n == 0 {
			return errors.Join(io.ErrUnexpectedEOF, err)
		}
		if _, err := to.WriteAt(c.buffer[:n], begin); err != nil {
			return err
		}
		begin += int64(n)
	}
	return nil
}

// isUnsupported is what file systems answer to a call that they have no way to carry out.
func isUnsupported(err error) bool {
	for _, e := range []error{unix.EOPNOTSUPP, unix.ENOTTY, unix.EINVAL, unix.EXDEV, unix.ENOSYS, unix.EPERM} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
