package hub

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/status"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// How much is kept of what happens.
const (
	maxRecent   = 500  // events of all shards
	maxFailures = 200  // of all shards
	maxSamples  = 2000 // of one group
	samplesFor  = 24 * time.Hour
)

// Shard is one of those that a hub follows.
type Shard struct {
	Name   string
	API    nstancev1.OperatorServiceClient
	Leader func() string // address that answered last; nil: not known
}

// Options are the settings of a Hub; zero fields take the defaults.
type Options struct {
	Relist time.Duration    // between two lists of everything; 30s
	Info   time.Duration    // between two questions to a leader who it is; 5s
	Now    func() time.Time // time.Now
	Log    *slog.Logger     // slog.Default
}

func (o Options) withDefaults() Options {
	if o.Relist <= 0 {
		o.Relist = 30 * time.Second
	}
	if o.Info <= 0 {
		o.Info = 5 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return o
}

// Hub follows shards. It is safe for concurrent use.
type Hub struct {
	opts   Options
	shards []Shard // by name

	mu       sync.Mutex
	states   map[string]*state
	readers  map[*Reader]struct{}
	events   []json.RawMessage // the newest last
	failures []json.RawMessage
}

// state is what is known of one shard.
type state struct {
	tables    [kinds]table
	connected bool
	problem   string // why it is not connected
	since     time.Time
	leader    string
	info      json.RawMessage
	histories map[string][]Sample // by group
}

// kind is a kind of objects.
type kind int

const (
	groups kind = iota
	instances
	machines
	kinds // how many there are
)

// New returns a hub that follows nobody before Run.
func New(shards []Shard, opts Options) *Hub {
	h := &Hub{opts: opts.withDefaults(), shards: slices.Clone(shards), states: map[string]*state{}, readers: map[*Reader]struct{}{}}
	slices.SortFunc(h.shards, func(a, b Shard) int { return compare(a.Name, b.Name) })
	for _, s := range h.shards {
		h.states[s.Name] = &state{since: h.opts.Now(), problem: "not asked yet", histories: map[string][]Sample{}}
	}
	return h
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// Shards returns the names of the shards, sorted.
func (h *Hub) Shards() []string {
	return slices.Sorted(maps.Keys(h.states))
}

// Run follows all shards until ctx ends.
func (h *Hub) Run(ctx context.Context) {
	var following sync.WaitGroup
	for _, s := range h.shards {
		following.Go(func() { h.followAlways(ctx, s) })
	}
	following.Wait()
}

// followAlways follows a shard again and again: streams end with each leader.
func (h *Hub) followAlways(ctx context.Context, s Shard) {
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval = 200*time.Millisecond, 5*time.Second
	for {
		began := h.opts.Now()
		err := h.follow(ctx, s)
		if ctx.Err() != nil {
			return
		}
		if h.disconnect(s.Name, err) {
			h.opts.Log.InfoContext(ctx, "shard not followed", "shard", s.Name, "error", err)
		}
		if h.opts.Now().Sub(began) > time.Minute {
			pauses.Reset()
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pauses.NextBackOff()):
		}
	}
}

// follow keeps the state of a shard up to date until something fails.
func (h *Hub) follow(ctx context.Context, s Shard) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, work := range []func(context.Context, Shard) error{
		h.askInfo, h.watchGroups, h.watchInstances, h.watchErrors, h.watchMachines,
	} {
		g.Go(func() error { return work(ctx, s) })
	}
	return g.Wait()
}

// disconnect notes that a shard is not followed, and reports whether that, or why, is news.
func (h *Hub) disconnect(name string, err error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	st, problem := h.states[name], status.Convert(err).Message()
	news := st.connected || st.problem != problem
	if st.connected {
		st.since = h.opts.Now()
	}
	st.connected, st.problem = false, problem
	if news {
		h.markShard(name)
	}
	return news
}

// informed takes over what the leader of a shard says of itself.
func (h *Hub) informed(name, leader string, info json.RawMessage) {
	h.mu.Lock()
	defer h.mu.Unlock()
	st := h.states[name]
	if !st.connected {
		st.since = h.opts.Now()
	}
	st.connected, st.problem, st.leader, st.info = true, "", leader, info
	h.markShard(name)
}

// put stores an object that a stream has told of.
func (h *Hub) put(name string, of kind, key string, revision int64, text []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.states[name].tables[of].put(key, revision, text) {
		h.mark(name, of, key)
	}
}

func (h *Hub) drop(name string, of kind, key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.states[name].tables[of].drop(key) {
		h.mark(name, of, key)
	}
}

func (h *Hub) beginList(name string, of kind) uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.states[name].tables[of].begin()
}

func (h *Hub) settleList(name string, of kind, began uint64, all []listed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, key := range h.states[name].tables[of].settle(began, all) {
		h.mark(name, of, key)
	}
	if of == groups {
		h.states[name].forgetHistories(h.opts.Now())
	}
}

// happened keeps something that has happened, and tells all readers.
func (h *Hub) happened(name string, text json.RawMessage, failure bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	list, most := &h.events, maxRecent
	if failure {
		list, most = &h.failures, maxFailures
	}
	*list = append(*list, text)
	if extra := len(*list) - most; extra > 0 {
		*list = slices.Delete(*list, 0, extra)
	}
	for r := range h.readers {
		r.happened(text, failure)
	}
}
