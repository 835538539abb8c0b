package serve

import (
	"context"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"nstance.dev/server/lease"
	"nstance.dev/server/operators"
	"nstance.dev/server/pki"
	"nstance.dev/server/rpc"
)

// api is one gRPC listener with its service.
type api struct {
	server *rpc.Server
	socket net.Listener
}

// serveAPIs answers agents and operators from the moment the cluster has keys.
// It goes on while the locks are released, so that callers are told where to go,
// and stops when tail ends.
func (p *process) serveAPIs(ctx, tail context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-p.keys.ready:
	}
	apis, err := p.apis()
	if err != nil {
		return err
	}
	g, tail := errgroup.WithContext(tail)
	g.Go(func() error { return p.operators.Run(tail) })
	for _, a := range apis {
		g.Go(func() error { return a.server.Serve(a.socket) })
		g.Go(func() error {
			<-tail.Done()
			limit, cancel := context.WithTimeout(context.WithoutCancel(tail), p.stopBudget())
			defer cancel()
			a.server.Stop(limit)
			return nil
		})
	}
	return g.Wait()
}

// stopBudget is how long calls under way may take when the process stops. The
// rest of the stop needs a second.
func (p *process) stopBudget() time.Duration {
	return max(p.static.Config.Server.ShutdownTimeout.Std()-time.Second, time.Second)
}

func (p *process) apis() ([]api, error) {
	c, err := p.credentials.get()
	if err != nil {
		return nil, err
	}
	opts := rpc.Options{
		Cluster: p.static.Config.Server.ClusterID, ShardName: p.opts.Shard, Version: p.opts.Version,
		Shard: p.shard, Operators: p.operators, Config: &refresher{p}, Leader: p.leaderAddrs,
		Verifier:    func() *pki.NonceVerifier { return p.keys.current().Verifier },
		Connections: p.budget,
		Metrics:     rpc.NewMetrics(p.status.registry), Reflection: p.opts.Debug, Log: p.log,
	}
	mutual := pki.MutualTLS(c.cert, c.roots, time.Now)
	return []api{
		{rpc.NewRegistrationServer(opts, pki.ServerTLS(c.cert)), p.ls.registration},
		{rpc.NewAgentServer(opts, mutual), p.ls.agent},
		{rpc.NewOperatorServer(opts, mutual), p.ls.operator},
	}, nil
}

func (p *process) newRegistry() *operators.Registry {
	return operators.New(operators.Options{
		Cluster: p.static.Config.Server.ClusterID, Store: p.store, Cache: p.cache, Log: p.log,
		Keys: func() *operators.Keys {
			keys := p.keys.current()
			if keys == nil {
				return nil
			}
			return &operators.Keys{Authority: keys.Authority, Verifier: keys.Verifier}
		},
		ClientTTL: func() time.Duration { return p.shard.Static().Config.Server.ClientCertTTL.Operator.Std() },
		HasTenant: func(name string) bool { return p.shard.Static().Config.HasTenant(name) },
	})
}

// leaderAddrs is where a standby sends its callers: nowhere, if nobody leads or
// this server itself is about to.
func (p *process) leaderAddrs() lease.Addrs {
	doc, ok := p.shardLock.leader()
	if !ok || doc.Released || doc.LeaderID == p.opts.ID {
		return lease.Addrs{}
	}
	return doc.Addrs
}

// addresses are the IP addresses that clients may dial: those of this box, and
// the advertised ones.
func (p *process) addresses() []netip.Addr {
	var out []netip.Addr
	for _, host := range p.advertisedHosts() {
		if addr, err := netip.ParseAddr(host); err == nil {
			out = append(out, addr)
		}
	}
	local, err := net.InterfaceAddrs()
	if err != nil {
		p.log.Warn("addresses of this box not known", "error", err)
	}
	for _, a := range local {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			out = append(out, prefix.Addr())
		}
	}
	return out
}

// serverHosts are the names and addresses of this server, and those at which the leaders
// of the shard and of the cluster are reached.
func (p *process) serverHosts() []string {
	out := p.advertisedHosts()
	for _, addr := range p.addresses() {
		out = append(out, addr.Unmap().String())
	}
	if name, err := os.Hostname(); err == nil {
		out = append(out, name)
	}
	for _, lock := range []*election{p.shardLock, p.cluster} {
		doc, ok := lock.leader()
		if !ok {
			continue
		}
		for _, addr := range []string{doc.Addrs.Registration, doc.Addrs.Operator, doc.Addrs.Agent} {
			if host, _, err := net.SplitHostPort(addr); err == nil {
				out = append(out, host)
			}
		}
	}
	return out
}

// hostnames are the names, not addresses, that clients are told.
func (p *process) hostnames() []string {
	var out []string
	for _, host := range p.advertisedHosts() {
		if _, err := netip.ParseAddr(host); err != nil {
			out = append(out, host)
		}
	}
	return out
}

func (p *process) advertisedHosts() []string {
	adv := p.ls.advertised
	var hosts []string
	for _, addr := range []string{p.ls.peers, adv.Registration, adv.Operator, adv.Agent} {
		if host, _, err := net.SplitHostPort(addr); err == nil {
			hosts = append(hosts, host)
		}
	}
	if leader := leaderHost(p.static.Config.Server); leader != "" {
		hosts = append(hosts, leader)
	}
	return hosts
}
