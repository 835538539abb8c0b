package images

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"nstance.dev/server/driver"
)

// lookupsAtOnce bounds the look-ups under way.
const lookupsAtOnce = 4

// Options are what [Lookups] need.
type Options struct {
	// Resolve looks one image up; nil: the provider looks none up.
	Resolve func(context.Context, driver.ImageQuery) (id string, err error)
	// Over reports whether an error of Resolve means that nothing may be looked up any more.
	Over func(error) bool
	// Interval is the time between two look-ups of an image.
	Interval func() time.Duration
	// Ended is told the end of each look-up: what the key stands for now, and the error of
	// the look-up.
	Ended func(key string, now State, err error)
	// Dropped is told the keys that are not configured any more: nobody looks them up.
	Dropped func(key string)
	Now     func() time.Time
	Log     *slog.Logger
}

// Lookups keep a [Book] looked up. They are safe for concurrent use, but for Configure,
// which is called by one at a time.
//
// No lock is held while one of the functions of its Options is called.
type Lookups struct {
	*Book

	opts       Options
	wake       chan struct{} // has room for one
	configured map[string]Wanted
}

// NewLookups returns look-ups of no image. They start nothing.
func NewLookups(opts Options) *Lookups {
	return &Lookups{Book: New(opts.Resolve != nil), opts: opts, wake: make(chan struct{}, 1)}
}

// Configure takes the images of a configuration over, as [Book.Configure] does, and has
// what is new looked up.
func (l *Lookups) Configure(wanted map[string]Wanted, earlier func(key string) (id string, at time.Time)) {
	l.Book.Configure(wanted, earlier)
	for key := range l.configured {
		if _, still := wanted[key]; !still {
			l.opts.Dropped(key)
		}
	}
	l.configured = wanted
	l.poke()
}

// Run makes the look-ups that are due until ctx ends, and waits for those under way.
func (l *Lookups) Run(ctx context.Context) {
	slots := make(chan struct{}, lookupsAtOnce)
	var inFlight sync.WaitGroup
	defer inFlight.Wait()
	for {
		due, next := l.Due(l.opts.Now())
		for _, q := range due {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return
			}
			inFlight.Go(func() {
				l.look(ctx, q)
				<-slots
				l.poke()
			})
		}
		wait := time.Hour
		if !next.IsZero() {
			wait = max(next.Sub(l.opts.Now()), time.Millisecond)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-l.wake:
			timer.Stop()
		}
	}
}

func (l *Lookups) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// look makes one look-up.
func (l *Lookups) look(ctx context.Context, q Query) {
	interval := l.opts.Interval()
	id, err := l.opts.Resolve(ctx, q.ImageQuery)
	if l.opts.Over(err) || ctx.Err() != nil {
		return
	}
	var news bool
	if err == nil {
		news = l.Found(q, id, l.opts.Now(), interval)
	} else {
		news = l.Failed(q, err, l.opts.Now(), interval)
		l.opts.Log.WarnContext(ctx, "image not looked up", "image", q.Key, "class", driver.ClassOf(err), "error", err)
	}
	now := l.Get(q.Key)
	if news {
		l.opts.Log.InfoContext(ctx, "image resolved", "image", q.Key, "image_id", now.ID, "source", now.Source)
	}
	l.opts.Ended(q.Key, now, err)
}
