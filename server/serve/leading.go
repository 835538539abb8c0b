package serve

import (
	"context"

	"nstance.dev/server/bucket"
	"nstance.dev/server/driver"
	"nstance.dev/server/lease"
	"nstance.dev/server/shard"
)

// prepareLocks makes what campaigns for the cluster and for the shard.
func (p *process) prepareLocks() error {
	cfg := p.static.Config.Server
	addrs := lease.Addrs{
		Registration: p.ls.advertised.Registration, Operator: p.ls.advertised.Operator, Agent: p.ls.advertised.Agent,
	}
	p.cluster = &election{}
	if c := cfg.ClusterElection; c.Enabled {
		opts := electorOptions(c, p.opts.ID, p.ls.peers, addrs, p.log)
		opts.Ask = p.askCluster
		opts.FreshShard = freshCluster(p.store)
		opts.Reclaim = reclaim(p.cache, bucket.ClusterLeaderKey)
		opts.MinTerm = ownTerm(p.cache, bucket.ClusterLeaderKey)
		opts.OnAcquire = p.leadCluster
		elector, err := newElector(p.store, bucket.ClusterLeaderKey, opts)
		if err != nil {
			return err
		}
		p.cluster.elector = elector
	}
	p.shardLock = &election{always: p.lead}
	if c := cfg.ShardElection; c.Enabled {
		docs := shardDocuments{store: p.store, shard: p.opts.Shard}
		opts := electorOptions(c, p.opts.ID, p.ls.peers, addrs, p.log)
		opts.Ask = p.askShard
		opts.MinTerm = highest(docs.minTerm, ownTerm(p.cache, bucket.LeaderKey(p.opts.Shard)))
		opts.FreshShard = docs.fresh
		opts.Reclaim = reclaim(p.cache, bucket.LeaderKey(p.opts.Shard))
		opts.OnAcquire = func(ctx context.Context, _ uint64) { p.lead(ctx) }
		opts.OnFollow = func(lease.Document) {
			p.works()
			p.shard.EndParked()
		}
		elector, err := newElector(p.store, bucket.LeaderKey(p.opts.Shard), opts)
		if err != nil {
			return err
		}
		p.shardLock.elector = elector
	}
	return nil
}

// leadCluster makes the cluster's keys if there are none, and keeps leading.
func (p *process) leadCluster(ctx context.Context, term uint64) {
	p.cache.PutTerm(bucket.ClusterLeaderKey, term)
	p.log.InfoContext(ctx, "leading the cluster", "term", term)
	p.keys.lead(ctx)
	p.operators.Lead(ctx)
	<-ctx.Done()
}

// leadShard campaigns for the shard once the cluster has keys: without them a
// leader could neither make a machine nor let one in.
func (p *process) leadShard(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-p.keys.ready:
	}
	return p.shardLock.run(ctx)
}

// lead carries the shard for as long as the leadership context lasts.
func (p *process) lead(ctx context.Context) {
	p.works()
	term, _ := lease.Term(ctx)
	p.catchUp(ctx)
	done := make(chan struct{})
	defer func() { <-done }()
	go func() {
		defer close(done)
		p.announce(ctx)
	}()
	if err := p.shard.Lead(ctx, term); err != nil {
		p.log.ErrorContext(ctx, "leading ended", "term", term, "error", err)
		p.shardLock.stepBack(err)
		<-ctx.Done()
	}
}

func (p *process) shardOptions() shard.Options {
	return shard.Options{
		Cluster: p.static.Config.Server.ClusterID, Shard: p.opts.Shard, Version: p.opts.Version,
		Store: p.store, Driver: p.drv, Cache: p.cache, Keys: p.keys.current, Secrets: p.keys.machineSecrets,
		Addresses: func() driver.Addresses { return p.ls.advertised }, ServerHosts: p.serverHosts,
		Metrics: shard.NewMetrics(p.status.registry), Drainers: p.operators, Log: p.log,
		Misfit: p.source.types.misfit,
		Tracer: p.tracer,
	}
}
