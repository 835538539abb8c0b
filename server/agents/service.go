package agents

import (
	"context"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/keylock"
)

// Service serves the agents for one leader's term. It is safe for concurrent use. What it
// does ends with the term and not with the call that has asked for it.
type Service struct {
	bindings // JoinCluster and LeaveCluster
	machines // SendWork

	opts    Options
	ctx     context.Context //nolint:containedctx // the leadership's: effects end with it, not with a caller
	handler handler         // this service

	streams     registry
	turns       turns
	thefts      thefts
	registering keylock.Locks[identity.ID]
	placing     sync.Mutex // held while a name or address is found free and taken
}

// New returns a service that nobody is connected to. Its effects end with ctx, which proves
// the lease.
func New(ctx context.Context, opts Options) *Service {
	a := &Service{opts: opts, ctx: ctx}
	a.handler = a
	a.streams = registry{metrics: opts.Metrics, streams: map[identity.ID]*stream{}, replaced: map[identity.ID]replacements{}}
	a.bindings = bindings{clusters: opts.Clusters, streams: &a.streams, turns: &a.turns, handler: &a.handler, log: opts.Log}
	a.machines = machines{told: opts.Machines, streams: &a.streams, turns: &a.turns, handler: &a.handler}
	return a
}

// line is what this service says on a stream by.
func (a *Service) line(s *stream) line { return line{s, &a.handler} }

// welcome tells the agent of an instance what holds for it.
func (a *Service) welcome(id identity.ID) *nstancev1.ServerMessage {
	row, known := a.opts.Cache.Instance(id)
	return &nstancev1.ServerMessage{Message: &nstancev1.ServerMessage_Welcome{Welcome: &nstancev1.Welcome{
		ServerVersion: a.opts.Version, Shard: a.opts.Shard, Term: int64(a.opts.Term),
		ReportInterval: durationpb.New(a.interval()), NoNodeMachine: known && !row.Machine.On,
	}}}
}

// interval is the time between two reports.
func (a *Service) interval() time.Duration {
	return a.opts.Config().Server.HealthCheckInterval.Std()
}
