package sources

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"nstance.dev/server/config/document"
	"nstance.dev/server/objectstore"
)

const (
	// fresh is how long what was read serves other machines too.
	fresh = time.Minute
	// forever is for those who want to know what was read last.
	forever = time.Duration(math.MaxInt64)
	// retryAfter is how long an error serves other machines too.
	retryAfter = 10 * time.Second
	// patience is how long one read may take.
	patience = 30 * time.Second
	// maxWatched bounds what is looked at again and again.
	maxWatched = 4096
	// unused is how long nobody has asked for something that is forgotten.
	unused = 24 * time.Hour
)

// reference names a secret or an object.
type reference struct{ kind, source string }

// String names it for people.
func (r reference) String() string {
	if r.kind == document.FileSecret {
		return fmt.Sprintf("secret %q", r.source)
	}
	return fmt.Sprintf("object %q", r.source)
}

// entry is what is known of one reference. Whoever reads it holds its turn; the
// rest is guarded by the lock of all sources, which nobody holds while storage
// is slow.
type entry struct {
	turn    chan struct{} // has room for one
	watched bool          // it is kept, and refreshed

	last Content // Data nil: forgotten
	etag string  // of an object
	err  error   // of the last try
	at   time.Time
	used time.Time
}

// entry returns the entry of a reference. Over maxWatched it is one for the
// caller alone.
func (s *Sources) entry(ref reference) *entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.remote[ref]
	if e == nil {
		e = &entry{turn: make(chan struct{}, 1), watched: len(s.remote) < maxWatched}
		if e.watched {
			s.remote[ref] = e
		}
	}
	e.used = s.opts.Now()
	return e
}

// content returns what a reference holds, not read longer ago than age. Those
// who come while it is read wait for that.
func (s *Sources) content(ctx context.Context, ref reference, e *entry, age time.Duration) (Content, error) {
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	case <-ctx.Done():
		return Content{}, ctx.Err()
	}
	s.mu.Lock()
	last, err, since := e.last, e.err, s.opts.Now().Sub(e.at)
	s.mu.Unlock()
	switch {
	case !e.at.IsZero() && err != nil && since < retryAfter:
		return Content{}, err
	case err == nil && !e.at.IsZero() && since < age && (last.Data != nil || age == forever):
		return last, nil
	}
	return s.read(ctx, ref, e)
}

// read reads a reference. The caller has the turn.
func (s *Sources) read(ctx context.Context, ref reference, e *entry) (Content, error) {
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	data, etag, err := s.fetch(limited, ref)
	if err != nil && ctx.Err() != nil {
		return Content{}, err // says nothing about the source
	}
	now := s.opts.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	e.at, e.err = now, err
	if err != nil {
		return Content{}, err
	}
	c, before := newContent(data, now), e.last
	if c.Digest == before.Digest {
		c.Modified = before.Modified
	} else if e.watched && before.Digest != "" {
		s.epoch.Add(1)
	}
	e.last, e.etag = c, etag
	if s.remote[ref] == e { // else it is not kept, and nobody would take it off again
		s.held -= len(before.Data)
		s.hold(len(data))
	}
	return c, nil
}

// fetch reads what a reference names now. No error shows any of it.
func (s *Sources) fetch(ctx context.Context, ref reference) (data []byte, etag string, err error) {
	if ref.kind == document.FileStorage {
		return s.object(ctx, ref)
	}
	secret, err := s.opts.Secrets().Get(ctx, ref.source)
	switch {
	case err != nil:
		return nil, "", fmt.Errorf("%v: %w", ref, err)
	case len(secret) > MaxSize:
		return nil, "", tooLarge(ref.String())
	}
	return notNil(secret), "", nil
}

// object reads an object, once it is known not to be too large for the memory.
func (s *Sources) object(ctx context.Context, ref reference) ([]byte, string, error) {
	info, err := s.info(ctx, ref)
	switch {
	case err != nil:
		return nil, "", err
	case info.Size > MaxSize:
		return nil, "", tooLarge(ref.String())
	}
	o, err := s.opts.Objects.Get(ctx, ref.source)
	switch {
	case err != nil:
		return nil, "", fmt.Errorf("%v: %w", ref, err)
	case len(o.Data) > MaxSize:
		return nil, "", tooLarge(ref.String())
	}
	return notNil(o.Data), o.ETag, nil
}

func (s *Sources) info(ctx context.Context, ref reference) (objectstore.Info, error) {
	page, err := s.opts.Objects.List(ctx, ref.source, "", 1)
	switch {
	case err != nil:
		return objectstore.Info{}, fmt.Errorf("%v: %w", ref, err)
	case len(page.Objects) == 0 || page.Objects[0].Key != ref.source:
		return objectstore.Info{}, fmt.Errorf("%v: %w", ref, objectstore.ErrNotFound)
	}
	return page.Objects[0], nil
}

// notNil lets an empty content be told from one that was forgotten.
func notNil(data []byte) []byte {
	if data == nil {
		return []byte{}
	}
	return data
}

// Refresh looks at everything that has been asked for within a day, and forgets
// the rest. What has changed moves the epoch on. What cannot be read stays as it
// was, and is in the error.
func (s *Sources) Refresh(ctx context.Context) error {
	var errs []error
	for ref, e := range s.inUse() {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := s.refresh(ctx, ref, e); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// inUse drops what nobody asks for, and returns the rest.
func (s *Sources) inUse() map[reference]*entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	used := make(map[reference]*entry, len(s.remote))
	for ref, e := range s.remote {
		if s.opts.Now().Sub(e.used) < unused {
			used[ref] = e
			continue
		}
		s.held -= len(e.last.Data)
		delete(s.remote, ref)
	}
	return used
}

func (s *Sources) refresh(ctx context.Context, ref reference, e *entry) error {
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if ref.kind == document.FileStorage {
		if info, err := s.info(ctx, ref); err == nil && info.ETag != "" && info.ETag == s.etag(e) {
			return nil
		}
	}
	_, err := s.read(ctx, ref, e)
	return err
}

func (s *Sources) etag(e *entry) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return e.etag
}
