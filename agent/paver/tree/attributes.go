package tree

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// finishOpen gives to, which is the entry name of parent, the attributes of from: owner,
// permissions, extended attributes and times, in this order. A change of the owner takes file
// capabilities and set-id bits away, and a change of the permissions would change an ACL.
func finishOpen(from, to, parent *os.File, name string, st unix.Stat_t) error {
	fail := func(what string, err error) error {
		return fmt.Errorf("%s of %s: %w", what, where(parent, name), err)
	}
	fd := int(to.Fd())
	if err := unix.Fchown(fd, int(st.Uid), int(st.Gid)); err != nil {
		return fail("owner", err)
	}
	if err := unix.Fchmod(fd, st.Mode&0o7777); err != nil {
		return fail("permissions", err)
	}
	err := copyAttributes(
		func(list []byte) (int, error) { return unix.Flistxattr(int(from.Fd()), list) },
		func(key string, value []byte) (int, error) { return unix.Fgetxattr(int(from.Fd()), key, value) },
		func(key string, value []byte) error { return unix.Fsetxattr(fd, key, value, 0) })
	if err != nil {
		return fail("extended attributes", err)
	}
	return setTimes(parent, name, st)
}

// finishPath is finishOpen for what cannot be opened: links, device nodes, pipes.
func finishPath(source, target *os.File, name string, st unix.Stat_t) error {
	fail := func(what string, err error) error {
		return fmt.Errorf("%s of %s: %w", what, where(target, name), err)
	}
	if err := unix.Fchownat(int(target.Fd()), name, int(st.Uid), int(st.Gid), unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fail("owner", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFLNK {
		// It was made a moment ago and is no link.
		if err := unix.Fchmodat(int(target.Fd()), name, st.Mode&0o7777, 0); err != nil {
			return fail("permissions", err)
		}
	}
	from, to := throughProc(source, name), throughProc(target, name)
	err := copyAttributes(
		func(list []byte) (int, error) { return unix.Llistxattr(from, list) },
		func(key string, value []byte) (int, error) { return unix.Lgetxattr(from, key, value) },
		func(key string, value []byte) error { return unix.Lsetxattr(to, key, value, 0) })
	if err != nil {
		return fail("extended attributes", err)
	}
	return setTimes(target, name, st)
}

// throughProc is a path to an entry of an open directory, for calls that take paths alone.
func throughProc(dir *os.File, name string) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), name)
}

// mostAttributes is as many bytes as the kernel keeps of one list or value.
const mostAttributes = 64 << 10

func copyAttributes(list func([]byte) (int, error), get func(string, []byte) (int, error), set func(string, []byte) error) error {
	n, err := list(nil)
	if errors.Is(err, unix.EOPNOTSUPP) || err == nil && n == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	buffer := make([]byte, mostAttributes)
	if n, err = list(buffer); err != nil {
		return err
	}
	value := make([]byte, mostAttributes)
	for key := range strings.SplitSeq(strings.TrimSuffix(string(buffer[:n]), "\x00"), "\x00") {
		n, err := get(key, value)
		if err != nil {
			return fmt.Errorf("%q: %w", key, err)
		}
		if err := set(key, value[:n]); err != nil {
			return fmt.Errorf("%q: %w", key, err)
		}
	}
	return nil
}

// setTimes is the last of all: every other change of an entry moves its time.
func setTimes(parent *os.File, name string, st unix.Stat_t) error {
	times := []unix.Timespec{st.Atim, st.Mtim}
	if err := unix.UtimesNanoAt(int(parent.Fd()), name, times, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return &os.PathError{Op: "set times", Path: where(parent, name), Err: err}
	}
	return nil
}
