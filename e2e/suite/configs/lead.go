package configs

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"nstance.dev/server/cache"
	"nstance.dev/server/config"
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/layout"
	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore/memory"
	"nstance.dev/server/pki"
	"nstance.dev/server/shard"
)

// Lead runs one server with a configuration until it serves the shard, and a minute
// longer, on the clock that the caller has: a fake one. The error says why it did not
// come to lead, or that it stopped by itself.
func Lead(ctx context.Context, cfg *effective.Config, keys *pki.Keys) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	quiet := slog.New(slog.DiscardHandler)
	store := memory.New(memory.Options{})
	c, err := cache.Open(ctx, os.DevNull+"/none", cache.Options{Log: quiet})
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // it lives in memory
	s := shard.New(shard.Options{
		Cluster: cfg.Server.ClusterID, Shard: cfg.Server.Shard, Version: "test", Log: quiet, Cache: c,
		Store: store, Keys: func() *pki.Keys { return keys },
		Driver:    drivertest.New(drivertest.Options{Limits: driver.Limits{Calls: driver.Bucket{Rate: 10, Burst: 10}}}),
		Addresses: func() driver.Addresses { return driver.Addresses{} },
	}, config.Version{Config: cfg})
	failed := make(chan error, 2)
	lead := func(ctx context.Context, term uint64) {
		if err := s.Lead(ctx, term); err != nil {
			failed <- fmt.Errorf("lead: %w", err)
		}
	}
	done := make(chan struct{})
	defer func() { cancel(); <-done }()
	if err := electorOf(cfg.Server.ClusterElection).Validate(); err != nil {
		close(done)
		return fmt.Errorf("lock of the cluster: %w", err)
	}
	e := cfg.Server.ShardElection
	if !e.Enabled {
		go func() { defer close(done); lead(lease.Always(ctx, 1), 1) }()
	} else {
		opts := electorOf(e)
		opts.Log, opts.OnAcquire = quiet, lead
		began := time.Now()
		opts.Elapsed = func() time.Duration { return time.Since(began) }
		opts.NothingStored = func(context.Context) (bool, error) { return true, nil }
		elector, err := lease.New(store, layout.LeaderKey(cfg.Server.Shard), opts)
		if err != nil {
			close(done)
			return fmt.Errorf("lock of the shard: %w", err)
		}
		go func() {
			defer close(done)
			if err := elector.Run(ctx); err != nil {
				failed <- err
			}
		}()
	}
	return serves(ctx, s, failed)
}

// electorOf are the options of an elector as a server sets them.
func electorOf(e document.Election) lease.Options {
	return lease.Options{
		ID: "a", LeaderAddr: "a:1", Lease: e.LeaderTimeout.Std(), Renew: e.FrequentInterval.Std(),
		Poll: e.PeerInterval.Std(), Recheck: e.InfrequentInterval.Std(),
	}
}

// serves waits until the shard is served, and for a minute of it.
func serves(ctx context.Context, s *shard.Shard, failed <-chan error) error {
	limit, cancel := context.WithTimeout(ctx, 2*lease.MaxLease)
	defer cancel()
	served := make(chan error, 1)
	go func() {
		_, err := s.WaitForTerm(limit)
		served <- err
	}()
	select {
	case err := <-failed:
		return err
	case err := <-served:
		if err != nil {
			return fmt.Errorf("it does not lead: %w", err)
		}
	}
	select {
	case err := <-failed:
		return err
	case <-time.After(time.Minute):
		return nil
	}
}
