package catalog

import (
	"context"
	"log/slog"
	"time"

	"nstance.dev/server/driver"
	"nstance.dev/server/retry"
)

// Listing is how a [Book] is kept up to date.
type Listing struct {
	List    func(context.Context) ([]driver.InstanceType, error)
	Over    func(error) bool // reports whether err means that nothing may be listed any more
	Changed func()           // is called after each listing that says something new
	Prices  func() bool      // reports whether prices count now, so that they are listed every hour; nil: never
	Now     func() time.Time
	Log     *slog.Logger
}

// Run lists the machine types when that is due, until ctx ends or a listing is over. A
// failed listing is logged and repeated with exponential back-off; what was listed before
// it stays.
func (b *Book) Run(ctx context.Context, l Listing) {
	for {
		pause := b.Due().Sub(l.Now())
		if retry.Wait(ctx, min(pause, oftenest)) != nil {
			return
		}
		if pause > oftenest && (l.Prices == nil || !l.Prices()) {
			continue
		}
		list, err := l.List(ctx)
		if l.Over(err) || ctx.Err() != nil {
			return
		}
		if err != nil {
			b.Failed(l.Now())
			l.Log.WarnContext(ctx, "machine types not listed; what groups offer is shown as it was known", "class", driver.ClassOf(err), "error", err)
			continue
		}
		if b.Listed(list, l.Now()) {
			l.Changed()
		}
	}
}
