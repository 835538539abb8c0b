package serve

import (
	"context"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"nstance.dev/protos/identity"
	"nstance.dev/server/lease"
	"nstance.dev/server/peers"
	"nstance.dev/server/pki"
	"nstance.dev/server/rpc"
)

// api is one gRPC listener with its services.
type api struct {
	server *rpc.Server
	socket net.Listener
}

// apis are the gRPC listeners. The services of each are registered by its constructor
// in package rpc.
func (s *server) apis(c *credentials) []api {
	opts := rpc.Options{
		Cluster: s.cfg.ClusterID, ShardName: s.opts.Shard, Version: s.opts.Version,
		Shard: s.shard, Operators: s.operators, Config: s.config,
		Leader: func() lease.Addrs { return s.shardLock.elsewhere(s.opts.ID) },
		Held:   s.shardLock.held, StorageCalls: s.res.storage.Stats,
		Verifier:    func() *pki.NonceVerifier { return s.res.keys.Current().Verifier },
		Connections: s.res.budget,
		Metrics:     rpc.NewMetrics(s.status.registry), Reflection: s.opts.Debug, Log: s.log,
	}
	mutual := pki.MutualTLS(c.cert, c.roots, time.Now)
	return []api{
		{rpc.NewRegistrationServer(opts, pki.ServerTLS(c.cert)), s.res.ls.registration},
		{rpc.NewAgentServer(opts, mutual), s.res.ls.agent},
		{rpc.NewOperatorServer(opts, mutual), s.res.ls.operator},
	}
}

// serveAPIs answers agents and operators from the moment the cluster has keys.
// It goes on while the locks are released, so that callers are told where to go,
// and stops when tail ends.
func (s *server) serveAPIs(ctx, tail context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-s.res.keys.Ready():
	}
	c, err := s.credentials.get()
	if err != nil {
		return err
	}
	apis := s.apis(c)
	g, tail := errgroup.WithContext(tail)
	g.Go(func() error { return s.operators.Run(tail) })
	for _, a := range apis {
		g.Go(func() error { return a.server.Serve(a.socket) })
		g.Go(func() error {
			<-tail.Done()
			limit, cancel := context.WithTimeout(context.WithoutCancel(tail), stopBudget(s.cfg.ShutdownTimeout.Std()))
			defer cancel()
			a.server.Stop(limit)
			return nil
		})
	}
	return g.Wait()
}

// stopBudget is how long calls under way may take when the process stops. The
// rest of the stop needs a second.
func stopBudget(shutdown time.Duration) time.Duration { return max(shutdown-time.Second, time.Second) }

// serveElection tells other servers and scripts whether this one leads, from the
// moment the cluster has keys. It goes on while the locks are released.
func (s *server) serveElection(ctx, tail context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-s.res.keys.Ready():
	}
	c, err := s.credentials.get()
	if err != nil {
		return err
	}
	name := identity.ServerName(s.opts.Shard, s.cfg.ClusterID)
	h := peers.Handler(peers.HandlerOptions{
		Shard: s.shardLock.held, Cluster: s.cluster.held, ETags: s.etags, Witness: s.provider.witness,
		Standby: func(r *http.Request) bool { return pki.IsServer(r.TLS, c.roots, name, s.peering.now()) },
	})
	return peers.Serve(tail, s.res.ls.election, s.res.budget.Election, pki.PeerServerTLS(c.cert), h, s.log)
}

// etags are the versions in force here.
func (s *server) etags() peers.ETags {
	etags := peers.ETags{Config: s.shard.Static().ETag}
	if term, err := s.shard.Term(); err == nil {
		etags.Groups = term.GroupsETag()
	}
	return etags
}

// serveProbes answers probes, and Prometheus where both have one address.
func (s *server) serveProbes(ctx context.Context) error {
	h := s.status.probes()
	if s.cfg.Bind.Metrics == s.cfg.Bind.Health {
		h = s.status.metrics(h)
	}
	return serveHTTP(ctx, s.res.ls.health, s.res.budget.Health, h)
}

// serveMetrics answers Prometheus, where metrics have an address of their own.
func (s *server) serveMetrics(ctx context.Context) error {
	if s.res.ls.metrics == nil {
		return nil
	}
	s.log.InfoContext(ctx, "serving metrics", "address", s.res.ls.metrics.Addr())
	return serveHTTP(ctx, s.res.ls.metrics, s.res.budget.Metrics, s.status.metrics(http.NewServeMux()))
}
