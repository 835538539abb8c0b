package shard

import (
	"context"
	"sync"

	"nstance.dev/protos/identity"
)

// keyedLocks are locks that exist while somebody holds or awaits them: one for
// each instance whose registration is under way. The zero value is ready.
type keyedLocks struct {
	mu    sync.Mutex
	locks map[identity.ID]*keyedLock
}

type keyedLock struct {
	turn  chan struct{} // has room for one
	users int
}

// lock waits for the id's lock, as long as ctx lasts, and returns what gives it
// back.
func (k *keyedLocks) lock(ctx context.Context, id identity.ID) (unlock func(), err error) {
	l := k.join(id)
	select {
	case l.turn <- struct{}{}:
		return func() { <-l.turn; k.leave(id, l) }, nil
	case <-ctx.Done():
		k.leave(id, l)
		return nil, ctx.Err()
	}
}

func (k *keyedLocks) join(id identity.ID) *keyedLock {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.locks[id]
	if l == nil {
		if k.locks == nil {
			k.locks = map[identity.ID]*keyedLock{}
		}
		l = &keyedLock{turn: make(chan struct{}, 1)}
		k.locks[id] = l
	}
	l.users++
	return l
}

func (k *keyedLocks) leave(id identity.ID, l *keyedLock) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.users--; l.users == 0 {
		delete(k.locks, id)
	}
}
