package userdata

import (
	"context"
	"time"

	"nstance.dev/server/retry"
)

// Lookups keep a [Shelf], and fetch what is asked for. They are safe for concurrent use.
type Lookups struct {
	*Shelf

	fetch func(ctx context.Context, address string) ([]byte, error)
	now   func() time.Time
	asked *retry.Lookups
}

// NewLookups returns look-ups with an empty shelf, that fetch by the given function. They
// start nothing.
func NewLookups(fetch func(ctx context.Context, address string) ([]byte, error), now func() time.Time) *Lookups {
	return &Lookups{Shelf: &Shelf{}, fetch: fetch, now: now, asked: retry.NewLookups()}
}

// Ask has what stands at an address fetched soon. Then ended is called, which must not wait,
// with the error of the request, and, where an older copy serves in its place, with the time
// at which that was fetched; both are zero where the loop ended before. Of those who ask for
// one address at once the first is called, and no other.
func (l *Lookups) Ask(address string, ended func(instead time.Time, err error)) {
	l.asked.Ask(address, func(ctx context.Context) {
		data, err := l.fetch(ctx, address)
		instead := l.Put(address, data, err, l.now())
		if ctx.Err() != nil {
			instead, err = time.Time{}, nil
		}
		ended(instead, err)
	})
}

// Run fetches what is asked for until ctx ends, and waits for what is under way.
func (l *Lookups) Run(ctx context.Context) { l.asked.Run(ctx) }
