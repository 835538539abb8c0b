// Package shard is the part of a shard that host machines have to do with: the real
// server/hosts, for one leader's term after another, over object storage that outlives them.
//
// Agents are on the far side of [Shard.Take]: what a leader sends to one lies there until the
// simulator hands it over, in order, and is lost with the stream. What a leader tells an operator
// lies in a [Stream]. The simulator ends a term at any write, before it or after it.
//
// Its functions are called by one goroutine, and those of a leader's own do nothing but queue.
package shard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/cache"
	"nstance.dev/server/fleet"
	"nstance.dev/server/hostlogs"
	"nstance.dev/server/hosts"
	"nstance.dev/server/layout"
	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/memory"
)

// Name and Tenant are those of the shard and of whom its instances are.
const (
	Name   = "s1"
	Tenant = "default"
)

// ErrAway is what a call gets while nobody leads.
var ErrAway = errors.New("no leader answers")

// Write is what becomes of a write to object storage.
type Write int

// What may become of it.
const (
	Done    Write = iota
	Refused       // it has no effect, and the leader hears so
	Lost          // it has its effect, and no answer
	Before        // the leader ends, and it has no effect
	After         // the leader ends, and it has its effect
)

// Shard is a shard whose leaders come and go. New makes one.
type Shard struct {
	storage *memory.Store
	records map[identity.ID]*layout.InstanceRecord
	ids     []identity.ID
	term    uint64
	leader  *term

	mu     sync.Mutex
	judge  func(key string) Write
	wrote  func(key string, data []byte)
	logs   bytes.Buffer
	queues map[identity.ID][]*nstancev1.MachineWork
	open   map[identity.ID]bool
}

// term is one leader's.
type term struct {
	*hosts.Machines

	holds *hosts.Holds
	rows  *cache.Cache
	ctx   context.Context //nolint:containedctx // the leader's: everything of it ends with that
	stop  context.CancelFunc
	done  sync.WaitGroup
}

// New returns a shard of these instances that nobody leads. judge says what becomes of each write of
// an assignment; wrote sees those that were made.
func New(ids []identity.ID, judge func(key string) Write, wrote func(key string, data []byte)) *Shard {
	s := &Shard{ids: ids, records: map[identity.ID]*layout.InstanceRecord{}, judge: judge, wrote: wrote, queues: map[identity.ID][]*nstancev1.MachineWork{}, open: map[identity.ID]bool{}}
	s.storage = memory.New(memory.Options{
		OnWrite: func(w memory.Write) { s.wrote(w.Key, w.Data) },
		Faults: func(c memory.Call) memory.Fault {
			if c.Op != memory.OpPut && c.Op != memory.OpDelete {
				return memory.Fault{}
			}
			switch s.judge(c.Key) {
			case Refused:
				return memory.Fault{Before: objectstore.ErrUnavailable}
			case Lost:
				return memory.Fault{After: objectstore.ErrUnavailable}
			case Before:
				s.die()
				return memory.Fault{Before: objectstore.ErrUnavailable}
			case After:
				s.die()
				return memory.Fault{After: objectstore.ErrUnavailable}
			case Done:
			}
			return memory.Fault{}
		},
	})
	return s
}

// Write implements io.Writer for the logs of leaders.
func (s *Shard) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logs.Write(line)
}

// Logs are all that was ever logged.
func (s *Shard) Logs() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Clone(s.logs.Bytes())
}

// die ends the leader's term where it stands; [Shard.Dead] is true from then on.
func (s *Shard) die() {
	if s.leader != nil {
		s.leader.stop()
	}
}

// Leads reports whether somebody leads, and Dead whether who does has ended and was not taken away.
func (s *Shard) Leads() bool { return s.leader != nil && s.leader.ctx.Err() == nil }

// Dead reports whether the leader has ended and waits for [Shard.End].
func (s *Shard) Dead() bool { return s.leader != nil && s.leader.ctx.Err() != nil }

// Lead begins the next term.
func (s *Shard) Lead() error {
	rows, err := cache.Open(context.Background(), os.DevNull+"/none", cache.Options{})
	if err != nil {
		return fmt.Errorf("open cache: %w", err)
	}
	s.term++
	ctx, stop := context.WithCancel(context.Background())
	t := &term{rows: rows, ctx: ctx, stop: stop}
	metrics := hosts.NewMetrics(nil)
	t.holds = hosts.NewHolds(ctx, hosts.HoldOptions{
		Instances: records{s.records, rows}, LongestOff: func(cache.Instance) time.Duration { return 24 * time.Hour },
		Running: func(context.Context, identity.ID) (string, time.Time, error) { return "", time.Time{}, nil }, // nobody switches power here
		Members: t.members, Unavailable: func(err error) error { return err }, Metrics: metrics, Now: time.Now, Log: slog.New(slog.NewTextHandler(s, nil)),
	})
	writes := objectstore.RetryPolicy{Permit: func(ctx context.Context) error { return ctx.Err() }, Jitter: func() float64 { return 0.5 }} // the same in each run
	t.Machines = hosts.New(ctx, hosts.Options{
		Shard: Name, Term: s.term, Store: s.storage, Cache: rows,
		Logs:    hostlogs.New(hostlogs.Options{Shard: Name, Store: s.storage, Writes: writes, Now: time.Now, Log: slog.New(slog.NewTextHandler(s, nil))}),
		Writes:  writes,
		Agents:  func() hosts.Agents { return s },
		Go:      func(f func()) { t.done.Go(f) },
		Over:    func(err error) bool { return errors.Is(err, lease.ErrSuperseded) || errors.Is(err, context.Canceled) },
		Metrics: metrics, Now: time.Now, Log: slog.New(slog.NewTextHandler(s, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	for _, id := range s.ids {
		row := cache.Instance{
			Instance: fleet.Instance{ID: id, Group: fleet.GroupID{Tenant: Tenant, Name: "web"}, State: fleet.Running, Power: fleet.Up, RegisteredAt: time.Now()},
			Machine:  cache.Machine{On: true},
		}
		if err := rows.Insert(row); err != nil {
			return fmt.Errorf("instance %s: %w", id, err)
		}
	}
	s.leader = t
	t.done.Go(func() { _ = t.Run(ctx) })
	return nil
}

// End ends the term, and all streams with it.
func (s *Shard) End() {
	t := s.leader
	if t == nil {
		return
	}
	t.stop()
	t.done.Wait()
	_ = t.rows.Close()
	s.leader = nil
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.queues)
	clear(s.open)
}

// SendWork implements hosts.Agents.
func (s *Shard) SendWork(id identity.ID, w *nstancev1.MachineWork) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open[id] || len(s.queues[id]) >= 4 {
		return errors.New("there is no room")
	}
	s.queues[id] = append(s.queues[id], proto.CloneOf(w))
	return nil
}

// Connected reports whether the agent of an instance has a stream.
func (s *Shard) Connected(id identity.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[id]
}

// Connect opens the stream of an agent, Disconnect closes it: what lies in it is lost.
func (s *Shard) Connect(id identity.ID) {
	s.mu.Lock()
	s.open[id] = true
	s.mu.Unlock()
	s.leader.Greeted(id, true, "v1")
}

// Disconnect closes the stream of an agent.
func (s *Shard) Disconnect(id identity.ID) {
	s.mu.Lock()
	was := s.open[id]
	delete(s.open, id)
	delete(s.queues, id)
	s.mu.Unlock()
	if was && s.Leads() {
		s.leader.Disconnected(id)
	}
}

// Waits reports whether something lies in the stream of an agent, and Take takes the first of it out.
func (s *Shard) Waits(id identity.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queues[id]) > 0
}

// Take takes the first message out of the stream of an agent.
func (s *Shard) Take(id identity.ID) *nstancev1.MachineWork {
	s.mu.Lock()
	w := s.queues[id][0]
	s.queues[id] = slices.Delete(s.queues[id], 0, 1)
	s.mu.Unlock()
	if s.Leads() {
		s.leader.Wake(id)
	}
	return w
}

// Status hands the leader what a host reports.
func (s *Shard) Status(id identity.ID, status *nstancev1.MachineStatus) { s.leader.Status(id, status) }

// call makes a call of an operator.
func (s *Shard) call(id string, do func(*term, cache.Instance) error) error {
	if !s.Leads() {
		return ErrAway
	}
	row, _ := s.leader.rows.Instance(identity.ID(id))
	t := s.leader
	err := do(t, row)
	if t.ctx.Err() != nil {
		return ErrAway
	}
	return err
}

// PutAssignment implements the operator's Server, as do the next two.
func (s *Shard) PutAssignment(ctx context.Context, r *nstancev1.PutAssignmentRequest) error {
	return s.call(r.GetInstanceId(), func(t *term, row cache.Instance) error { return t.Put(ctx, row, r) })
}

// DeleteAssignment implements the operator's Server.
func (s *Shard) DeleteAssignment(ctx context.Context, r *nstancev1.DeleteAssignmentRequest) error {
	return s.call(r.GetInstanceId(), func(t *term, row cache.Instance) error { return t.Delete(ctx, row, r) })
}

// ConfirmNode implements the operator's Server.
func (s *Shard) ConfirmNode(ctx context.Context, r *nstancev1.ConfirmNodeRequest) error {
	return s.call(r.GetInstanceId(), func(t *term, row cache.Instance) error { return t.Confirm(ctx, row, r) })
}

// Stream is what a leader tells one operator.
type Stream struct {
	of   *term
	stop context.CancelFunc

	mu    sync.Mutex
	queue []*nstancev1.MachineEvent
}

// Open begins a stream with who leads now.
func (s *Shard) Open() *Stream {
	t := s.leader
	ctx, stop := context.WithCancel(t.ctx)
	out := &Stream{of: t, stop: stop}
	t.done.Go(func() {
		_ = t.Watch(ctx, Tenant, func(e *nstancev1.MachineEvent) error {
			out.mu.Lock()
			defer out.mu.Unlock()
			if e.GetType() != "heartbeat" {
				out.queue = append(out.queue, proto.CloneOf(e))
			}
			return ctx.Err()
		})
	})
	return out
}

// Over reports whether nothing comes any more, and Close ends the stream.
func (s *Stream) Over() bool { return s.of.ctx.Err() != nil }

// Close ends the stream.
func (s *Stream) Close() { s.stop() }

// Waits reports whether an event waits, and Take takes the first one out.
func (s *Stream) Waits() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue) > 0
}

// Take takes the first event out.
func (s *Stream) Take() *nstancev1.MachineEvent {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.queue[0]
	s.queue = slices.Delete(s.queue, 0, 1)
	return e
}
