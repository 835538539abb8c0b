package shard

import (
	"context"
	"sync"
)

// keyedLocks are locks that exist while somebody holds or awaits them, such as one for
// each instance whose registration is under way. The zero value is ready.
type keyedLocks[K comparable] struct {
	mu    sync.Mutex
	locks map[K]*keyedLock
}

type keyedLock struct {
	turn  chan struct{} // has room for one
	users int
}

// lock waits for the key's lock, as long as ctx lasts, and returns what gives it
// back.
func (k *keyedLocks[K]) lock(ctx context.Context, key K) (unlock func(), err error) {
	l := k.join(key)
	select {
	case l.turn <- struct{}{}:
		return func() { <-l.turn; k.leave(key, l) }, nil
	case <-ctx.Done():
		k.leave(key, l)
		return nil, ctx.Err()
	}
}

func (k *keyedLocks[K]) join(key K) *keyedLock {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.locks[key]
	if l == nil {
		if k.locks == nil {
			k.locks = map[K]*keyedLock{}
		}
		l = &keyedLock{turn: make(chan struct{}, 1)}
		k.locks[key] = l
	}
	l.users++
	return l
}

func (k *keyedLocks[K]) leave(key K, l *keyedLock) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.users--; l.users == 0 {
		delete(k.locks, key)
	}
}
