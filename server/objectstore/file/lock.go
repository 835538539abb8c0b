package file

import (
	"context"
	"fmt"
	"hash/fnv"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// Names of the store's own folders. Both hold one file per lock: the lock
// itself, and the temporary file of whoever holds it.
const (
	lockDir = ".lock"
	tempDir = ".tmp"
)

const (
	lockCount = 64                   // writers of different keys rarely meet
	lockRetry = 2 * time.Millisecond // how often a lock held by another process is tried
)

// locks excludes writers of one key, and of some others: keys share a fixed
// number of locks, so that the folder does not fill with lock files.
type locks struct {
	dir  string
	busy [lockCount]chan struct{} // a flock excludes processes, this the goroutines of ours
}

func newLocks(dir string) *locks {
	l := &locks{dir: dir}
	for i := range l.busy {
		l.busy[i] = make(chan struct{}, 1)
	}
	return l
}

// held is a lock that was taken; its name is also that of the temporary file.
type held struct {
	name string
	file *flock.Flock
	busy chan struct{}
}

// acquire waits for the lock of key until ctx ends.
func (l *locks) acquire(ctx context.Context, key string) (*held, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	h := fnv.New32a()
	h.Write([]byte(key))
	i := h.Sum32() % lockCount
	select {
	case l.busy[i] <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the lock: %w", ctx.Err())
	}
	name := fmt.Sprintf("%02x", i)
	file := flock.New(filepath.Join(l.dir, name), flock.SetPermissions(0o600))
	if _, err := file.TryLockContext(ctx, lockRetry); err != nil {
		<-l.busy[i]
		return nil, fmt.Errorf("wait for the lock: %w", err)
	}
	return &held{name: name, file: file, busy: l.busy[i]}, nil
}

func (h *held) release() {
	_ = h.file.Close() // closing the descriptor ends the lock, whatever else went wrong
	<-h.busy
}
