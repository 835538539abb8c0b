package serve

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"reflect"
	"syscall"

	"nstance.dev/server/config"
)

// ErrRestart is returned by [Run] when a new configuration is in storage that
// takes effect only at a start: whoever supervises the process starts it again.
var ErrRestart = errors.New("the new configuration needs a restart")

// refresher reads the configuration again when a caller asks for it.
type refresher struct{ p *process }

// Refresh implements the operator service's part: a good configuration that
// differs is put in force, a bad one changes nothing (S19).
func (r *refresher) Refresh(ctx context.Context) (prev, now string, updated bool, err error) {
	return r.p.reload(ctx)
}

// reload reads the stored configuration and puts it in force if it is another
// one. Reloads follow each other.
func (p *process) reload(ctx context.Context) (prev, now string, updated bool, err error) {
	p.reloading.Lock()
	defer p.reloading.Unlock()
	old := p.shard.Static()
	static, err := p.source.fetch(ctx)
	if err != nil {
		return old.ETag, old.ETag, false, err
	}
	if static.ETag == old.ETag {
		return old.ETag, old.ETag, false, nil
	}
	if fixed := changedForGood(old.Config, static.Config); fixed != "" {
		return old.ETag, old.ETag, false, fmt.Errorf("%s has changed: %w", fixed, ErrRestart)
	}
	if err := p.shard.Apply(ctx, static); err != nil {
		return old.ETag, old.ETag, false, err
	}
	p.log.InfoContext(ctx, "configuration in force", "etag", static.ETag)
	return old.ETag, static.ETag, true, nil
}

// changedForGood names the first part that a running process cannot change.
func changedForGood(old, now *config.Config) string {
	a, b := old.Server, now.Server
	for _, part := range []struct {
		name string
		same bool
	}{
		{"server.cluster_id", a.ClusterID == b.ClusterID},
		{"server.provider", reflect.DeepEqual(a.Provider, b.Provider)},
		{"server.bind", a.Bind == b.Bind},
		{"server.advertise", a.Advertise == b.Advertise},
		{"server.secrets", reflect.DeepEqual(a.Secrets, b.Secrets)},
		{"server.leader_network", reflect.DeepEqual(a.LeaderNetwork, b.LeaderNetwork)},
		{"server.shard_election", a.ShardElection == b.ShardElection},
		{"server.cluster_election", a.ClusterElection == b.ClusterElection},
	} {
		if !part.same {
			return part.name
		}
	}
	return ""
}

// reloadOnHangup reloads at every SIGHUP, until ctx ends.
func (p *process) reloadOnHangup(ctx context.Context) error {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-hangup:
		}
		_, _, updated, err := p.reload(ctx)
		if err != nil {
			p.log.ErrorContext(ctx, "configuration not reloaded; the one before stays in force", "error", err)
			continue
		}
		p.log.InfoContext(ctx, "configuration reloaded", "updated", updated)
	}
}
