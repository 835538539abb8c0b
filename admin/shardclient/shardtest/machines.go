package shardtest

import (
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// SetMachine says what is known of the machine of an instance.
func (s *Shard) SetMachine(id string, m *nstancev1.MachineState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.machines = append(s.machines, &nstancev1.MachineEvent{InstanceId: id, Type: "machine", Machine: proto.CloneOf(m)})
}

// WatchMachines implements the operator API: nothing changes after the snapshot.
func (s *Shard) WatchMachines(_ *nstancev1.WatchMachinesRequest, stream grpc.ServerStreamingServer[nstancev1.MachineEvent]) error {
	if s.OfBefore {
		return s.UnimplementedOperatorServiceServer.WatchMachines(nil, stream)
	}
	s.mu.Lock()
	s.called(stream.Context())
	events := append([]*nstancev1.MachineEvent{}, s.machines...)
	s.mu.Unlock()
	for _, e := range append(events, &nstancev1.MachineEvent{Type: "snapshot_end"}) {
		if err := stream.Send(e); err != nil {
			return err
		}
	}
	<-stream.Context().Done()
	return stream.Context().Err()
}
