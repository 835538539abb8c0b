package objectstore

import (
	"context"
	"time"
)

// Operations are the calls that an [Observed] tells of.
var Operations = []string{"get", "put", "delete", "list"}

// Observed is a Store whose calls are told to somebody: which one, how long it took and
// how it ended, as the store below answered it. Called must be quick and safe for concurrent use.
type Observed struct {
	Store  Store
	Now    func() time.Time
	Called func(op string, took time.Duration, err error)
}

// Get implements Store.
func (o Observed) Get(ctx context.Context, key string) (obj Object, err error) {
	o.call("get", func() error { obj, err = o.Store.Get(ctx, key); return err })
	return obj, err
}

// PutIfAbsent implements Store.
func (o Observed) PutIfAbsent(ctx context.Context, key string, data []byte) (etag string, err error) {
	o.call("put", func() error { etag, err = o.Store.PutIfAbsent(ctx, key, data); return err })
	return etag, err
}

// PutIfMatch implements Store.
func (o Observed) PutIfMatch(ctx context.Context, key string, data []byte, etag string) (next string, err error) {
	o.call("put", func() error { next, err = o.Store.PutIfMatch(ctx, key, data, etag); return err })
	return next, err
}

// DeleteIfMatch implements Store.
func (o Observed) DeleteIfMatch(ctx context.Context, key, etag string) (err error) {
	o.call("delete", func() error { err = o.Store.DeleteIfMatch(ctx, key, etag); return err })
	return err
}

// List implements Store.
func (o Observed) List(ctx context.Context, prefix, pageToken string, limit int) (page Page, err error) {
	o.call("list", func() error { page, err = o.Store.List(ctx, prefix, pageToken, limit); return err })
	return page, err
}

func (o Observed) call(op string, do func() error) {
	began := o.Now()
	err := do()
	o.Called(op, o.Now().Sub(began), err)
}
