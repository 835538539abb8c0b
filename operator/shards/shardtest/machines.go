package shardtest

import (
	"context"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// host is what a server keeps of the node machine of an instance.
type host struct {
	tenant     string
	connected  bool
	status     *nstancev1.MachineStatus
	at         *timestamppb.Timestamp
	assignment *nstancev1.MachineAssignment
	stored     *nstancev1.AssignmentState
	credential *nstancev1.MachineCredential // in the leader's memory
}

func (s *Shard) host(id, tenant string) *host {
	h := s.hosts[id]
	if h == nil {
		h = &host{tenant: tenant}
		s.hosts[id] = h
	}
	return h
}

// state is what is said of a host; nil: nothing is known of it.
func (h *host) state() *nstancev1.MachineState {
	if h == nil || !h.connected && h.stored == nil {
		return nil
	}
	m := &nstancev1.MachineState{Connected: h.connected, Status: h.status, ReportedAt: h.at, Assignment: proto.CloneOf(h.stored)}
	if a := m.GetAssignment(); a != nil {
		a.CredentialSequence = h.credential.GetSequence()
		a.CredentialMissing = h.credential == nil && a.GetConfirmed() == nil && a.GetMode() != nstancev1.MachineMode_MACHINE_MODE_RESET
	}
	return m
}

func (s *Shard) publishMachine(id string) {
	h := s.hosts[id]
	e := &nstancev1.MachineEvent{InstanceId: id, Type: "machine", Machine: h.state()}
	if e.GetMachine() == nil {
		e.Type = "removed"
	}
	s.send(h.tenant, event{machine: e})
}

// Report has the host of an instance report, as an agent with a paver does; nil: its agent is not
// connected any more.
func (s *Shard) Report(id string, status *nstancev1.MachineStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.find(id)
	if in == nil {
		return
	}
	h := s.host(id, in.GetTenant())
	h.connected = status != nil
	if status != nil {
		h.status, h.at = proto.CloneOf(status), timestamppb.New(time.Now())
	}
	s.publishMachine(id)
}

// ForgetCredentials does with credentials what a change of leader does.
func (s *Shard) ForgetCredentials() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, h := range s.hosts {
		h.credential, h.status = nil, nil
		s.publishMachine(id)
	}
}

// Assignment returns what the host of an instance was told last, and its credential; nil: nothing.
func (s *Shard) Assignment(id string) (*nstancev1.MachineAssignment, *nstancev1.MachineCredential, *nstancev1.NodeConfirmed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.hosts[id]
	if h == nil || h.stored == nil {
		return nil, nil, nil
	}
	return proto.CloneOf(h.assignment), proto.CloneOf(h.credential), proto.CloneOf(h.stored.GetConfirmed())
}

// PutAssignment implements the operator API.
func (s *Shard) PutAssignment(ctx context.Context, r *nstancev1.PutAssignmentRequest) (*emptypb.Empty, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, a := r.GetInstanceId(), r.GetAssignment()
	in := s.owned(ctx, id)
	if in == nil {
		return nil, Refusal(codes.NotFound, "NOT_FOUND", "no such instance")
	}
	h := s.host(id, in.GetTenant())
	was := h.stored.GetEpoch()
	switch {
	case r.ExpectedEpoch != nil && r.GetExpectedEpoch() != was:
		return nil, Refusal(codes.Aborted, "EPOCH_MISMATCH", "the stored epoch is another one")
	case in.GetCondemned() != nil:
		return nil, Refusal(codes.FailedPrecondition, "CONDEMNED", "the instance is condemned")
	case a.GetEpoch() < max(was, 1):
		return nil, Refusal(codes.FailedPrecondition, "EPOCH_TOO_LOW", "the epoch is lower than the stored one")
	case a.GetEpoch() == was && (h.stored.GetMode() != a.GetMode() || h.stored.GetConfiguration().GetHash() != a.GetConfiguration().GetHash() || h.stored.GetMachineUid() != a.GetMachineUid()):
		return nil, Refusal(codes.AlreadyExists, "EPOCH_CONFLICT", "the epoch is stored with another content")
	}
	if a.GetEpoch() > was {
		h.assignment, h.credential = proto.CloneOf(a), nil
		h.stored = &nstancev1.AssignmentState{
			MachineName: a.GetMachineName(), MachineUid: a.GetMachineUid(), Epoch: a.GetEpoch(), Mode: a.GetMode(),
			Configuration: proto.CloneOf(a.GetConfiguration()), At: timestamppb.New(time.Now()),
		}
	}
	if c := r.GetCredential(); c.GetSequence() > h.credential.GetSequence() {
		h.credential = proto.CloneOf(c)
	}
	s.publishMachine(id)
	return &emptypb.Empty{}, nil
}

// DeleteAssignment implements the operator API.
func (s *Shard) DeleteAssignment(ctx context.Context, r *nstancev1.DeleteAssignmentRequest) (*emptypb.Empty, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.hosts[r.GetInstanceId()]
	if h == nil || h.tenant != tenantOf(ctx) || h.stored == nil {
		return &emptypb.Empty{}, nil
	}
	h.assignment, h.stored, h.credential = nil, nil, nil
	s.publishMachine(r.GetInstanceId())
	return &emptypb.Empty{}, nil
}

// ConfirmNode implements the operator API.
func (s *Shard) ConfirmNode(ctx context.Context, r *nstancev1.ConfirmNodeRequest) (*emptypb.Empty, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.hosts[r.GetInstanceId()]
	switch {
	case h == nil || h.tenant != tenantOf(ctx) || h.stored == nil:
		return nil, Refusal(codes.NotFound, "NOT_FOUND", "no assignment is stored")
	case h.stored.GetEpoch() != r.GetEpoch():
		return nil, Refusal(codes.FailedPrecondition, "EPOCH_MISMATCH", "the stored epoch is another one")
	}
	h.stored.Confirmed = &nstancev1.NodeConfirmed{Epoch: r.GetEpoch(), NodeUid: r.GetNodeUid(), BootId: r.GetBootId()}
	h.credential = nil
	s.publishMachine(r.GetInstanceId())
	return &emptypb.Empty{}, nil
}

// WatchMachines implements the operator API.
func (s *Shard) WatchMachines(_ *nstancev1.WatchMachinesRequest, stream grpc.ServerStreamingServer[nstancev1.MachineEvent]) error {
	tenant := tenantOf(stream.Context())
	s.mu.Lock()
	w := s.watch(tenant)
	var snapshot []*nstancev1.MachineEvent
	for _, in := range s.instances {
		if h := s.hosts[in.GetInstanceId()]; h != nil && h.tenant == tenant && h.state() != nil {
			snapshot = append(snapshot, &nstancev1.MachineEvent{InstanceId: in.GetInstanceId(), Type: "machine", Machine: h.state()})
		}
	}
	s.mu.Unlock()
	defer s.unwatch(w)
	for _, e := range slices.Concat(snapshot, []*nstancev1.MachineEvent{{Type: "snapshot_end"}}) {
		if err := stream.Send(e); err != nil {
			return err
		}
	}
	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	return pump(stream.Context(), w, ticker.C, func(e event) error {
		switch {
		case e == event{}:
			return stream.Send(&nstancev1.MachineEvent{Type: "heartbeat"})
		case e.machine == nil:
			return nil
		}
		return stream.Send(e.machine)
	})
}
