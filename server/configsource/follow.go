package configsource

import (
	"context"

	"nstance.dev/server/retry"
)

// Follow keeps a standby's configuration that of storage, so that leading
// begins with it: it looks every infrequent_interval, until ctx ends, unless the
// leader has just said that it has the same in force. A leader does not look:
// whoever changes the configuration tells it.
func (r *Reloader) Follow(ctx context.Context) {
	reported := ""
	for {
		interval := r.target.Static().Config.Server.ShardElection.InfrequentInterval.Std()
		if retry.Wait(ctx, interval) != nil {
			return
		}
		if r.opts.Leads() {
			continue
		}
		err := r.followOnce(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			reported = ""
		case err.Error() != reported:
			reported = err.Error()
			r.log.ErrorContext(ctx, "stored configuration not in force; the one before stays", "error", err)
		}
	}
}

// followOnce puts the stored configuration in force if it is one that was not
// judged yet: a bad one is an error once.
func (r *Reloader) followOnce(ctx context.Context) error {
	if etag, ok := r.opts.LeaderETag(); ok && r.source.hasJudged(etag) {
		return nil // storage need not be asked
	}
	changed, err := r.source.changed(ctx)
	if err != nil || !changed {
		return err
	}
	_, _, _, err = r.Reload(ctx)
	return err
}
