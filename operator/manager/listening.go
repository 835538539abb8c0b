package manager

import (
	"context"
	"sync"

	"nstance.dev/operator/inventory"
	"nstance.dev/operator/metrics"
	"nstance.dev/operator/shards"
)

// listening is the sink of the connections: it counts, says what people must know, and
// passes everything on.
type listening struct {
	*inventory.Feed
	metrics *metrics.Metrics
	tell    func(reason, format string, args ...any)

	mu      sync.Mutex
	reasons map[string]shards.Reason // by shard, the last one
}

// StateChanged implements [shards.Sink].
func (l *listening) StateChanged(shard string, status shards.Status) {
	l.metrics.ShardState(shard, status.State)
	if l.news(shard, status.Reason) && status.Reason == shards.ReasonIdentityMismatch {
		l.tell(string(status.Reason), "shard %s: another server answers at its address: %s", shard, status.Message)
	}
	l.Feed.StateChanged(shard, status)
}

// news reports whether a shard's reason is another one than before.
func (l *listening) news(shard string, reason shards.Reason) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	changed := l.reasons[shard] != reason
	l.reasons[shard] = reason
	return changed
}

// Removed implements [shards.Sink].
func (l *listening) Removed(shard string) {
	l.news(shard, "")
	l.metrics.ShardRemoved(shard)
	l.Feed.Removed(shard)
}

// listen returns the sink for this process. Its events end with ctx.
func (p *process) listen(ctx context.Context, n notices) *listening {
	return &listening{
		Feed: p.feed, metrics: p.metrics, reasons: map[string]shards.Reason{},
		tell: func(reason, format string, args ...any) { n.warn(ctx, reason, "Connect", format, args...) },
	}
}
