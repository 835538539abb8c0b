// Package images decides which machine image a configured key stands for at the
// moment.
//
// A [Book] holds what the last look-up of each image found. Look-ups are due at
// the beginning of a leadership and once in an interval; one that failed is due
// again soon. Until the first has ended nothing is known. Where it fails, the
// image that was found before counts, also one from before a restart, and then the
// fallback of the configuration. Where there is neither, the key stands for
// nothing, and whoever needs it has to wait.
//
// A new image replaces no machine: it is what new machines are made from.
//
// A Book looks nothing up and waits for nothing, and time comes in as an argument.
// [Lookups] are the loop that looks up what is due.
package images

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"nstance.dev/server/driver"
)

// Pauses before a look-up that failed is due again, doubling.
const (
	firstRetry   = 5 * time.Second
	longestRetry = 5 * time.Minute
)

// Source says where an answer comes from.
type Source string

// The sources.
const (
	FromLookup   Source = "lookup"
	FromCache    Source = "cache"    // an earlier look-up; the last one failed
	FromFallback Source = "fallback" // of the configuration; no look-up ever succeeded
)

// Wanted is one image of the configuration. Without filters it is its fallback.
type Wanted struct {
	Query    driver.ImageQuery
	Fallback string
}

// State is what is known of one image.
type State struct {
	ID      string // empty: nothing is known
	Source  Source
	Found   time.Time // when a look-up found it; zero for a fallback
	Pending bool      // the first look-up has not ended
	Err     error     // of the last look-up; nil: it succeeded
}

// ErrNoLookup says that the provider looks no images up.
var ErrNoLookup = errors.New("this provider looks no images up; write a fallback")

// ErrUnknown says that the configuration has no such image.
var ErrUnknown = errors.New("no such image is configured")

// Book is what is known of the images of a configuration. It is safe for
// concurrent use.
type Book struct {
	able bool

	mu     sync.Mutex
	images map[string]*image
}

type image struct {
	Wanted
	found    string
	at       time.Time
	tried    bool // a look-up has ended
	asking   bool
	failures int
	err      error
	due      time.Time // zero: at once
}

// New makes an empty book. Able says whether the provider can look images up.
func New(able bool) *Book {
	return &Book{able: able, images: map[string]*image{}}
}

// Configure takes the images of a configuration over. What is known of one whose
// query is the same stays known. Earlier returns what a look-up found before the
// last restart, or "".
func (b *Book) Configure(wanted map[string]Wanted, earlier func(key string) (id string, at time.Time)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key := range b.images {
		if _, still := wanted[key]; !still {
			delete(b.images, key)
		}
	}
	for key, w := range wanted {
		old := b.images[key]
		if old != nil && reflect.DeepEqual(old.Query, w.Query) {
			old.Fallback = w.Fallback
			continue
		}
		im := &image{Wanted: w}
		if old == nil { // else it was found by another query
			im.found, im.at = earlier(key)
		}
		switch {
		case len(w.Query.Filters) == 0:
			im.tried, im.found, im.at = true, "", time.Time{}
		case !b.able:
			im.tried, im.err = true, ErrNoLookup
		}
		b.images[key] = im
	}
}

// looks reports whether an image is looked up at all.
func (b *Book) looks(im *image) bool { return b.able && len(im.Query.Filters) > 0 }

// Query is a look-up that is to be made.
type Query struct {
	Key string
	driver.ImageQuery
}

// Due takes the look-ups that are due, in the order of their keys, and says when
// the next one is (zero: none is to be expected). Each has to be ended by Found or
// Failed.
func (b *Book) Due(now time.Time) (due []Query, next time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(b.images)) {
		im := b.images[key]
		switch {
		case !b.looks(im) || im.asking:
		case !now.Before(im.due):
			im.asking = true
			due = append(due, Query{key, im.Query})
		case next.IsZero() || im.due.Before(next):
			next = im.due
		}
	}
	return due, next
}

// Found ends a look-up; the next one is due after the interval. It reports whether
// the key stands for another image now.
func (b *Book) Found(q Query, id string, now time.Time, interval time.Duration) (news bool) {
	return b.end(q, func(im *image) {
		im.found, im.at, im.err, im.failures = id, now, nil, 0
		im.due = now.Add(interval)
	})
}

// Failed ends a look-up that found nothing. It reports whether the key stands for
// something else now, such as its fallback.
func (b *Book) Failed(q Query, err error, now time.Time, interval time.Duration) (news bool) {
	return b.end(q, func(im *image) {
		im.err = err
		im.due = now.Add(min(firstRetry<<min(im.failures, 10), longestRetry, interval))
		im.failures++
	})
}

func (b *Book) end(q Query, note func(*image)) (news bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	im := b.images[q.Key]
	if im == nil || !reflect.DeepEqual(im.Query, q.ImageQuery) {
		return false // the configuration has changed meanwhile
	}
	before := im.state()
	im.asking, im.tried = false, true
	note(im)
	return before.ID != im.state().ID
}

func (im *image) state() State {
	s := State{ID: im.found, Source: FromLookup, Found: im.at, Pending: !im.tried, Err: im.err}
	switch {
	case !im.tried:
		return State{Pending: true}
	case im.found == "" && im.Fallback != "":
		s.ID, s.Source = im.Fallback, FromFallback
	case im.found == "":
		s.Source = ""
	case im.err != nil:
		s.Source = FromCache
	}
	return s
}

// Get returns what is known of an image.
func (b *Book) Get(key string) State {
	b.mu.Lock()
	defer b.mu.Unlock()
	if im := b.images[key]; im != nil {
		return im.state()
	}
	return State{Err: ErrUnknown}
}

// Known returns every image that stands for something, by key.
func (b *Book) Known() map[string]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	known := make(map[string]string, len(b.images))
	for key, im := range b.images {
		if s := im.state(); s.ID != "" {
			known[key] = s.ID
		}
	}
	return known
}
