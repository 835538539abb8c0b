// Package keylock has locks with keys, that exist while somebody holds or awaits them. What
// a lock guards, and the order in which several are taken, is its users' own affair.
package keylock

import (
	"context"
	"sync"
)

// Locks are locks with keys. Who waits for one does so in no particular order. The zero value
// is ready; it is safe for concurrent use and must not be copied.
type Locks[K comparable] struct {
	mu    sync.Mutex
	locks map[K]*lock
}

type lock struct {
	turn  chan struct{} // has room for one
	users int           // who holds or awaits it
}

// Lock waits for the lock of a key, as long as ctx lasts, and returns what gives it back,
// to be called once. The error is that of ctx.
func (k *Locks[K]) Lock(ctx context.Context, key K) (unlock func(), err error) {
	l := k.join(key)
	select {
	case l.turn <- struct{}{}:
		return func() { <-l.turn; k.leave(key, l) }, nil
	case <-ctx.Done():
		k.leave(key, l)
		return nil, ctx.Err()
	}
}

func (k *Locks[K]) join(key K) *lock {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.locks[key]
	if l == nil {
		if k.locks == nil {
			k.locks = map[K]*lock{}
		}
		l = &lock{turn: make(chan struct{}, 1)}
		k.locks[key] = l
	}
	l.users++
	return l
}

func (k *Locks[K]) leave(key K, l *lock) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.users--; l.users == 0 {
		delete(k.locks, key)
	}
}
