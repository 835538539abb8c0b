package cache

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/gofrs/flock"
)

// ErrLocked says that another process uses a cache folder.
var ErrLocked = errors.New("in use by another process")

// LockDir takes a cache folder for this process, and creates it, for this user
// alone, where there is none. Where another process has it the error matches
// [ErrLocked]. The lock ends with unlock or with the process, whichever way that ends.
func LockDir(dir string) (unlock func() error, err error) {
	if err := makeDir(dir); err != nil {
		return nil, fmt.Errorf("lock cache folder %s: %w", dir, err)
	}
	lock := flock.New(filepath.Join(dir, "lock"), flock.SetPermissions(fileMode))
	locked, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock cache folder %s: %w", dir, err)
	}
	if !locked {
		return nil, fmt.Errorf("cache folder %s is %w: stop that server, or give this one a folder or an id of its own", dir, ErrLocked)
	}
	return lock.Unlock, nil
}
