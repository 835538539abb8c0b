package unit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"nstance.dev/protos/binding"
)

// runLeave runs the executables of the directory, by their names, until one fails. A directory
// without any is a failure: nothing would take the machine out of its cluster.
func (u *Unit) runLeave(ctx context.Context, output *tail, env []string) outcome {
	paths, err := executables(u.opts.Leave)
	if err != nil {
		return outcome{binding.NoExit, err.Error()}
	}
	for _, path := range paths {
		if end := u.command(ctx, output, env, path); end != succeeded {
			end.err = filepath.Base(path) + ": " + end.err
			return end
		}
	}
	return succeeded
}

var errForeign = errors.New("others than root may change it")

// executables are the programs in a directory, sorted by name. Files that cannot be executed and
// those whose names begin with a dot are left out. Who can write to one would run with this
// program's rights.
func executables(dir string) (paths []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("find what makes the machine leave: %w", err)
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		info, err := os.Stat(path)
		switch {
		case err != nil:
			return nil, fmt.Errorf("find what makes the machine leave: %w", err)
		case strings.HasPrefix(e.Name(), "."), !info.Mode().IsRegular(), info.Mode()&0o111 == 0:
			continue
		}
		if err := checkOwner(path); err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("%s has no executable: nothing takes the machine out of its cluster", dir)
	}
	return paths, checkOwner(dir)
}

// checkOwner refuses what others than root, and the user that the program runs as, may change.
func checkOwner(path string) error {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return fmt.Errorf("owner of %s: %w", path, err)
	}
	if (st.Uid != 0 && int(st.Uid) != os.Geteuid()) || st.Mode&0o022 != 0 {
		return fmt.Errorf("%s: %w", path, errForeign)
	}
	return nil
}
