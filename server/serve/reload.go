package serve

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"reflect"
	"syscall"
	"time"

	"nstance.dev/server/bucket"
	"nstance.dev/server/config"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/refusal"
	"nstance.dev/server/shard"
)

// awaitRestart ends the server when a configuration asks for a start.
func (p *process) awaitRestart(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case part := <-p.restarts:
		p.log.InfoContext(ctx, "starting anew, to put the configuration in force", "changed", part)
		return errRestart
	}
}

// restart has the server start anew, soon.
func (p *process) restart(part string) {
	select {
	case p.restarts <- part:
	default: // it is about to
	}
}

// refresher reads the configuration again when a caller asks for it.
type refresher struct{ p *process }

// Refresh implements the operator service's part: a good configuration that
// differs is put in force, a bad one changes nothing (S19).
func (r *refresher) Refresh(ctx context.Context) (prev, now string, updated bool, err error) {
	return r.p.reloadAgain(ctx)
}

// Rejected implements the operator service's part.
func (r *refresher) Rejected() (etag, why string) { return r.p.source.rejected.get() }

// Check implements the operator service's part.
func (r *refresher) Check(ctx context.Context, data []byte) (cfg *config.Config, anew string, err error) {
	cfg, err = r.p.source.load(ctx, bucket.ConfigKey(r.p.source.flags.Shard), data)
	if err != nil {
		return nil, "", err
	}
	old := r.p.shard.Static().Config
	if cfg.Server.ClusterID != old.Server.ClusterID {
		return nil, "", errOtherCluster
	}
	return cfg, readAtStart(old, cfg), nil
}

// reload reads the stored configuration and puts it in force if it is another
// one: at once, or where a part has changed that is read at a start alone, by an
// orderly restart that begins when this returns. Reloads follow each other.
func (p *process) reload(ctx context.Context) (prev, now string, updated bool, err error) {
	p.reloading.Lock()
	defer p.reloading.Unlock()
	old := p.shard.Static()
	static, err := p.source.fetch(ctx)
	if err == nil {
		updated, err = p.replace(ctx, old, static)
	}
	p.reject(err)
	if !updated {
		return old.ETag, old.ETag, false, err
	}
	return old.ETag, static.ETag, true, nil
}

// reloadAgain is a reload that somebody asks for, who may have mended what made a
// start with the stored configuration fail.
func (p *process) reloadAgain(ctx context.Context) (prev, now string, updated bool, err error) {
	p.reloading.Lock()
	p.unfit = ""
	p.reloading.Unlock()
	return p.reload(ctx)
}

// replace puts a valid configuration in force if it differs from the one before, or
// has the server start anew with it.
func (p *process) replace(ctx context.Context, old, static shard.Static) (updated bool, err error) {
	part := readAtStart(old.Config, static.Config)
	switch {
	case static.ETag == old.ETag:
		return false, nil
	case static.Config.Server.ClusterID != old.Config.Server.ClusterID:
		return false, errOtherCluster
	case static.ETag == p.unfit:
		return false, notApplicable("the server could not start with it, its log says why")
	case part != "":
		if err := p.tryStart(ctx, static.Config); err != nil {
			return false, err
		}
		p.restart(part)
		return true, nil
	}
	if err := p.shard.Apply(ctx, static); err != nil {
		return false, err
	}
	p.keep(ctx, static.ETag)
	p.log.InfoContext(ctx, "configuration in force", "etag", static.ETag)
	return true, nil
}

// reject remembers that the stored configuration is not in force, or that it is. An
// error of storage says neither.
func (p *process) reject(err error) {
	var problems config.Problems
	var refused *refusal.Error
	switch {
	case err == nil:
		p.source.rejected.set("", "")
	case errors.As(err, &problems):
		p.source.rejected.set(p.source.lastJudged(), problems.Error())
	case errors.As(err, &refused) && refused.Reason == reasonNotApplicable:
		p.source.rejected.set(p.source.lastJudged(), refused.Message)
	}
}

// catchUp has a new leader begin with the stored configuration: as a standby it
// read its own at its start, and a size that was changed since then must not come
// back. It waits for storage, as the take-over itself does, until ctx ends; a
// configuration that cannot be put in force changes nothing (S19).
func (p *process) catchUp(ctx context.Context) {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		_, _, _, err := p.reload(ctx)
		switch {
		case err == nil, ctx.Err() != nil:
			return
		case !objectstore.Retryable(err):
			p.log.ErrorContext(ctx, "stored configuration not in force; the one before stays", "error", err)
			return
		}
		p.log.WarnContext(ctx, "stored configuration not read", "retry_in", wait, "error", err)
		if sleep(ctx, wait) != nil {
			return
		}
	}
}

// readAtStart names the first changed part that is read when a server starts and
// not later: what it listens on, talks to and is elected by.
func readAtStart(old, now *config.Config) string {
	a, b := old.Server, now.Server
	for _, part := range []struct {
		name string
		same bool
	}{
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
		_, _, updated, err := p.reloadAgain(ctx)
		if err != nil {
			p.log.ErrorContext(ctx, "configuration not reloaded; the one before stays in force", "error", err)
			continue
		}
		p.log.InfoContext(ctx, "configuration reloaded", "updated", updated)
	}
}
