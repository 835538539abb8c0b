package session_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"nstance.dev/operator/controllers/demand/session"
	"nstance.dev/operator/shards"
	"nstance.dev/operator/shards/shardtest"
	"nstance.dev/protos/needs"
	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const tenant = "default"

// noSink hears nothing of the connections to the shards.
type noSink struct{}

func (noSink) StateChanged(string, shards.Status)             {}
func (noSink) Removed(string)                                 {}
func (noSink) GroupsListed(string, shards.GroupList)          {}
func (noSink) GroupEvent(string, *nstancev1.GroupEvent)       {}
func (noSink) InstancesListed(string, shards.InstanceList)    {}
func (noSink) InstanceEvent(string, *nstancev1.InstanceEvent) {}

// notes is what handlers and observer heard, in order, as words.
type notes struct {
	mu         sync.Mutex
	lines      []string
	failing    bool          // handlers that write fail
	block      chan struct{} // handlers that write wait for it; nil: they do not
	inflight   int
	most       int // that were in flight at once
	ticks      int
	reconnects int
	begun      []string // shards
	dropped    map[string]int
	sent       []int // bytes of roll-ups, references negative
}

func (n *notes) add(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, fmt.Sprintf(format, args...))
}

// take returns what was heard since the last call.
func (n *notes) take() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	lines := n.lines
	n.lines = nil
	return lines
}

// write is what a handler does that writes.
func (n *notes) write(ctx context.Context, format string, args ...any) error {
	n.mu.Lock()
	failing, block := n.failing, n.block
	n.mu.Unlock()
	if block != nil {
		select {
		case <-block:
		case <-ctx.Done():
			n.add("cancelled "+format, args...)
			return ctx.Err()
		}
	}
	if failing {
		return errors.New("the API server is away")
	}
	n.add(format, args...)
	return nil
}

func (n *notes) handlers() session.Handlers {
	return session.Handlers{
		Bootstrap: func(_ context.Context, shard string, r *demandpb.BootstrapRequest) *demandpb.BootstrapBlobResponse {
			return &demandpb.BootstrapBlobResponse{RequestId: r.GetRequestId(), UserData: []byte(shard + " " + r.GetMachineId())}
		},
		Reclaim: func(ctx context.Context, shard string, r *demandpb.ReclaimInstruction) *demandpb.ReclaimAck {
			if r.GetGracePeriodSeconds() != 30 {
				n.add("a grace of %ds", r.GetGracePeriodSeconds())
			}
			if n.write(ctx, "reclaim %s %s cancel=%t", shard, r.GetInstructionId(), r.GetCancel()) != nil {
				return nil
			}
			return &demandpb.ReclaimAck{InstructionId: r.GetInstructionId(), NodesStarted: 1}
		},
		NodeState: func(ctx context.Context, shard string, u *demandpb.NodeStateUpdate) error {
			return n.write(ctx, "state %s %s %s", shard, u.GetMachineId(), u.GetState())
		},
		SnapshotComplete: func(ctx context.Context, shard string, spoken func() []string) error {
			return n.write(ctx, "snapshot %s %v", shard, spoken())
		},
		Capacity: func(ctx context.Context, shard string, u *demandpb.AvailableCapacityUpdate) error {
			return n.write(ctx, "capacity %s %s %d", shard, u.GetFingerprint(), u.GetAvailableCount())
		},
		Resynced: func(shard string) { n.add("resynced %s", shard) },
		Opened:   func(shard string) { n.add("opened %s", shard) },
		Closed:   func(shard string) { n.add("closed %s", shard) },
		Rollup: func(shard string, a session.Answer) {
			n.add("rollup %s %d held=%t rejected=%t", shard, a.Sequence, a.Held, a.Rejected)
		},
	}
}

func (n *notes) observer() session.Observer {
	return session.Observer{
		Begins: func(shard string) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.begun = append(n.begun, shard)
		},
		Reconnect: func(string) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.reconnects++
		},
		Refused: func(_ context.Context, shard string, err error) { n.add("refused %s: %v", shard, err) },
		Dropped: func(_, kind string) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.dropped[kind]++
		},
		RollupSent: func(_ string, bytes, _ int, reference bool) {
			n.mu.Lock()
			defer n.mu.Unlock()
			if reference {
				bytes = -bytes
			}
			n.sent = append(n.sent, bytes)
		},
		Inflight: func(change int) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.inflight += change
			n.most = max(n.most, n.inflight)
		},
	}
}

// world is a cluster of shards and an operator's sessions with them.
type world struct {
	*shardtest.Cluster
	*notes
	t        *testing.T
	set      *shards.Set
	sessions *session.Sessions
}

// inWorld runs a test in a bubble with shard "a" at "a:1", and sessions that are opened once
// the set has a shard.
func inWorld(t *testing.T, test func(t *testing.T, w *world), changes ...func(*session.Options)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{Cluster: shardtest.NewCluster(t), notes: &notes{dropped: map[string]int{}}, t: t}
		w.Shard("a").Serve("a:1")
		w.set = shards.NewSet(shards.Options{
			Cluster: w.ID, Tenant: tenant, Credentials: w.Operator(tenant), Sink: noSink{}, Streams: []shards.Stream{shards.WatchGroups(noSink{}), shards.WatchInstances(noSink{})},
			Dial: w.DialContext, Random: middle,
		})
		options := session.Options{
			Cluster: w.ID, Tenant: tenant, Instance: "one", Handlers: w.handlers(), Observer: w.observer(), Random: middle,
		}
		for _, change := range changes {
			change(&options)
		}
		w.sessions = session.New(options)
		ctx, stop := context.WithCancel(t.Context())
		var loops sync.WaitGroup
		loops.Go(func() { _ = w.set.Run(ctx) })
		loops.Go(func() { _ = w.sessions.Run(ctx, w.set) })
		defer func() {
			stop()
			loops.Wait()
		}()
		test(t, w)
	})
}

func middle() float64 { return 0.5 }

// apply makes the set be these shards and lets time pass until all is quiet.
func (w *world) apply(names ...string) {
	var targets []shards.Target
	for _, name := range names {
		targets = append(targets, shards.Target{Shard: name, Addresses: []string{name + ":1"}})
	}
	w.set.Apply(targets)
	w.after(time.Millisecond)
}

func (w *world) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// shard is the shard's end of the sessions with "a".
func (w *world) shard() *shardtest.Demand { return w.Shard("a").Demand() }

// expect checks what was heard since the last call, in order.
func (w *world) expect(want ...string) {
	w.t.Helper()
	if got := w.take(); !slices.Equal(got, want) {
		w.t.Errorf("heard %q, want %q", got, want)
	}
}

// expectAll does so in any order.
func (w *world) expectAll(want ...string) {
	w.t.Helper()
	got := w.take()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		w.t.Errorf("heard %q, want %q", got, want)
	}
}

func (w *world) state(id string, state demandpb.MachineState, seq uint64) {
	w.shard().Tell(tenant, shardtest.StateMessage(machine(id, state, seq), 0))
}

func machine(id string, state demandpb.MachineState, seq uint64) *demandpb.NodeStateUpdate {
	return &demandpb.NodeStateUpdate{MachineId: id, State: state, StateSeq: seq}
}

func (w *world) capacity(fingerprint string, count int64) {
	w.shard().Tell(tenant, &demandpb.ShardMessage{Kind: &demandpb.ShardMessage_AvailableCapacity{AvailableCapacity: &demandpb.AvailableCapacityUpdate{
		Fingerprint: fingerprint, AvailableCount: count,
	}}})
}

func (w *world) reclaim(id string, cancel bool) {
	w.shard().Tell(tenant, &demandpb.ShardMessage{Kind: &demandpb.ShardMessage_ReclaimInstruction{ReclaimInstruction: &demandpb.ReclaimInstruction{
		InstructionId: id, Cancel: cancel,
	}}})
}

func (w *world) bootstrap(request string) {
	w.shard().Tell(tenant, &demandpb.ShardMessage{Kind: &demandpb.ShardMessage_BootstrapRequest{BootstrapRequest: &demandpb.BootstrapRequest{
		RequestId: request, MachineId: "m-" + request,
	}}})
}

// rows are so many rows that ask for as many cores each.
func rows(n int, cores int64) []*needs.Row {
	all := make([]*needs.Row, n)
	for i := range all {
		p := needs.Profile{Priority: int32(-i), Interruption: needs.Bucket(1), Reclamation: needs.Bucket(1)}.Normal()
		all[i] = &needs.Row{
			Profile: p, Fingerprint: p.Fingerprint(), Aggregate: []needs.Amount{{Name: "cpu", Amount: 1000 * cores}}, MinUnit: []needs.Amount{{Name: "cpu", Amount: 1000}},
		}
	}
	return all
}
