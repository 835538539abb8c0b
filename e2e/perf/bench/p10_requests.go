package bench

import (
	"context"
	"crypto/x509"
	"fmt"
	"sync/atomic"
	"time"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/layout"
	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore/memory"
)

// P10: requests to storage.
//
// Ours: a leader with a thousand instances, whose agents are connected and report;
// one hour on a fake clock, in which nothing changes. Its requests include the
// renewals of its lease. Then the writes and deletions of the records of a hundred
// instances, from birth until nothing is left of them.
//
// Floor: the renewals that an hour needs; four writes, and one deletion.
//
// Goal: 1.05 times the renewals, and neither more writes nor more deletions.
const (
	quietSpell  = time.Hour
	quietOnes   = 1000
	shortLives  = 100
	renewEvery  = 5 * time.Second
	lifeWrites  = 4
	lifeDeletes = 1
)

// The tests that count on a fake clock, and the attributes in which they tell.
const (
	quietHourTest = "TestP10_AQuietHourCostsTheRenewals"
	lifeTest      = "TestP10_ALifeIsFourWritesAndADeletion"
	requestsTold  = "requests"
	writesTold    = "writes"
	deletesTold   = "deletes"
)

func measureRequests(ctx context.Context, env Env) ([]Row, error) {
	hour, err := told(ctx, env, quietHourTest, requestsTold)
	if err != nil {
		return nil, err
	}
	writes, err := told(ctx, env, lifeTest, writesTold)
	if err != nil {
		return nil, err
	}
	deletes, err := told(ctx, env, lifeTest, deletesTold)
	if err != nil {
		return nil, err
	}
	return []Row{
		{
			Name: "requests of a quiet hour, 1,000 instances", Unit: "1", Ours: hour, Floor: float64(quietSpell / renewEvery),
			Against: "renewals of the lease", Goal: AtMost(1.05),
		},
		{Name: "writes in a life", Unit: "1", Ours: writes, Floor: lifeWrites, Against: "the promise", Goal: AtMost(1)},
		{Name: "deletions in a life", Unit: "1", Ours: deletes, Floor: lifeDeletes, Against: "the promise", Goal: AtMost(1)},
	}, nil
}

// requests counts what is asked of a store, by operation.
type requests [4]atomic.Int64

// of is how many requests of one kind there were.
func (r *requests) of(op memory.Op) int64 { return r.counter(op).Load() }

func (r *requests) counter(op memory.Op) *atomic.Int64 {
	switch op {
	case memory.OpGet:
		return &r[0]
	case memory.OpPut:
		return &r[1]
	case memory.OpDelete:
		return &r[2]
	default:
		return &r[3] // listings
	}
}

func (r *requests) all() (n int64) {
	for i := range r {
		n += r[i].Load()
	}
	return n
}

// count has a store count the requests whose keys begin with the prefix.
func (r *requests) count(store *memory.Store, of func(key string) bool) {
	store.SetFaults(func(c memory.Call) memory.Fault {
		if of(c.Key) {
			r.counter(c.Op).Add(1)
		}
		return memory.Fault{}
	})
}

// elect has a shard lead under a lease that it must renew, and waits until it
// serves. The returned function ends that.
func (w *world) elect(ctx context.Context) (stop func() error, err error) {
	elector, err := lease.New(w.store, layout.LeaderKey(shardName), lease.Options{
		ID: "server-1", LeaderAddr: "127.0.0.1:1", Renew: renewEvery, Log: quiet,
		NothingStored: func(context.Context) (bool, error) { return true, nil },
		OnAcquire:     func(leading context.Context, term uint64) { w.led <- w.shard.Lead(leading, term) },
	})
	if err != nil {
		return nil, err
	}
	electing, end := context.WithCancel(w.ctx)
	ended := make(chan error, 1)
	go func() { ended <- elector.Run(electing) }()
	w.term, err = w.shard.WaitForTerm(ctx)
	return func() error { end(); return <-ended }, err
}

// resident is a machine whose agent is connected without a network: it reports at
// the shard's interval, and takes what it is sent.
type resident struct {
	ctx   context.Context //nolint:containedctx // of the stream
	id    identity.ID
	hash  string
	every time.Duration
	said  int64
	news  chan *nstancev1.TerminationNotice
}

// warn has the agent report at once that its machine will be interrupted.
func (r *resident) warn(n *nstancev1.TerminationNotice) { r.news <- n }

// settle registers the agents of booted machines, and keeps them connected until
// ctx ends.
func (n *nursery) settle(ctx context.Context, w *world, agents []*agent, every time.Duration) ([]*resident, error) {
	if err := w.registerAll(ctx, agents); err != nil {
		return nil, err
	}
	residents := make([]*resident, 0, len(agents))
	for _, a := range agents {
		r := &resident{ctx: ctx, id: a.id, hash: a.hash, every: every, news: make(chan *nstancev1.TerminationNotice, 1)}
		certificate, err := x509.ParseCertificate(a.certificate.Certificate[0])
		if err != nil {
			return nil, fmt.Errorf("agent %s: %w", a.id, err)
		}
		peer, err := identity.PeerFromCertificate(certificate)
		if err != nil {
			return nil, fmt.Errorf("agent %s: %w", a.id, err)
		}
		go func() { _ = w.term.Agents().Connect(&peer, r) }() // ends with ctx
		residents = append(residents, r)
	}
	return residents, nil
}

// Context implements agents.Conn.
func (r *resident) Context() context.Context { return r.ctx }

// Send implements agents.Conn.
func (r *resident) Send(*nstancev1.ServerMessage) error { return nil }

// Recv implements agents.Conn.
func (r *resident) Recv() (*nstancev1.AgentMessage, error) {
	r.said++
	switch r.said {
	case 1:
		return helloOf(r.id), nil
	case 2:
		return r.report(), nil
	}
	select {
	case <-time.After(r.every):
		return r.report(), nil
	case notice := <-r.news:
		msg := r.report()
		msg.GetReport().TerminationNotice = notice
		return msg, nil
	case <-r.ctx.Done():
		return nil, context.Cause(r.ctx)
	}
}

func (r *resident) report() *nstancev1.AgentMessage {
	msg := reportOf(r.id, r.hash)
	msg.GetReport().Count = r.said - 1
	return msg
}
