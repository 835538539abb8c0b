package extract

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"nstance.dev/agent/paver/tree"
)

// entry makes what header describes.
func (l *layer) entry(header *tar.Header, content io.Reader) error {
	parts, err := clean(header.Name)
	if err != nil {
		return err
	}
	if err := checkOwner(header); err != nil {
		return err
	}
	if len(parts) == 0 {
		return l.top(header)
	}
	last := len(parts) - 1
	name := parts[last]
	if strings.HasPrefix(name, whiteoutPrefix) && l.whiteouts {
		return l.whiteout(parts[:last], name)
	}
	if err := l.enter(parts[:last]); err != nil {
		return err
	}
	if err := l.make(header, name, content); err != nil {
		return err
	}
	l.touch(l.parent.ino, name)
	return nil
}

// make makes the entry name of the parent.
func (l *layer) make(header *tar.Header, name string, content io.Reader) error {
	switch header.Typeflag {
	case tar.TypeDir:
		return l.dir(header, name)
	case tar.TypeReg, tar.TypeCont, tar.TypeGNUSparse:
		return l.file(header, name, content)
	case tar.TypeSymlink:
		return l.symlink(header, name)
	case tar.TypeLink:
		return l.link(header, name)
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		return l.node(header, name)
	}
	return fmt.Errorf("%w: entries of type %q are unknown", ErrRefused, header.Typeflag)
}

// top gives the tree itself the attributes that an archive has for it.
func (l *layer) top(header *tar.Header) error {
	if header.Typeflag != tar.TypeDir {
		return fmt.Errorf("%w: the root of the tree must be a directory", ErrRefused)
	}
	if err := setAttributes(l.tree.root, header); err != nil {
		return err
	}
	return l.times.add("", header.ModTime)
}

func (l *layer) dir(header *tar.Header, name string) error {
	err := unix.Mkdirat(l.parent.fd(), name, 0o700)
	if errors.Is(err, unix.EEXIST) {
		err = l.replaceByDir(name)
	}
	if err != nil {
		return &os.PathError{Op: "make directory", Path: name, Err: err}
	}
	dir, err := l.openEntry(name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := setAttributes(dir, header); err != nil {
		return err
	}
	return l.times.add(strings.TrimPrefix(l.parent.path+"/"+name, "/"), header.ModTime)
}

// replaceByDir makes name a directory; one that it is already is kept with its content.
func (l *layer) replaceByDir(name string) error {
	var st unix.Stat_t
	if err := unix.Fstatat(l.parent.fd(), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return nil
	}
	return l.replace(name, func() error { return unix.Mkdirat(l.parent.fd(), name, 0o700) })
}

// replace calls create, and once more without what has the name if something has it.
func (l *layer) replace(name string, create func() error) error {
	err := create()
	if !errors.Is(err, unix.EEXIST) {
		return err
	}
	if err := tree.RemoveAt(l.parent.file, name); err != nil {
		return err
	}
	return create()
}

func (l *layer) file(header *tar.Header, name string, content io.Reader) error {
	file, err := l.newFile(name)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := l.tree.fill(file, header.Size, content); err != nil {
		return err
	}
	if err := setAttributes(file, header); err != nil {
		return err
	}
	return setTime(l.parent.file, name, header.ModTime)
}

// newFile creates the regular file name in the parent, whatever has that name.
func (l *layer) newFile(name string) (*os.File, error) {
	fd := -1
	err := l.replace(name, func() (err error) {
		fd, err = unix.Openat(l.parent.fd(), name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		return err
	})
	if err != nil {
		return nil, &os.PathError{Op: "create", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

func (l *layer) symlink(header *tar.Header, name string) error {
	target := header.Linkname
	if target == "" || len(target) >= unix.PathMax || strings.Contains(target, "\x00") {
		return fmt.Errorf("%w: the target of the symbolic link is empty, too long or contains a zero byte", ErrRefused)
	}
	err := l.replace(name, func() error { return unix.Symlinkat(target, l.parent.fd(), name) })
	if err != nil {
		return &os.PathError{Op: "make link", Path: name, Err: err}
	}
	return setPathAttributes(l.parent.file, header, name)
}

// link gives a second name to a file that the tree holds.
func (l *layer) link(header *tar.Header, name string) error {
	target, err := clean(header.Linkname)
	if err == nil && len(target) == 0 {
		err = ErrRefused
	}
	if err != nil {
		return fmt.Errorf("target of the hard link: %w", err)
	}
	last := len(target) - 1
	from, err := l.tree.resolve(strings.Join(target[:last], "/"))
	if err != nil {
		return fmt.Errorf("target of the hard link: %w", refuseAbsent(err))
	}
	defer from.Close()
	var st, own unix.Stat_t
	if err := unix.Fstatat(int(from.Fd()), target[last], &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("target of the hard link: %w", refuseAbsent(err))
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return fmt.Errorf("%w: the target of the hard link is a directory", ErrRefused)
	}
	if err := unix.Fstatat(l.parent.fd(), name, &own, unix.AT_SYMLINK_NOFOLLOW); err == nil && own.Ino == st.Ino {
		return nil // it is the same file already
	}
	err = l.replace(name, func() error { return unix.Linkat(int(from.Fd()), target[last], l.parent.fd(), name, 0) })
	if err != nil {
		return &os.LinkError{Op: "link", Old: header.Linkname, New: name, Err: refuseAbsent(err)}
	}
	return nil
}

// refuseAbsent says of an archive that refers to what does not exist that it is refused.
func refuseAbsent(err error) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EPERM) {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return err
}

// Devices are the device nodes that are unpacked: character devices that every process may
// use. Each is {major, minor}.
var Devices = [][2]int64{{1, 3}, {1, 5}, {1, 7}, {1, 8}, {1, 9}, {5, 0}, {5, 1}, {5, 2}}

func isHarmless(header *tar.Header) bool {
	for _, d := range Devices {
		if header.Typeflag == tar.TypeChar && d[0] == header.Devmajor && d[1] == header.Devminor {
			return true
		}
	}
	return false
}

func (l *layer) node(header *tar.Header, name string) error {
	mode, device := uint32(unix.S_IFIFO), 0
	if header.Typeflag != tar.TypeFifo {
		if !isHarmless(header) {
			return fmt.Errorf("%w: the device node %d:%d; only those of null, zero, full, random, urandom, tty, console and ptmx are allowed",
				ErrRefused, header.Devmajor, header.Devminor)
		}
		mode, device = unix.S_IFCHR, int(unix.Mkdev(uint32(header.Devmajor), uint32(header.Devminor)))
	}
	err := l.replace(name, func() error { return unix.Mknodat(l.parent.fd(), name, mode|0o600, device) })
	if err != nil {
		return &os.PathError{Op: "make node", Path: name, Err: err}
	}
	return setPathAttributes(l.parent.file, header, name)
}

// openEntry opens what was made as name in the parent.
func (l *layer) openEntry(name string, flags int) (*os.File, error) {
	fd, err := unix.Openat(l.parent.fd(), name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// checkOwner refuses the owners that mean "no change" to the kernel.
func checkOwner(header *tar.Header) error {
	for _, id := range []int{header.Uid, header.Gid} {
		if id < 0 || int64(id) >= math.MaxUint32 {
			return fmt.Errorf("%w: the owner %d", ErrRefused, id)
		}
	}
	return nil
}
