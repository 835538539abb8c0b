package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"nstance.dev/protos/identity"
)

// Lock takes the lock of one machine, against other goroutines and other
// servers. It asks again and again, since the kernel's own queue knows no
// context; whoever holds it does so for the start or the end of a process.
func (s *Store) Lock(ctx context.Context, id identity.ID) (unlock func(), err error) {
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		unlock, err := s.TryLock(id)
		if unlock != nil || err != nil {
			return unlock, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, fmt.Errorf("wait for the lock of %s: %w", id, ctx.Err())
		}
	}
}

// TryLock takes the lock of one machine, or returns nil if it is taken. The
// lock's file exists only while someone uses it.
func (s *Store) TryLock(id identity.ID) (unlock func(), err error) {
	path := s.Hidden(LocksDir, id)
	for {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, fmt.Errorf("lock %s: %w", id, err)
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			_ = f.Close()
			if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
				return nil, nil
			}
			return nil, fmt.Errorf("lock %s: %w", id, err)
		}
		if sameFile(f, path) {
			return func() {
				_ = os.Remove(path) // before the lock is given back: who waits for it notices
				_ = f.Close()
			}, nil
		}
		_ = f.Close() // its last user removed it between our open and our lock
	}
}

func sameFile(f *os.File, path string) bool {
	ours, err := f.Stat()
	if err != nil {
		return false
	}
	now, err := os.Stat(path)
	return err == nil && os.SameFile(ours, now)
}
