package extract

import (
	"archive/tar"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// attributePrefix stands before the names of extended attributes in an archive.
const attributePrefix = "SCHILY.xattr."

// kept says whether an extended attribute is unpacked.
func kept(name string) bool {
	switch name {
	case "security.capability", "system.posix_acl_access", "system.posix_acl_default":
		return true
	}
	return strings.HasPrefix(name, "user.")
}

// setAttributes sets owner, permissions and extended attributes, in this order: a change of
// the owner takes file capabilities and set-id bits away, and a change of the permissions
// would change an ACL.
func setAttributes(file *os.File, header *tar.Header) error {
	fd := int(file.Fd())
	if err := unix.Fchown(fd, header.Uid, header.Gid); err != nil {
		return fmt.Errorf("owner %d:%d: %w", header.Uid, header.Gid, err)
	}
	if err := unix.Fchmod(fd, uint32(header.Mode)&0o7777); err != nil {
		return fmt.Errorf("permissions: %w", err)
	}
	for _, key := range slices.Sorted(maps.Keys(header.PAXRecords)) {
		name, ok := strings.CutPrefix(key, attributePrefix)
		if !ok || !kept(name) {
			continue
		}
		if err := unix.Fsetxattr(fd, name, []byte(header.PAXRecords[key]), 0); err != nil {
			return fmt.Errorf("extended attribute %.64q: %w", name, refuseMalformed(err))
		}
	}
	return nil
}

// refuseMalformed says of an attribute that the kernel cannot make sense of that it is
// refused; one that the file system has no room or support for is no fault of the archive.
func refuseMalformed(err error) error {
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ERANGE) || errors.Is(err, unix.E2BIG) {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return err
}

// setPathAttributes is setAttributes for what cannot be opened: links, pipes and devices.
// None of them has extended attributes that are kept.
func setPathAttributes(dir *os.File, header *tar.Header, name string) error {
	if err := unix.Fchownat(int(dir.Fd()), name, header.Uid, header.Gid, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("owner %d:%d: %w", header.Uid, header.Gid, err)
	}
	if header.Typeflag != tar.TypeSymlink {
		// It was made a moment ago and is no link.
		if err := unix.Fchmodat(int(dir.Fd()), name, uint32(header.Mode)&0o7777, 0); err != nil {
			return fmt.Errorf("permissions: %w", err)
		}
	}
	return setTime(dir, name, header.ModTime)
}
