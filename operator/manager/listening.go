package manager

import (
	"context"
	"sync"

	"nstance.dev/operator/inventory"
	"nstance.dev/operator/metrics"
	"nstance.dev/operator/shards"
)

// connectionSink is the sink of the connections: it counts, publishes what administrators must
// know, and passes everything on to the feed.
type connectionSink struct {
	feed    *inventory.Feed
	metrics *metrics.Metrics
	warn    func(reason, format string, args ...any)

	mu      sync.Mutex
	reasons map[string]shards.Reason // by shard, the last one
}

// StateChanged implements [shards.Sink].
func (l *connectionSink) StateChanged(shard string, status shards.Status) {
	l.metrics.ShardState(shard, status.State)
	if l.news(shard, status.Reason) && status.Reason == shards.ReasonIdentityMismatch {
		l.warn(string(status.Reason), "shard %s: another server answers at its address: %s", shard, status.Message)
	}
	l.feed.StateChanged(shard, status)
}

// news reports whether a shard's reason is another one than before.
func (l *connectionSink) news(shard string, reason shards.Reason) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	changed := l.reasons[shard] != reason
	l.reasons[shard] = reason
	return changed
}

// Removed implements [shards.Sink].
func (l *connectionSink) Removed(shard string) {
	l.news(shard, "")
	l.metrics.ShardRemoved(shard)
	l.feed.Removed(shard)
}

// listen returns the sink for this process. Its events end with ctx.
func (p *process) listen(ctx context.Context, n notices) *connectionSink {
	return &connectionSink{
		feed: p.shardState.feed, metrics: p.metrics, reasons: map[string]shards.Reason{},
		warn: func(reason, format string, args ...any) { n.warn(ctx, reason, "Connect", format, args...) },
	}
}
