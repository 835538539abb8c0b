package file

import "context"

// HoldLock takes the lock of key as a writer does.
func (s *Store) HoldLock(ctx context.Context, key string) (release func(), err error) {
	held, err := s.locks.acquire(ctx, key)
	if err != nil {
		return nil, err
	}
	return held.release, nil
}
