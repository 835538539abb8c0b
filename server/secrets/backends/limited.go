package backends

import (
	"context"
	"time"

	"nstance.dev/server/secrets"
)

// callTimeout bounds a call to a secrets service with all repetitions by its SDK,
// which for themselves would wait for an answer as long as the caller does.
const callTimeout = 30 * time.Second

// limitedStore is a store whose calls end in time.
type limitedStore struct{ store secrets.Store }

func limited[S secrets.Store](store S, err error) (secrets.Store, error) {
	if err != nil {
		return nil, err
	}
	return limitedStore{store}, nil
}

// Get implements [secrets.Store].
func (l limitedStore) Get(ctx context.Context, name string) (secrets.Secret, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return l.store.Get(ctx, name)
}

// Put implements [secrets.Store].
func (l limitedStore) Put(ctx context.Context, name string, value secrets.Secret, mode secrets.Mode) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return l.store.Put(ctx, name, value, mode)
}

// Delete implements [secrets.Store].
func (l limitedStore) Delete(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return l.store.Delete(ctx, name)
}

// List implements [secrets.Store]. The limit is for all pages together.
func (l limitedStore) List(ctx context.Context, prefix string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return l.store.List(ctx, prefix)
}
