package demandoperator

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Options are the surroundings of an Operator; all are required.
type Options struct {
	// Dial opens a connection to the leader, as the operator of the tenant. The operator closes it.
	Dial    func() (*grpc.ClientConn, error)
	Cluster string // that the shard belongs to
	Tenant  string
	// Machines is the directory with the directories of the machines, Nodes one that is there for the Nodes.
	Machines, Nodes string
}

// Operator is the operator of one cluster. Its methods are safe for concurrent use.
type Operator struct {
	t    testing.TB
	opts Options

	mu       sync.Mutex
	session  *session // nil: none stands
	opened   int      // sessions
	ended    string   // why the last session did
	needs    []*demandpb.CapacityNeed
	changed  bool // needs have not been sent
	mute     bool // no roll-up is sent
	machines map[string]*demandpb.NodeStateUpdate
	cluster  cluster
	frames   Frames
	failing  failing
	wrong    []string
}

// failing is what still has to go wrong.
type failing struct {
	blobs int // answers with an error
	joins int // programs that do not make their machine join
}

// session is one that stands.
type session struct {
	stream   demandpb.ShardService_SessionClient
	api      nstancev1.OperatorServiceClient
	sequence uint64
	whole    uint64 // the last one with all rows
	told     time.Time
	invalid  bool // a roll-up that must be rejected was sent
}

const (
	tick      = 100 * time.Millisecond
	heartbeat = time.Second
)

// Start starts an operator that asks for nothing. It ends with the test.
func Start(t testing.TB, opts Options) *Operator {
	o := &Operator{t: t, opts: opts, machines: map[string]*demandpb.NodeStateUpdate{}, cluster: newCluster(opts.Nodes), frames: Frames{}}
	ctx := t.Context() // has ended when the clean-up begins
	var loops sync.WaitGroup
	loops.Go(func() { o.run(ctx) })
	loops.Go(func() {
		for ctx.Err() == nil {
			o.tick()
			pause(ctx, tick)
		}
	})
	t.Cleanup(loops.Wait)
	return o
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// run has a session with whoever leads.
func (o *Operator) run(ctx context.Context) {
	for ctx.Err() == nil {
		conn, err := o.opts.Dial()
		if err == nil {
			o.serve(ctx, conn)
			_ = conn.Close() // its streams have ended
		}
		pause(ctx, tick)
	}
}

// lastWord is how long the server has to end a session whose stream of instances has ended.
const lastWord = time.Second

// serve carries one session, and the stream of instances beside it, until either ends.
func (o *Operator) serve(ctx context.Context, conn *grpc.ClientConn) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := demandpb.NewShardServiceClient(conn).Session(ctx)
	if err != nil {
		return
	}
	hello := &demandpb.Hello{
		ClusterId: o.opts.Cluster, Tenant: o.opts.Tenant, ProtocolVersion: "v1alpha1", OperatorInstance: "scripted",
		Capabilities: []string{"node-reports", "refuse-reclaim", "cancel-reclaim"},
	}
	if stream.Send(&demandpb.OperatorMessage{Kind: &demandpb.OperatorMessage_Hello{Hello: hello}}) != nil {
		return
	}
	first, err := stream.Recv()
	if err != nil || first.GetAck().GetKind() != demandpb.Acknowledgement_KIND_HELLO {
		return
	}
	api := nstancev1.NewOperatorServiceClient(conn)
	o.begin(&session{stream: stream, api: api}, first)
	defer o.end()
	var beside sync.WaitGroup
	defer beside.Wait()
	defer cancel()
	beside.Go(func() {
		defer cancel()
		o.watch(ctx, api)
		pause(ctx, lastWord)
	})
	for {
		m, err := stream.Recv()
		if err != nil {
			o.mu.Lock()
			o.ended = err.Error()
			o.mu.Unlock()
			return
		}
		o.receive(m)
	}
}

func (o *Operator) begin(s *session, hello *demandpb.ShardMessage) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.frames.sent("hello")
	o.frames.received(hello)
	o.session, o.changed = s, true
	o.opened++
	o.machines = map[string]*demandpb.NodeStateUpdate{} // the snapshot says which there are
	o.cluster.reported = map[string]report{}
}

func (o *Operator) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.session = nil
}

// watch hears of instances that are to go.
func (o *Operator) watch(ctx context.Context, api nstancev1.OperatorServiceClient) {
	events, err := api.WatchInstances(ctx, &nstancev1.WatchInstancesRequest{CoordinatesDrains: true})
	for err == nil {
		var e *nstancev1.InstanceEvent
		if e, err = events.Recv(); err == nil && e.GetStatus() == "pending_deletion" {
			o.mu.Lock()
			o.cluster.condemn(e.GetInstanceId())
			o.mu.Unlock()
		}
	}
}

// receive takes in what the shard says.
func (o *Operator) receive(m *demandpb.ShardMessage) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.frames.received(m)
	switch kind := m.GetKind().(type) {
	case *demandpb.ShardMessage_BootstrapRequest:
		o.bootstrap(kind.BootstrapRequest)
	case *demandpb.ShardMessage_ReclaimInstruction:
		o.reclaim(kind.ReclaimInstruction)
	case *demandpb.ShardMessage_NodeStateUpdate:
		o.state(kind.NodeStateUpdate)
	}
}

func (o *Operator) state(u *demandpb.NodeStateUpdate) {
	id := u.GetMachineId()
	if before := o.machines[id]; before != nil && before.GetStateSeq() > u.GetStateSeq() {
		o.wrong = append(o.wrong, fmt.Sprintf("state %d of %s came after %d", u.GetStateSeq(), id, before.GetStateSeq()))
	}
	if u.GetState() == demandpb.MachineState_MACHINE_STATE_DELETED {
		delete(o.machines, id)
		o.cluster.lose(id)
		return
	}
	o.machines[id] = u
}

// bootstrap answers with what makes a machine a Node of the cluster, and what makes it leave.
func (o *Operator) bootstrap(r *demandpb.BootstrapRequest) {
	answer := &demandpb.BootstrapBlobResponse{RequestId: r.GetRequestId(), TtlSeconds: 60}
	switch {
	case o.failing.blobs > 0:
		o.failing.blobs--
		answer.Error = "the cluster has no token at the moment"
	case o.failing.joins > 0:
		o.failing.joins--
		answer.UserData = []byte("#!/bin/sh\nexit 7\n")
	default:
		answer.UserData = []byte(o.cluster.script(o.opts.Machines, r.GetMachineId()))
	}
	o.send("bootstrap_response", &demandpb.OperatorMessage{Kind: &demandpb.OperatorMessage_BootstrapResponse{BootstrapResponse: answer}})
}

// reclaim answers an instruction.
func (o *Operator) reclaim(r *demandpb.ReclaimInstruction) {
	for _, target := range r.GetTargets() {
		id := target.GetMachineId()
		if r.GetCancel() {
			o.cluster.uncordon(id)
			continue
		}
		ack := &demandpb.ReclaimAck{InstructionId: r.GetInstructionId()}
		switch {
		case r.GetVoluntary() && o.cluster.refusals > 0:
			o.cluster.refusals--
			ack.NodesRefused = []*demandpb.Refusal{{MachineId: id, Reason: "its Pods find no other place", RetryAfterSeconds: 2}}
		case o.cluster.drain(id, r.GetInstructionId(), r.GetVoluntary()):
			ack.NodesStarted = 1
		}
		o.send("reclaim_ack", &demandpb.OperatorMessage{Kind: &demandpb.OperatorMessage_ReclaimAck{ReclaimAck: ack}})
	}
}

// send sends a frame, if a session stands. That it has broken is seen where it is received from.
func (o *Operator) send(frame string, m *demandpb.OperatorMessage) {
	if o.session == nil {
		return
	}
	if err := o.session.stream.Send(m); err == nil {
		o.frames.sent(frame)
	}
}

// tick lets the cluster do what is due, and reports it.
func (o *Operator) tick() {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	finished := o.cluster.step(o.machines)
	s := o.session
	if s == nil {
		return
	}
	rolled := o.rollup(s, now)
	reports := o.cluster.reports(o.machines, rolled)
	for _, d := range finished {
		reports = append(reports, d.report())
	}
	for len(reports) > 0 {
		n := min(len(reports), 200)
		o.send("node_reports", &demandpb.OperatorMessage{Kind: &demandpb.OperatorMessage_NodeReports{NodeReports: &demandpb.NodeReportBatch{Reports: reports[:n]}}})
		reports = reports[n:]
	}
	o.acknowledge(s)
}

// acknowledge answers the stream of instances for Nodes that are empty.
func (o *Operator) acknowledge(s *session) {
	for _, d := range o.cluster.drains {
		if !d.condemned || !d.over || d.acknowledged {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		_, err := s.api.AcknowledgeDrained(ctx, &nstancev1.AcknowledgeDrainedRequest{InstanceId: d.machine, Evicted: 1})
		cancel()
		if err == nil {
			d.acknowledged = true
			o.frames.sent("acknowledge_drained")
		}
	}
}

// rollup sends what the cluster needs, whole when that is news, and says each second that it is still the same.
func (o *Operator) rollup(s *session, now time.Time) bool {
	if o.mute {
		return false
	}
	if !s.invalid {
		s.invalid = true // of a second part nobody has seen the first
		s.sequence++
		o.send("rollup part", &demandpb.OperatorMessage{Kind: &demandpb.OperatorMessage_Rollup{Rollup: &demandpb.ClusterCapacityNeeds{
			ClusterId: o.opts.Cluster, Sequence: s.sequence, Part: 2, Parts: 3, GeneratedUnixMs: now.UnixMilli(),
		}}})
	}
	if !o.changed && now.Sub(s.told) < heartbeat {
		return false
	}
	m := &demandpb.ClusterCapacityNeeds{ClusterId: o.opts.Cluster, Sequence: s.sequence + 1, GeneratedUnixMs: now.UnixMilli()}
	frame := "rollup"
	if o.changed {
		m.Needs, s.whole = o.needs, m.GetSequence()
	} else {
		m.SameAsSequence, frame = s.whole, "rollup same_as"
	}
	o.send(frame, &demandpb.OperatorMessage{Kind: &demandpb.OperatorMessage_Rollup{Rollup: m}})
	s.sequence++
	s.told, o.changed = now, false
	return true
}

// Need is one row of what a cluster needs: Pods that each take a machine of two processors for itself.
type Need struct {
	Name     string // no other need has it
	Pods     int
	Priority int32
	Label    string // that a machine has to have, whatever its value; empty: none
}

func (n Need) row() *demandpb.CapacityNeed {
	amounts := func(pods int64) []*demandpb.ResourceAmount {
		return []*demandpb.ResourceAmount{{Name: "cpu", Amount: 1900 * pods}, {Name: "pods", Amount: pods}}
	}
	var requirements []*demandpb.NodeSelectorRequirement
	if n.Label != "" {
		requirements = append(requirements, &demandpb.NodeSelectorRequirement{Key: n.Label, Operator: demandpb.Operator_OPERATOR_EXISTS})
	}
	return &demandpb.CapacityNeed{
		Requirements: requirements, AggregateResources: amounts(int64(n.Pods)), MinUnit: amounts(1), Priority: n.Priority,
		Tolerations:               []*demandpb.Toleration{{Key: n.Name, Exists: true}},
		InterruptionPenaltyBucket: demandpb.PenaltyBucket_PENALTY_BUCKET_ZERO, ReclamationPenaltyBucket: demandpb.PenaltyBucket_PENALTY_BUCKET_ZERO,
	}
}

// Need replaces what the cluster needs, and its Pods with it.
func (o *Operator) Need(all ...Need) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.needs = nil
	pods := map[string]bool{}
	for _, n := range all {
		o.needs = append(o.needs, n.row())
		for i := range n.Pods {
			pods[n.Name+"-"+strconv.Itoa(i)] = true
		}
	}
	o.changed = true
	o.cluster.want(pods)
}

// Forge replaces what is reported, and leaves the Pods.
func (o *Operator) Forge(all ...Need) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.needs = nil
	for _, n := range all {
		o.needs = append(o.needs, n.row())
	}
	o.changed = true
}

// Mute keeps roll-ups from being sent, until it is called with false. All else goes on.
func (o *Operator) Mute(mute bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mute = mute
}

// ForgetDrains forgets the drains that are over.
func (o *Operator) ForgetDrains() {
	o.mu.Lock()
	defer o.mu.Unlock()
	maps.DeleteFunc(o.cluster.drains, func(_ string, d *drain) bool { return d.over })
}

// FailBlobs answers the next requests for what it takes to join with an error.
func (o *Operator) FailBlobs(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failing.blobs = n
}

// FailJoins answers the next requests for what it takes to join with a program that fails.
func (o *Operator) FailJoins(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failing.joins = n
}

// RefuseReclaims refuses the next voluntary instructions.
func (o *Operator) RefuseReclaims(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.cluster.refusals = n
}

// HoldDrains keeps Pods from being evicted, until it is called with false.
func (o *Operator) HoldDrains(hold bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.cluster.held = hold
}
