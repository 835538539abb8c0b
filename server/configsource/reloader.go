package configsource

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"nstance.dev/server/config"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/jsonc"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/refusal"
	"nstance.dev/server/retry"
)

// Target is what a configuration is put in force in.
type Target interface {
	// Static returns the configuration in force.
	Static() config.Version
	// Apply puts another one in force. Where that fails the one before stays.
	Apply(ctx context.Context, v config.Version) error
	// Reevaluate has everything evaluated again, because more is known of what the
	// configuration in force names.
	Reevaluate()
}

// ReloaderOptions are what a Reloader needs. Fields without a default are required.
type ReloaderOptions struct {
	Source *Source
	Target Target
	// Unfit is the etag of a stored version with which this server could not start. It
	// is refused until somebody asks for a reload; empty: there is none.
	Unfit string
	// Try says why this server could not start with a valid configuration, as
	// [NotApplicable] does.
	Try func(ctx context.Context, cfg *effective.Config) error
	// Restart has the server start again with the stored configuration, soon: part has
	// changed. It returns at once, and may be called again.
	Restart func(part string)
	// Leads reports whether this server leads the shard.
	Leads func() bool
	// LeaderETag is the version that the leader has just told this server to be in force
	// there; false: it has not, and storage is asked.
	LeaderETag func() (etag string, ok bool)
	Log        *slog.Logger
}

// Reloader puts stored configurations in force. Make one with [NewReloader].
type Reloader struct {
	opts   ReloaderOptions
	source *Source
	target Target
	log    *slog.Logger

	mu       sync.Mutex // of one reload
	rejected string     // see ReloaderOptions.Unfit
}

// NewReloader makes a reloader, which does nothing by itself.
func NewReloader(opts ReloaderOptions) *Reloader {
	return &Reloader{opts: opts, source: opts.Source, target: opts.Target, log: opts.Log, rejected: opts.Unfit}
}

// reasonNotApplicable is the reason of a refusal to put a valid configuration in force.
const reasonNotApplicable = "CONFIG_NOT_APPLICABLE"

// NotApplicable refuses a stored configuration that is valid and can't be in force.
func NotApplicable(why string) error {
	return &refusal.Error{
		Code: refusal.FailedPrecondition, Reason: reasonNotApplicable,
		Message: why + "; the configuration before stays in force",
	}
}

var errOtherCluster = NotApplicable("server.cluster_id has changed, and certificates and records name the cluster that they are of; put the old name back")

// Reload reads the stored configuration and puts it in force if it is another
// one: at once, or where a part has changed that is read at a start alone, by an
// orderly restart that begins when this returns. A bad one changes nothing (S19).
func (r *Reloader) Reload(ctx context.Context) (prev, now string, updated bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.target.Static()
	version, err := r.source.fetch(ctx)
	if err == nil {
		updated, err = r.replace(ctx, old, version)
	}
	r.reject(err)
	if !updated {
		return old.ETag, old.ETag, false, err
	}
	return old.ETag, version.ETag, true, nil
}

// Refresh is a reload that somebody asks for, who may have mended what made a
// start with the stored configuration fail.
func (r *Reloader) Refresh(ctx context.Context) (prev, now string, updated bool, err error) {
	r.mu.Lock()
	r.rejected = ""
	r.mu.Unlock()
	return r.Reload(ctx)
}

// Rejected returns the etag of the stored version, and why it is not in force; empty
// where it is.
func (r *Reloader) Rejected() (etag, why string) { return r.source.Rejected() }

// Check checks a configuration without putting it in force. It names the part of it for
// which the server would restart, if there is one.
func (r *Reloader) Check(ctx context.Context, data []byte) (cfg *effective.Config, restart string, err error) {
	cfg, err = r.source.load(ctx, data)
	if err != nil {
		return nil, "", err
	}
	old := r.target.Static().Config
	if cfg.Server.ClusterID != old.Server.ClusterID {
		return nil, "", errOtherCluster
	}
	return cfg, readAtStart(old, cfg), nil
}

// replace puts a valid configuration in force if it differs from the one before, or
// has the server restart with it.
func (r *Reloader) replace(ctx context.Context, old, version config.Version) (updated bool, err error) {
	part := readAtStart(old.Config, version.Config)
	switch {
	case version.ETag == old.ETag:
		return false, nil
	case version.Config.Server.ClusterID != old.Config.Server.ClusterID:
		return false, errOtherCluster
	case version.ETag == r.rejected:
		return false, NotApplicable("the server could not start with it, its log says why")
	case part != "":
		if err := r.opts.Try(ctx, version.Config); err != nil {
			return false, err
		}
		r.opts.Restart(part)
		return true, nil
	}
	if err := r.target.Apply(ctx, version); err != nil {
		return false, err
	}
	r.source.Keep(ctx, version.ETag)
	r.log.InfoContext(ctx, "configuration in force", "etag", version.ETag)
	return true, nil
}

// reject remembers that the stored configuration is not in force, or that it is. An
// error of storage says neither.
func (r *Reloader) reject(err error) {
	var problems jsonc.Problems
	var refused *refusal.Error
	switch {
	case err == nil:
		r.source.Reject("", "")
	case errors.As(err, &problems):
		r.source.Reject(r.source.lastJudged(), problems.Error())
	case errors.As(err, &refused) && refused.Reason == reasonNotApplicable:
		r.source.Reject(r.source.lastJudged(), refused.Message)
	}
}

// CatchUp has a new leader begin with the stored configuration: as a standby it
// read its own at its start, and a size that was changed since then must not come
// back. It waits for storage, as the take-over itself does, until ctx ends; a
// configuration that cannot be put in force changes nothing (S19).
func (r *Reloader) CatchUp(ctx context.Context) {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		_, _, _, err := r.Reload(ctx)
		switch {
		case err == nil, ctx.Err() != nil:
			return
		case !objectstore.Retryable(err):
			r.log.ErrorContext(ctx, "stored configuration not in force; the one before stays", "error", err)
			return
		}
		r.log.WarnContext(ctx, "stored configuration not read", "retry_in", wait, "error", err)
		if retry.Wait(ctx, wait) != nil {
			return
		}
	}
}

// ConfirmTypes asks about the types of the configuration that this server began with,
// which was read before there was anybody to ask. It is in force: what does not fit is
// logged, and is a condition of its groups, and their creates fail. An edit with such
// a type is refused.
func (r *Reloader) ConfirmTypes(ctx context.Context) {
	if !r.source.types.learn(ctx) {
		return
	}
	r.target.Reevaluate()
	if _, err := r.source.fetch(ctx); err != nil && ctx.Err() == nil {
		r.log.ErrorContext(ctx, "the configuration in force would be refused now", "error", err)
	}
}

// readAtStart names the first changed part that is read when a server starts and
// not later: what it listens on, talks to and is elected by.
func readAtStart(old, now *effective.Config) string {
	a, b := old.Server, now.Server
	for _, part := range []struct {
		name string
		same bool
	}{
		{"server.provider", reflect.DeepEqual(a.Provider, b.Provider)},
		{"server.request_timeout", a.RequestTimeout == b.RequestTimeout}, // calls go on with the old one, and verdicts must not wait for less
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
