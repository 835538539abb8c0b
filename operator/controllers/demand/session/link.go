package session

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"sync"
	"time"

	"nstance.dev/operator/shards"
	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
)

// link is one shard and what outlives its sessions.
type link struct {
	name  string
	shard *shards.Shard
	opts  Options
	log   *slog.Logger
	pool  *pool

	mu       sync.Mutex
	current  *session // that stands; nil: none does
	reclaims *lane[*demandpb.ReclaimInstruction]
}

func newLink(shard *shards.Shard, opts Options) *link {
	return &link{
		name: shard.Name(), shard: shard, opts: opts, log: opts.Log.With("shard", shard.Name()),
		pool: newPool(opts.Dispatch, opts.Observer.inflight), reclaims: newLane[*demandpb.ReclaimInstruction](),
	}
}

// run keeps a session open until ctx ends.
func (l *link) run(ctx context.Context) {
	l.opts.Observer.begins(l.name)
	defer l.opts.Observer.removed(l.name)
	defer l.pool.close()
	refused := "" // what was reported
	for failures := 0; ctx.Err() == nil; {
		began := l.opts.Now()
		stood, err := l.once(ctx)
		if ctx.Err() != nil {
			return
		}
		if stood {
			refused = ""
			if l.opts.Now().Sub(began) >= lived {
				failures = 0
			}
		}
		failures++
		pause := l.opts.Backoff.pause(failures, l.opts.Random())
		switch {
		case refusal(err):
			pause = l.opts.Backoff.most(l.opts.Random())
			if refused != err.Error() {
				refused = err.Error()
				l.opts.Observer.refused(ctx, l.name, err)
			}
			l.log.ErrorContext(ctx, "demand session refused", "error", err, "retry_in", pause.String())
		case withoutDemand(err):
			l.log.DebugContext(ctx, "no demand session: the shard has no group of mode demand", "retry_in", pause.String())
		default:
			l.log.InfoContext(ctx, "demand session ended", "reason", err, "stood", stood, "retry_in", pause.String())
		}
		l.opts.Observer.reconnect(l.name)
		if !sleep(ctx, pause) {
			return
		}
	}
}

// once opens a session and carries it until it ends; stood says whether the shard had agreed.
func (l *link) once(ctx context.Context) (stood bool, err error) {
	conn, err := l.shard.Open(ctx, l.opts.dial()...)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	c := newSession(l, conn.Address, func(r *demandpb.ReclaimInstruction) { l.reclaim(ctx, r) })
	err = conn.Cause(c.run(ctx, demandpb.NewShardServiceClient(conn)))
	return c.stood, err
}

// stand makes a session the one that stands, or ends that.
func (l *link) stand(c *session) {
	l.mu.Lock()
	l.current = c
	l.mu.Unlock()
}

func (l *link) session() *session {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current
}

// reclaim hands an instruction on. It is carried out whatever becomes of the session; its answer
// goes to the session that stands then.
func (l *link) reclaim(ctx context.Context, r *demandpb.ReclaimInstruction) {
	if l.opts.Handlers.Reclaim == nil {
		return
	}
	if r.GetGracePeriodSeconds() <= 0 {
		r.GracePeriodSeconds = int32(math.Ceil(l.opts.Grace.Seconds()))
	}
	id := r.GetInstructionId()
	l.mu.Lock()
	start := l.reclaims.arrived(id, r)
	l.mu.Unlock()
	if start {
		l.pool.do(true, func() { l.carryOut(ctx, id) })
	}
}

// carryOut carries out the newest instruction with an id, and begins again while there is one.
func (l *link) carryOut(ctx context.Context, id string) {
	l.mu.Lock()
	r, ok := l.reclaims.next(id)
	l.mu.Unlock()
	if !ok {
		return
	}
	began := l.opts.Now()
	ack := l.opts.Handlers.Reclaim(ctx, l.name, r)
	l.opts.Observer.handled(l.name, KindReclaim, "", l.opts.Now().Sub(began), nil)
	if ack != nil {
		if c := l.session(); c != nil {
			c.answer(KindReclaim, &demandpb.OperatorMessage{Kind: &demandpb.OperatorMessage_ReclaimAck{ReclaimAck: ack}})
		}
	}
	l.pool.do(true, func() { l.carryOut(ctx, id) })
}

// sleep waits, and reports whether ctx still goes on.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// Why the operator ends a session itself.
var (
	errNoAnswer = errors.New("the shard does not answer hello")
	errNoHello  = errors.New("the shard's first message does not acknowledge hello with a snapshot")
	errEnded    = errors.New("the shard ended the session")
)
