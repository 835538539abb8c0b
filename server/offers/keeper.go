package offers

import (
	"context"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/driver"
)

// Sources are where a [Keeper] finds what a [Book] is made of. All are required. They must answer at
// once: what has to be asked for is asked for by others, such as package catalog.
type Sources struct {
	Config func() *effective.Config
	Groups func() []*effective.Group
	// Types are those that the provider listed last, nil before the first listing; false: it lists none.
	Types func() (types []driver.InstanceType, hasCatalogue bool)
	Taken func() map[string]int // as in [Input]
	Now   func() time.Time
	Log   *slog.Logger
}

// interval is how often the Book is made again at least: what wakes a Keeper may be lost, and
// prices change without waking it.
const interval = time.Minute

// Keeper holds the Book in force. It is safe for concurrent use.
type Keeper struct {
	sources Sources
	current atomic.Pointer[Book]
	wake    chan struct{}

	mu        sync.Mutex
	listeners []chan<- struct{}
}

// NewKeeper makes the first Book. It starts nothing.
func NewKeeper(sources Sources) *Keeper {
	k := &Keeper{sources: sources, wake: make(chan struct{}, 1)}
	k.current.Store(k.book())
	return k
}

// Book returns the one in force.
func (k *Keeper) Book() *Book { return k.current.Load() }

// Wake has the Book made again soon. It does not wait.
func (k *Keeper) Wake() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// Notify has a channel receive, without waiting for it, whenever another Book is in force.
func (k *Keeper) Notify(c chan<- struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.listeners = append(k.listeners, c)
}

// Run makes the Book again until ctx ends: when it is woken, when a window of a budget opens or closes,
// and every minute.
func (k *Keeper) Run(ctx context.Context) {
	k.warn(ctx, &Book{}, k.Book())
	for {
		pause := interval
		if next := k.Book().Next; !next.IsZero() {
			pause = min(pause, max(next.Sub(k.sources.Now()), 0)+time.Millisecond)
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-k.wake:
			timer.Stop()
		case <-timer.C:
		}
		k.refresh(ctx)
	}
}

// warn logs what groups have come to lack from one Book to the next.
func (k *Keeper) warn(ctx context.Context, before, after *Book) {
	for _, key := range after.keys() {
		state := after.States[key]
		for _, problem := range state.Problems {
			if !slices.Contains(before.States[key].Problems, problem) {
				k.sources.Log.WarnContext(ctx, "part of a demand group is not offered", "tenant", key.Tenant, "group", key.Group, "reason", problem)
			}
		}
	}
}

// refresh puts another Book in force if it says anything else.
func (k *Keeper) refresh(ctx context.Context) {
	before, after := k.Book(), k.book()
	k.current.Store(after)
	if before.says(after) {
		return
	}
	k.warn(ctx, before, after)
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.listeners {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

func (k *Keeper) book() *Book {
	types, has := k.sources.Types()
	return Of(Input{
		Config: k.sources.Config(), Groups: k.sources.Groups(), Types: types, HasCatalogue: has, Taken: k.sources.Taken(), Now: k.sources.Now(),
	})
}

// says reports whether another Book says the same to those who buy by it. What machines are described
// by may differ all the same.
func (b *Book) says(other *Book) bool {
	return reflect.DeepEqual(b.Groups, other.Groups) && reflect.DeepEqual(b.Offers, other.Offers) &&
		reflect.DeepEqual(b.Pools, other.Pools) && reflect.DeepEqual(b.States, other.States)
}

// keys are the groups of mode demand, in order.
func (b *Book) keys() []document.GroupKey {
	var keys []document.GroupKey
	for key := range b.States {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, c document.GroupKey) int {
		return slices.Compare([]string{a.Tenant, a.Group}, []string{c.Tenant, c.Group})
	})
	return keys
}
