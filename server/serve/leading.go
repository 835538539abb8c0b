package serve

import (
	"context"
	"log/slog"
	"time"

	"nstance.dev/server/config/document"
	"nstance.dev/server/layout"
	"nstance.dev/server/lease"
	"nstance.dev/server/lease/handback"
	"nstance.dev/server/outbound"
)

// makeLocks makes what campaigns for the cluster and for the shard.
func (s *server) makeLocks() error {
	adv := s.res.ls.advertised
	addrs := lease.Addrs{Registration: adv.Registration, Operator: adv.Operator, Agent: adv.Agent}
	notes := handback.In(s.opts.CacheDir)
	if shortest, ok := s.shortestLease(); ok {
		outbound.Below(lease.Margin(shortest))
	}
	s.cluster = &election{}
	if c := s.cfg.ClusterElection; c.Enabled {
		opts := electorOptions(c, s.opts.ID, s.res.ls.peers, addrs, s.log)
		opts.Ask = s.peering.cluster.Ask
		opts.NothingStored = freshCluster(s.res.store)
		opts.Reclaim = reclaim(s.res.cache, layout.ClusterLeaderKey)
		opts.MinTerm = ownTerm(s.res.cache, layout.ClusterLeaderKey)
		opts.OnAcquire = s.leadCluster
		opts.OnWrite = noted(context.Background(), notes, layout.ClusterLeaderKey, s.log)
		elector, err := newElector(s.res.store, layout.ClusterLeaderKey, opts)
		if err != nil {
			return err
		}
		s.cluster.elector = elector
	}
	s.shardLock = &election{always: s.lead}
	if c := s.cfg.ShardElection; c.Enabled {
		key := layout.LeaderKey(s.opts.Shard)
		docs := shardDocuments{store: s.res.store, shard: s.opts.Shard}
		opts := electorOptions(c, s.opts.ID, s.res.ls.peers, addrs, s.log)
		opts.Ask = s.peering.shard.Ask
		opts.MinTerm = highest(docs.minTerm, ownTerm(s.res.cache, key))
		opts.NothingStored = docs.fresh
		opts.Reclaim = reclaim(s.res.cache, key)
		opts.OnAcquire = func(ctx context.Context, _ uint64) { s.lead(ctx) }
		opts.OnWrite = noted(context.Background(), notes, key, s.log)
		opts.OnFollow = func(lease.Document) {
			s.proof.give()
			s.shard.EndParked()
		}
		elector, err := newElector(s.res.store, key, opts)
		if err != nil {
			return err
		}
		s.shardLock.elector = elector
		s.status.registry.MustRegister(elector.Metrics(s.cfg.ClusterID, s.opts.Shard))
	}
	return nil
}

// shortestLease is the length of the lease that ends first; false where the server leads without one.
func (s *server) shortestLease() (shortest time.Duration, ok bool) {
	for _, c := range []document.Election{s.cfg.ClusterElection, s.cfg.ShardElection} {
		if l := c.LeaderTimeout.Std(); c.Enabled && (!ok || l < shortest) {
			shortest, ok = l, true
		}
	}
	return shortest, ok
}

// leadCluster makes the cluster's keys if there are none, and keeps leading.
func (s *server) leadCluster(ctx context.Context, term uint64) {
	s.res.cache.PutTerm(layout.ClusterLeaderKey, term)
	s.log.InfoContext(ctx, "leading the cluster", "term", term)
	s.res.keys.Lead(ctx)
	s.operators.Lead(ctx)
	<-ctx.Done()
}

// leadShard campaigns for the shard once the cluster has keys: without them a
// leader could neither make a machine nor let one in.
func (s *server) leadShard(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-s.res.keys.Ready():
	}
	return s.shardLock.run(ctx)
}

// lead carries the shard for as long as the leadership context lasts.
func (s *server) lead(ctx context.Context) {
	s.proof.give()
	s.res.storage.Open()
	term, _ := lease.Term(ctx)
	s.config.CatchUp(ctx)
	done := make(chan struct{})
	defer func() { <-done }()
	go func() {
		defer close(done)
		s.announce(ctx)
	}()
	if err := s.shard.Lead(ctx, term); err != nil {
		s.log.ErrorContext(ctx, "leading ended", "term", term, "error", err)
		s.shardLock.stepBack(err)
		<-ctx.Done()
	}
}

// announce tells the owner of the process when the shard is served.
func (s *server) announce(ctx context.Context) {
	if s.opts.OnServing == nil {
		return
	}
	term, err := s.shard.WaitForTerm(ctx)
	if err != nil {
		return
	}
	serving := &Serving{Term: term.Number(), term: term, keys: s.res.keys}
	adv := s.res.ls.advertised
	serving.Addrs.Health, serving.Addrs.Registration, serving.Addrs.Operator, serving.Addrs.Agent = adv.Health, adv.Registration, adv.Operator, adv.Agent
	s.opts.OnServing(ctx, serving)
}

// noted notes each version of a lock for the command release. Without the note the lease
// runs out by itself after a crash.
func noted(ctx context.Context, notes *handback.Notes, key string, log *slog.Logger) func(lease.Document) {
	return func(doc lease.Document) {
		if err := notes.Add(key, doc); err != nil {
			log.WarnContext(ctx, "lease can't be given back after a crash", "lock", key, "error", err)
		}
	}
}
