package userdata

import (
	"sync"
	"time"
)

const (
	// fresh is how long a copy, or a failure to get one, needs no new request.
	fresh = 10 * time.Second
	// usable is how old a copy may be that serves because no new one can be had.
	usable = time.Hour
	// kept bounds the copies: addresses of the configuration, and some older ones.
	kept = 64
)

// Shelf holds what was fetched, by address. The zero Shelf is empty. It is safe for
// concurrent use.
type Shelf struct {
	mu     sync.Mutex
	copies map[string]*copied
}

type copied struct {
	data    []byte
	fetched time.Time // zero: never
	tried   time.Time
	err     error // of the last try
}

// Take returns the copy to make a machine with. Neither data nor an error means
// that it has to be fetched first. The data is not to be changed.
func (s *Shelf) Take(address string, now time.Time) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.copies[address]
	switch {
	case c == nil, now.Sub(c.tried) >= fresh:
		return nil, nil
	case c.err == nil, !c.fetched.IsZero() && now.Sub(c.fetched) <= usable:
		return c.data, nil
	}
	return nil, c.err
}

// Put notes the outcome of a request that ended now. Where that is an error and an older
// copy serves in its place, it returns when that one was fetched; else zero.
func (s *Shelf) Put(address string, data []byte, err error, now time.Time) (instead time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.copies[address]
	if c == nil {
		s.makeRoom()
		c = &copied{}
		s.copies[address] = c
	}
	c.tried, c.err = now, err
	switch {
	case err == nil:
		c.data, c.fetched = data, now
	case !c.fetched.IsZero() && now.Sub(c.fetched) <= usable:
		return c.fetched
	}
	return time.Time{}
}

// makeRoom drops the copy that was asked for longest ago if there are too many.
// The caller holds mu.
func (s *Shelf) makeRoom() {
	if s.copies == nil {
		s.copies = map[string]*copied{}
	}
	if len(s.copies) < kept {
		return
	}
	oldest := ""
	for address, c := range s.copies {
		if oldest == "" || c.tried.Before(s.copies[oldest].tried) {
			oldest = address
		}
	}
	delete(s.copies, oldest)
}
