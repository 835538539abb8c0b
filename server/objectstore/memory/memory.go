// Package memory is an object store in memory, for tests and simulations.
//
// It is linearizable per key and gives every version an etag of its own. It can
// go wrong in each way that a real store can - slow, throttled, down, an answer
// lost after the write was applied, a write that lands after its caller gave
// up - as [Faults] say, call by call, so that a test decides where a system
// breaks. All pauses are plain timers and work under testing/synctest.
package memory

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"nstance.dev/server/objectstore"
)

// Options are the settings of a Store; zero fields take the defaults.
type Options struct {
	Now     func() time.Time // the clock behind Modified; time.Now
	Latency time.Duration    // of every call, before it takes effect; none
	Faults  Faults           // what goes wrong; nothing

	// OnWrite sees every write that the store accepted, in the order in which
	// it did. It runs inside the store and must not call it.
	OnWrite func(Write)
}

// Write is an accepted write. Data is nil for a deletion, and not to be changed.
type Write struct {
	Key     string
	Data    []byte
	ETag    string // of the version written, or deleted
	Deleted bool
}

// Store is an objectstore.Store in memory. It is safe for concurrent use.
type Store struct {
	opts Options

	mu      sync.Mutex
	faults  Faults
	down    bool
	calls   int
	version uint64
	objects map[string]objectstore.Object
	sorted  []string // the keys in order; nil when it must be made anew
}

var _ objectstore.Store = (*Store)(nil)

// New returns an empty store.
func New(opts Options) *Store {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Store{opts: opts, faults: opts.Faults, objects: make(map[string]objectstore.Object)}
}

// Get implements objectstore.Store.
func (s *Store) Get(ctx context.Context, key string) (o objectstore.Object, err error) {
	err = s.call(ctx, Call{Op: OpGet, Key: key}, func() error {
		stored, ok := s.objects[key]
		if !ok {
			return objectstore.ErrNotFound
		}
		o = stored
		o.Data = bytes.Clone(stored.Data)
		return nil
	})
	if err != nil {
		return objectstore.Object{}, err
	}
	return o, nil
}

// PutIfAbsent implements objectstore.Store.
func (s *Store) PutIfAbsent(ctx context.Context, key string, data []byte) (string, error) {
	return s.put(ctx, key, data, func(_ objectstore.Object, exists bool) bool { return !exists })
}

// PutIfMatch implements objectstore.Store.
func (s *Store) PutIfMatch(ctx context.Context, key string, data []byte, etag string) (string, error) {
	if etag == "" {
		return "", fmt.Errorf("put %s: the etag is empty", key)
	}
	return s.put(ctx, key, data, func(o objectstore.Object, exists bool) bool { return exists && o.ETag == etag })
}

func (s *Store) put(ctx context.Context, key string, data []byte, holds func(objectstore.Object, bool) bool) (string, error) {
	data = append([]byte{}, data...) // ours: the caller may change its own, a late write still needs this
	var etag string
	err := s.call(ctx, Call{Op: OpPut, Key: key, Data: data}, func() error {
		old, exists := s.objects[key]
		if !holds(old, exists) {
			return objectstore.ErrPrecondition
		}
		s.version++
		o := objectstore.Object{Key: key, Data: data, ETag: "v" + strconv.FormatUint(s.version, 10), Modified: s.opts.Now()}
		s.objects[key] = o
		if !exists {
			s.sorted = nil
		}
		s.accepted(Write{Key: key, Data: data, ETag: o.ETag})
		etag = o.ETag
		return nil
	})
	if err != nil {
		return "", err
	}
	return etag, nil
}

// DeleteIfMatch implements objectstore.Store.
func (s *Store) DeleteIfMatch(ctx context.Context, key, etag string) error {
	if etag == "" {
		return fmt.Errorf("delete %s: the etag is empty", key)
	}
	return s.call(ctx, Call{Op: OpDelete, Key: key}, func() error {
		old, exists := s.objects[key]
		switch {
		case !exists:
			return objectstore.ErrNotFound
		case old.ETag != etag:
			return objectstore.ErrPrecondition
		}
		delete(s.objects, key)
		s.sorted = nil
		s.accepted(Write{Key: key, ETag: etag, Deleted: true})
		return nil
	})
}

// List implements objectstore.Store. The token is the last key of a page.
func (s *Store) List(ctx context.Context, prefix, pageToken string, limit int) (page objectstore.Page, err error) {
	if limit <= 0 || limit > objectstore.MaxPage {
		limit = objectstore.MaxPage
	}
	err = s.call(ctx, Call{Op: OpList, Key: prefix}, func() error {
		keys := s.keys()
		i, found := slices.BinarySearch(keys, max(prefix, pageToken))
		if found && keys[i] == pageToken {
			i++
		}
		for ; i < len(keys) && strings.HasPrefix(keys[i], prefix); i++ {
			if len(page.Objects) == limit {
				page.Next = page.Objects[limit-1].Key
				return nil
			}
			o := s.objects[keys[i]]
			page.Objects = append(page.Objects, objectstore.Info{Key: o.Key, ETag: o.ETag, Size: int64(len(o.Data)), Modified: o.Modified})
		}
		return nil
	})
	if err != nil {
		return objectstore.Page{}, err
	}
	return page, nil
}

// keys returns all keys in order. The caller holds mu.
func (s *Store) keys() []string {
	if s.sorted == nil {
		s.sorted = make([]string, 0, len(s.objects))
		for key := range s.objects {
			s.sorted = append(s.sorted, key)
		}
		slices.Sort(s.sorted)
	}
	return s.sorted
}

// accepted reports a write to the hook. The caller holds mu.
func (s *Store) accepted(w Write) {
	if s.opts.OnWrite != nil {
		s.opts.OnWrite(w)
	}
}
