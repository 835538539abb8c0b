package placement

import (
	"context"
	"log/slog"
	"time"

	"nstance.dev/server/driver"
	"nstance.dev/server/retry"
)

// Options are what [Lookups] need.
type Options struct {
	// Check asks the provider how many machines fit into a subnet; nil: it cannot be asked,
	// and every subnet has room until a create is refused.
	Check func(ctx context.Context, subnet string) (free int, err error)
	// Over reports whether an error of Check means that nothing may be asked any more.
	Over func(error) bool
	// Ended is told the end of each question. It must not wait.
	Ended func(subnet string)
	Now   func() time.Time
	Log   *slog.Logger
}

// Lookups keep a [Book], and ask the provider what it has to be asked. They are safe for
// concurrent use.
type Lookups struct {
	*Book

	opts  Options
	asked *retry.Lookups
}

// NewLookups returns look-ups with an empty book. They start nothing.
func NewLookups(opts Options) *Lookups {
	return &Lookups{Book: New(opts.Check != nil), opts: opts, asked: retry.NewLookups()}
}

// Ask has the provider asked soon how much room a subnet has.
func (l *Lookups) Ask(subnet string) {
	l.asked.Ask(subnet, func(ctx context.Context) {
		l.look(ctx, subnet)
		l.opts.Ended(subnet)
	})
}

// Run asks what is to be asked until ctx ends, and waits for what is under way.
func (l *Lookups) Run(ctx context.Context) { l.asked.Run(ctx) }

// look asks about one subnet. Where the provider does not say, a create is the better
// question: that is answered for certain.
func (l *Lookups) look(ctx context.Context, subnet string) {
	l.Asking(subnet)
	free, err := l.opts.Check(ctx, subnet)
	switch kind := driver.ClassOf(err); {
	case err == nil:
		l.Answer(subnet, free, l.opts.Now())
	case l.opts.Over(err) || ctx.Err() != nil:
	case kind == driver.MissingRef || kind == driver.Invalid:
		l.opts.Log.WarnContext(ctx, "no machine can be made in a subnet", "subnet", subnet, "error", err)
		l.Missing(subnet, "cannot be used: "+err.Error(), l.opts.Now())
	default:
		l.opts.Log.WarnContext(ctx, "room of a subnet not known; a create will show", "subnet", subnet, "error", err)
		l.Answer(subnet, -1, l.opts.Now())
	}
}
