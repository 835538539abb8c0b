package tree

import (
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Stat is the state of the file at path in the tree at root. Links are followed as a process
// would that has the tree for its root; the file itself, or a part of its path, that leads
// out of what the tree holds does not exist.
func Stat(root, path string) (fs.FileInfo, error) {
	top, err := openTop(root)
	if err != nil {
		return nil, err
	}
	defer top.Close()
	fd, err := unix.Openat2(int(top.Fd()), path, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	})
	if err != nil {
		return nil, &os.PathError{Op: "stat", Path: where(top, path), Err: err}
	}
	file := os.NewFile(uintptr(fd), path)
	defer file.Close()
	return file.Stat()
}
