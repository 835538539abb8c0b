package shardtest

import (
	"fmt"
	"sync"

	"google.golang.org/grpc/codes"

	"nstance.dev/protos/needs"
	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
	"nstance.dev/protos/rollup"
)

// Demand is a shard's end of the sessions of demand mode: it says what a test tells it to, keeps what it hears, and
// decides nothing. It is safe for concurrent use.
type Demand struct {
	demandpb.UnimplementedShardServiceServer
	shard *Shard

	mu       sync.Mutex
	epoch    uint64
	snapshot uint64
	machines []*demandpb.NodeStateUpdate
	sessions map[string]*demandSession // by tenant
	opened   int
	deaf     chan struct{} // closed once sessions are read again; nil: they are
	mute     bool
	answer   func(*demandpb.ClusterCapacityNeeds) demandpb.Acknowledgement_Kind
}

// demandSession is one that stands.
type demandSession struct {
	out   chan *demandpb.ShardMessage
	over  chan error
	hello *demandpb.Hello

	heard   []*demandpb.OperatorMessage
	joiner  *rollup.Joiner
	rollups int
	last    *rollup.Rollup // with rows
}

// Demand returns the shard's end of sessions, which every server of the shard offers.
func (s *Shard) Demand() *Demand { return s.demand }

func newDemand(s *Shard) *Demand {
	return &Demand{shard: s, epoch: 1, sessions: map[string]*demandSession{}}
}

// Session implements the demand API. A second session of a tenant ends the first one.
func (d *Demand) Session(stream demandpb.ShardService_SessionServer) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	peer := peerOf(stream.Context())
	hello := first.GetHello()
	switch {
	case hello == nil:
		return Refusal(codes.InvalidArgument, "NO_HELLO", "the first message must be hello")
	case hello.GetTenant() != peer.Tenant || hello.GetClusterId() != d.shard.cluster.ID:
		return Refusal(codes.PermissionDenied, "WRONG_IDENTITY", "hello does not agree with the certificate")
	}
	one, snapshot := d.open(peer.Tenant, hello)
	defer d.close(peer.Tenant, one)
	for _, m := range snapshot {
		if err := stream.Send(m); err != nil {
			return err
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- d.listen(stream, one) }() // ends with the stream
	for {
		select {
		case err := <-ended:
			return err
		case err := <-one.over:
			return err
		case m := <-one.out:
			if err := stream.Send(m); err != nil {
				return err
			}
		}
	}
}

// open takes a session in, and returns what it begins with.
func (d *Demand) open(tenant string, hello *demandpb.Hello) (*demandSession, []*demandpb.ShardMessage) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.opened++
	d.snapshot++
	one := &demandSession{
		out: make(chan *demandpb.ShardMessage, 1<<14), over: make(chan error, 2), hello: hello, joiner: rollup.NewJoiner(hello.GetClusterId()),
	}
	if before := d.sessions[tenant]; before != nil {
		before.over <- Refusal(codes.Aborted, "SESSION_REPLACED", "the cluster has opened another session")
	}
	d.sessions[tenant] = one
	if d.mute {
		return one, nil
	}
	all := []*demandpb.ShardMessage{{Kind: &demandpb.ShardMessage_Ack{Ack: &demandpb.Acknowledgement{
		Kind: demandpb.Acknowledgement_KIND_HELLO, ShardEpoch: d.epoch, SnapshotId: d.snapshot, SnapshotSize: uint32(len(d.machines)),
	}}}}
	for _, m := range d.machines {
		all = append(all, StateMessage(m, d.snapshot))
	}
	return one, all
}

func (d *Demand) close(tenant string, one *demandSession) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sessions[tenant] == one {
		delete(d.sessions, tenant)
	}
}

// listen keeps what the operator says.
func (d *Demand) listen(stream demandpb.ShardService_SessionServer, one *demandSession) error {
	for {
		d.mu.Lock()
		deaf := d.deaf
		d.mu.Unlock()
		if deaf != nil {
			select {
			case <-deaf:
			case <-stream.Context().Done():
				return stream.Context().Err()
			}
		}
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		d.hear(one, m)
	}
}

func (d *Demand) hear(one *demandSession, m *demandpb.OperatorMessage) {
	d.mu.Lock()
	defer d.mu.Unlock()
	part := m.GetRollup()
	if part == nil {
		one.heard = append(one.heard, m)
		return
	}
	kind, detail := demandpb.Acknowledgement_KIND_ROLLUP_ACCEPTED, ""
	whole, err := one.joiner.Add(part)
	switch {
	case err != nil:
		kind, detail = demandpb.Acknowledgement_KIND_ROLLUP_REJECTED, err.Error()
	case whole == nil:
		return
	case d.answer != nil:
		kind = d.answer(part)
	}
	if kind == demandpb.Acknowledgement_KIND_ROLLUP_REJECTED {
		one.joiner.Forget(part.GetSequence())
	}
	if whole != nil {
		one.rollups++
		if whole.SameAs == 0 {
			one.last = whole
		}
	}
	one.out <- &demandpb.ShardMessage{Kind: &demandpb.ShardMessage_Ack{Ack: &demandpb.Acknowledgement{Kind: kind, RollupSequence: part.GetSequence(), Detail: detail}}}
}

// StateMessage is the state of a machine as a message, as part of a snapshot unless that is 0.
func StateMessage(u *demandpb.NodeStateUpdate, snapshot uint64) *demandpb.ShardMessage {
	return &demandpb.ShardMessage{Kind: &demandpb.ShardMessage_NodeStateUpdate{NodeStateUpdate: &demandpb.NodeStateUpdate{
		SupersedesKey: "node:" + u.GetMachineId(), MachineId: u.GetMachineId(), State: u.GetState(), StateSeq: u.GetStateSeq(), ProviderId: u.GetProviderId(),
		NodeName: u.GetNodeName(), LastError: u.GetLastError(), Labels: u.GetLabels(), Resources: u.GetResources(), Taints: u.GetTaints(),
		InstanceType: u.GetInstanceType(), Zone: u.GetZone(), CapacityType: u.GetCapacityType(), SnapshotId: snapshot, StartupTaints: u.GetStartupTaints(),
	}}}
}

// SetMachines says which machines the snapshots of sessions to come name.
func (d *Demand) SetMachines(all ...*demandpb.NodeStateUpdate) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.machines = all
}

// Tell sends a message in the session of a tenant; false: it has none.
func (d *Demand) Tell(tenant string, m *demandpb.ShardMessage) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	one := d.sessions[tenant]
	if one == nil {
		return false
	}
	one.out <- m
	return true
}

// Stop reads nothing more from sessions, until the returned function is called.
func (d *Demand) Stop() (read func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	again := make(chan struct{})
	d.deaf = again
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.deaf = nil
		close(again)
	}
}

// Mute makes sessions to come stay without an answer to hello.
func (d *Demand) Mute(on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mute = on
}

// AnswerRollups says how roll-ups are answered from now on; nil: they are accepted. It gets their last part, and must
// not call the Demand.
func (d *Demand) AnswerRollups(f func(*demandpb.ClusterCapacityNeeds) demandpb.Acknowledgement_Kind) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answer = f
}

// End ends the session of a tenant with an error, if there is one.
func (d *Demand) End(tenant string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if one := d.sessions[tenant]; one != nil {
		one.over <- err
		delete(d.sessions, tenant)
	}
}

// Opened returns how many sessions were opened so far.
func (d *Demand) Opened() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.opened
}

// Hello returns what the session of a tenant began with, nil if it has none.
func (d *Demand) Hello(tenant string) *demandpb.Hello {
	d.mu.Lock()
	defer d.mu.Unlock()
	if one := d.sessions[tenant]; one != nil {
		return one.hello
	}
	return nil
}

// Heard returns the messages of the session of a tenant since the last call, without roll-ups.
func (d *Demand) Heard(tenant string) []*demandpb.OperatorMessage {
	d.mu.Lock()
	defer d.mu.Unlock()
	one := d.sessions[tenant]
	if one == nil {
		return nil
	}
	heard := one.heard
	one.heard = nil
	return heard
}

// Rollups returns how many roll-ups the session of a tenant has brought, references included, and the rows and
// overheads that it asks for now.
func (d *Demand) Rollups(tenant string) (n int, rows []*needs.Row, overheads []needs.Overhead) {
	d.mu.Lock()
	defer d.mu.Unlock()
	one := d.sessions[tenant]
	if one == nil || one.last == nil {
		return 0, nil, nil
	}
	rows, overheads, err := rollup.Decode(d.shard.cluster.ID, one.last)
	if err != nil {
		panic(fmt.Sprintf("roll-up of %s: %v", tenant, err)) // the operator sent what no shard takes
	}
	return one.rollups, rows, overheads
}
