package objectstore

import (
	"context"
	"fmt"
	"strings"
)

// WithPrefix returns a view of s in which every key stands below the folder
// prefix. Slashes around prefix don't matter; an empty one returns s itself.
// With a malformed prefix every call of the view fails with ErrKey.
func WithPrefix(s Store, prefix string) Store {
	prefix = strings.Trim(prefix, "/")
	if prefix == "" {
		return s
	}
	return &prefixed{store: s, prefix: prefix + "/"}
}

type prefixed struct {
	store  Store
	prefix string
}

func (p *prefixed) Get(ctx context.Context, key string) (Object, error) {
	if err := ValidateKey(key); err != nil {
		return Object{}, err
	}
	o, err := p.store.Get(ctx, p.prefix+key)
	if err != nil {
		return Object{}, err
	}
	o.Key = key
	return o, nil
}

func (p *prefixed) PutIfAbsent(ctx context.Context, key string, data []byte) (string, error) {
	if err := ValidateKey(key); err != nil {
		return "", err
	}
	return p.store.PutIfAbsent(ctx, p.prefix+key, data)
}

func (p *prefixed) PutIfMatch(ctx context.Context, key string, data []byte, etag string) (string, error) {
	if err := ValidateKey(key); err != nil {
		return "", err
	}
	return p.store.PutIfMatch(ctx, p.prefix+key, data, etag)
}

func (p *prefixed) DeleteIfMatch(ctx context.Context, key, etag string) error {
	if err := ValidateKey(key); err != nil {
		return err
	}
	return p.store.DeleteIfMatch(ctx, p.prefix+key, etag)
}

func (p *prefixed) List(ctx context.Context, prefix, pageToken string, limit int) (Page, error) {
	if err := ValidatePrefix(prefix); err != nil {
		return Page{}, err
	}
	page, err := p.store.List(ctx, p.prefix+prefix, pageToken, limit)
	if err != nil {
		return Page{}, err
	}
	for i := range page.Objects {
		key, ok := strings.CutPrefix(page.Objects[i].Key, p.prefix)
		if !ok {
			return Page{}, fmt.Errorf("list %q: the store answered %q, which has another prefix", p.prefix+prefix, page.Objects[i].Key)
		}
		page.Objects[i].Key = key
	}
	return page, nil
}
