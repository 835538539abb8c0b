package serve

import "context"

// followConfig keeps a standby's configuration that of storage, so that leading
// begins with it: it looks every infrequent_interval, until ctx ends, unless the
// leader has just said that it has the same in force. A leader does not look:
// whoever changes the configuration tells it.
func (p *process) followConfig(ctx context.Context) error {
	reported := ""
	for {
		interval := p.shard.Static().Config.Server.ShardElection.InfrequentInterval.Std()
		if sleep(ctx, interval) != nil {
			return nil //nolint:nilerr // the end of ctx is the end of the task
		}
		if p.shardLock.leads() {
			continue
		}
		err := p.followOnce(ctx)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // as above
		case err == nil:
			reported = ""
		case err.Error() != reported:
			reported = err.Error()
			p.log.ErrorContext(ctx, "stored configuration not in force; the one before stays", "error", err)
		}
	}
}

// followOnce puts the stored configuration in force if it is one that was not
// judged yet: a bad one is an error once.
func (p *process) followOnce(ctx context.Context) error {
	if leader, ok := p.peering.leaderETags(); ok && p.source.hasJudged(leader.Config) {
		return nil // storage need not be asked
	}
	changed, err := p.source.changed(ctx)
	if err != nil || !changed {
		return err
	}
	_, _, _, err = p.reload(ctx)
	return err
}
