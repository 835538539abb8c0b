package serve

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"nstance.dev/server/config/document"
	"nstance.dev/server/configsource"
	"nstance.dev/server/driver"
	"nstance.dev/server/operatorauth"
	"nstance.dev/server/peers"
	"nstance.dev/server/shard"
)

// server is what works in one run of a process, from the moment there is a
// configuration: its parts, wired to each other. Nothing of it outlives run.
type server struct {
	opts     Options
	cfg      document.Server // that the run began with
	log      *slog.Logger
	res      *resources
	status   *status
	proof    *proof
	restarts chan string // the part of the configuration that needs one; has room for one

	shard       *shard.Shard
	operators   *operatorauth.Registry
	config      *configsource.Reloader
	cluster     *election // its lock
	shardLock   *election
	credentials *wallet
	peering     *peering
	provider    *providerWatch
}

// newServer wires the server of a process that is open. It starts nothing.
func newServer(p *process, tracer trace.Tracer) (*server, error) {
	s := &server{
		opts: p.opts, cfg: p.static.Config.Server, log: p.log, res: p.res, status: p.status, proof: p.proof,
		restarts: make(chan string, 1),
	}
	s.credentials = newWallet(p.res.keys.Current, p.opts.ID, p.opts.Shard, p.res.ls, p.log)
	s.operators = operatorauth.New(operatorauth.Options{
		Cluster: s.cfg.ClusterID, Store: s.res.store, Cache: s.res.cache, Log: s.log, Keys: s.res.keys.Current,
		ClientTTL: func() time.Duration { return s.shard.Static().Config.Server.ClientCertTTL.Operator.Std() },
		HasTenant: func(name string) bool { return s.shard.Static().Config.HasTenant(name) },
	})
	s.shard = shard.New(shard.Options{
		Cluster: s.cfg.ClusterID, Shard: s.opts.Shard, Version: s.opts.Version,
		Store: s.res.store, Driver: s.res.drv, Cache: s.res.cache, Keys: s.res.keys.Current, Secrets: s.res.keys.MachineSecrets,
		Addresses:   func() driver.Addresses { return s.res.ls.advertised },
		ServerHosts: func() []string { return serverHosts(s.res.ls, s.log, s.shardLock, s.cluster) },
		Metrics:     shard.NewMetrics(s.status.registry), Drainers: s.operators, Log: s.log,
		ArchMismatch: p.source.ArchMismatch, Tracer: tracer,
	}, p.static)
	s.provider = &providerWatch{
		lease: s.cfg.ShardElection.LeaderTimeout.Std(), shard: s.shard, witness: new(peers.Witness),
		get: s.res.drv.Get, timeout: s.cfg.RequestTimeout.Std(), log: s.log, now: time.Now,
	}
	s.peering = newPeering(s.credentials, s.provider.lastWorked)
	if err := s.makeLocks(); err != nil {
		s.peering.close()
		return nil, err
	}
	s.provider.elector = s.shardLock
	trial := &trial{opts: s.opts, store: s.res.store, log: s.log, own: s.res.ls.has, haveKeys: func() bool { return s.res.keys.Current() != nil }}
	s.config = configsource.NewReloader(configsource.ReloaderOptions{
		Source: p.source, Target: s.shard, Unfit: p.unfit, Try: trial.start, Restart: s.restart,
		Leads: s.shardLock.leads, LeaderETag: s.peering.leaderConfig, Log: s.log,
	})
	return s, nil
}

// run runs the electors and listeners until ctx ends or one of them fails. A new
// service that is always there gets its goroutine here, and one that only a leader has
// in lead; what it answers on a port stands in apis.go.
func (s *server) run(ctx context.Context) error {
	defer s.peering.close()

	// The locks are released first, and what clients see ends after that.
	tail, stopTail := context.WithCancel(context.WithoutCancel(ctx))
	defer stopTail()
	g, ctx := errgroup.WithContext(ctx)
	var leads errgroup.Group
	leads.Go(func() error { return s.cluster.run(ctx) })
	leads.Go(func() error { return s.leadShard(ctx) })
	g.Go(func() error {
		defer stopTail()
		defer s.shard.EndParked()
		return leads.Wait()
	})
	g.Go(func() error { return s.res.keys.Run(ctx) })
	g.Go(func() error { return s.serveProbes(tail) })
	g.Go(func() error { return s.serveMetrics(tail) })
	g.Go(func() error { return s.serveAPIs(ctx, tail) })
	g.Go(func() error { return s.serveElection(ctx, tail) })
	if s.shardLock.elector != nil { // there is a lock that could be given up
		g.Go(func() error { return s.provider.run(ctx) })
	}
	g.Go(func() error { return reloadOnHangup(ctx, s.config, s.log) })
	g.Go(func() error { s.config.Follow(ctx); return nil })
	g.Go(func() error { return s.awaitRestart(ctx) })
	g.Go(func() error {
		logOwnMachine(ctx, s.res.drv, s.cfg.RequestTimeout.Std(), s.log)
		s.config.ConfirmTypes(ctx)
		return nil
	})
	return g.Wait()
}

// errRestart ends a server that is to start again, because the configuration has
// changed in a part that is read at a start alone.
var errRestart = errors.New("the server restarts")

// awaitRestart ends the server when a configuration asks for a start.
func (s *server) awaitRestart(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case part := <-s.restarts:
		s.log.InfoContext(ctx, "restarting, to put the configuration in force", "changed", part)
		return errRestart
	}
}

// restart has the server start again, soon.
func (s *server) restart(part string) {
	select {
	case s.restarts <- part:
	default: // it is about to
	}
}
