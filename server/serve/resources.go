package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"nstance.dev/server/cache"
	"nstance.dev/server/calls"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/conns"
	"nstance.dev/server/driver"
	"nstance.dev/server/keyring"
	"nstance.dev/server/objectstore"
)

// resources are what a run opens before anything leads, as flags and configuration say,
// and closes at its end.
type resources struct {
	store   *objectstore.Probed
	storage *calls.Book  // of the calls to the store, since this server leads
	budget  conns.Budget // of connections
	keys    *keyring.Keyring
	drv     driver.Driver
	ls      *listeners
	cache   *cache.Cache
}

// open opens what a configuration names, all of it or nothing.
func (r *resources) open(ctx context.Context, opts Options, cfg *effective.Config, log *slog.Logger) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	if r.keys, err = keyring.New(ctx, r.store, cfg, log); err != nil {
		return err
	}
	if r.drv, err = newDriver(ctx, opts.Provider, cfg, log); err != nil {
		return err
	}
	if r.ls, err = listen(ctx, boundTo(cfg.Server, opts.BindHost), opts.AdvertiseHost, opts.Provider.FreePorts); err != nil {
		return err
	}
	r.cache, err = cache.Open(ctx, opts.cachePath(), cache.Options{Log: log})
	return err
}

// close closes what is open. Nobody uses it any more.
func (r *resources) close() error {
	if r.ls != nil {
		r.ls.close()
	}
	closeDriver(r.drv)
	if r.cache == nil {
		return nil
	}
	return r.cache.Close()
}

// newDriver makes the driver of a configuration.
func newDriver(ctx context.Context, p Provider, cfg *effective.Config, log *slog.Logger) (driver.Driver, error) {
	s := cfg.Server
	drv, err := p.New(ctx, Settings{
		Options: s.Provider.Options, Region: s.Provider.Region, Zone: s.Provider.Zone,
		Owner: driver.Owner{Cluster: s.ClusterID, Shard: s.Shard}, Log: log,
		LeaderNetwork: s.LeaderNetwork,
	})
	if err != nil {
		return nil, fmt.Errorf("provider %s: %w", p.Kind, err)
	}
	return drv, nil
}

// closeDriver closes what a driver, which may be nil, holds open. Nobody calls it any
// more.
func closeDriver(drv driver.Driver) {
	if c, ok := drv.(driver.Closer); ok {
		c.Close()
	}
}

// logOwnMachine logs which of the provider's machines this server runs on.
func logOwnMachine(ctx context.Context, drv driver.Driver, timeout time.Duration, log *slog.Logger) {
	self, ok := drv.(driver.SelfIdentifier)
	if !ok {
		return
	}
	callCtx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	id, err := self.SelfID(callCtx)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		log.WarnContext(ctx, "the provider does not say on which machine this server runs", "error", err)
	default:
		log.InfoContext(ctx, "this server runs on", "machine", id)
	}
}
