package session

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	mathrand "math/rand/v2"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"nstance.dev/operator/demand/outbound"
	"nstance.dev/operator/shards"
	"nstance.dev/protos/needs"
	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
)

// Options are the settings of [Sessions]; zero fields take the defaults.
type Options struct {
	Cluster string // id of the cluster; required
	Tenant  string // of the operator's certificate; required
	// Instance names this process in the logs of shards; random.
	Instance string
	// Backoff is how long to wait between sessions; 500ms to 30s.
	Backoff Backoff
	// Keepalive is how a silent connection is probed; that of package shards.
	Keepalive keepalive.ClientParameters
	// Outbox is how many answers wait for a shard at most; [outbound.Answers].
	Outbox int
	// MaxMessage is how many bytes a message to a shard has at most; 4 MiB, which is what servers take.
	MaxMessage int
	// Grace is the time for a drain for which a shard names none; 30s.
	Grace time.Duration
	// Dispatch is how many handlers run at once for each shard; 32.
	Dispatch int
	Handlers Handlers
	Observer Observer
	Log      *slog.Logger     // nil: nothing is logged
	Now      func() time.Time // time.Now
	Random   func() float64   // in [0, 1); rand.Float64
}

func (o Options) withDefaults() Options {
	if o.Instance == "" {
		var id [8]byte
		_, _ = rand.Read(id[:]) // never fails
		o.Instance = hex.EncodeToString(id[:])
	}
	if o.Backoff.Initial <= 0 {
		o.Backoff.Initial = 500 * time.Millisecond
	}
	if o.Backoff.Max <= 0 {
		o.Backoff.Max = 30 * time.Second
	}
	if o.Outbox <= 0 {
		o.Outbox = outbound.Answers
	}
	if o.MaxMessage <= 0 {
		o.MaxMessage = mostBytes
	}
	if o.Grace <= 0 {
		o.Grace = 30 * time.Second
	}
	if o.Dispatch <= 0 {
		o.Dispatch = 32
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = mathrand.Float64
	}
	return o
}

// dial are the options of a connection.
func (o Options) dial() []grpc.DialOption {
	if o.Keepalive.Time == 0 {
		return nil
	}
	return []grpc.DialOption{grpc.WithKeepaliveParams(o.Keepalive)}
}

// Sessions are the sessions with all shards. They are safe for concurrent use; [New] makes
// them.
type Sessions struct {
	opts Options

	mu    sync.Mutex
	links map[string]*link // by shard
}

// New returns sessions of which none is open before [Sessions.Run].
func New(opts Options) *Sessions {
	return &Sessions{opts: opts.withDefaults(), links: map[string]*link{}}
}

// Run keeps a session with each shard of a set until ctx ends, and returns the reason.
func (s *Sessions) Run(ctx context.Context, set *shards.Set) error {
	return set.Attach(ctx, func(ctx context.Context, shard *shards.Shard) {
		l := newLink(shard, s.opts)
		s.mu.Lock()
		s.links[l.name] = l
		s.mu.Unlock()
		defer func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.links[l.name] == l {
				delete(s.links, l.name)
			}
		}()
		l.run(ctx)
	})
}

// mostReports is how many reports of Nodes one message has at most.
const mostReports = 200

// Report sends reports of Nodes to a shard, in as many messages as it takes. False: no session
// stands, or some of them found no room; what is still so has to be reported again.
func (s *Sessions) Report(shard string, reports []*demandpb.NodeReport) bool {
	c := s.session(shard)
	if c == nil {
		return false
	}
	sent := true
	for len(reports) > 0 {
		n := min(len(reports), mostReports)
		batch := &demandpb.NodeReportBatch{Reports: reports[:n:n]}
		sent = c.answer(KindReports, &demandpb.OperatorMessage{Kind: &demandpb.OperatorMessage_NodeReports{NodeReports: batch}}) && sent
		reports = reports[n:]
	}
	return sent
}

// Rollup is all that the cluster needs of one shard. What it points to is never changed again.
type Rollup struct {
	Rows      []*needs.Row
	Overheads []needs.Overhead
}

// Rollup queues a roll-up for a shard, in place of one that waits. False: no session stands.
func (s *Sessions) Rollup(shard string, r Rollup) bool {
	c := s.session(shard)
	if c == nil {
		return false
	}
	c.rollup(r)
	return true
}

// session returns the session that stands with a shard, nil if none does.
func (s *Sessions) session(shard string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.links[shard]; l != nil {
		return l.session()
	}
	return nil
}
