package shards

import (
	"context"

	"google.golang.org/grpc"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// MachineSink receives what is known of the node machines of hosts. What is said of a sink at [Sink]
// applies.
type MachineSink interface {
	// MachinesWanted is closed once anybody wants to hear of the hosts of a shard. Before that
	// nothing is asked for.
	MachinesWanted(shard string) <-chan struct{}
	// MachinesOpened reports that a stream begins. What it does not name until `snapshot_end` is not
	// known to the shard. closed is called when the stream has ended: what it said may be so no more.
	MachinesOpened(shard string) (closed func())
	// MachineEvent reports a change, or an item of the snapshot; `snapshot_end` is passed on,
	// `heartbeat` is not.
	MachineEvent(shard string, event *nstancev1.MachineEvent)
}

// WatchMachines returns the stream of node machines. It has no list.
func WatchMachines(sink MachineSink) Stream {
	return Stream{receive: func(ctx context.Context, s *Shard, c *session) {
		select {
		case <-ctx.Done():
		case <-sink.MachinesWanted(s.name):
			listen(ctx, s, c, machineEvents(s, c, sink))
		}
	}}
}

func machineEvents(s *Shard, c *session, sink MachineSink) watch[nstancev1.MachineEvent] {
	return watch[nstancev1.MachineEvent]{
		method: "WatchMachines",
		open: func(ctx context.Context) (grpc.ServerStreamingClient[nstancev1.MachineEvent], error) {
			return c.api.WatchMachines(ctx, &nstancev1.WatchMachinesRequest{})
		},
		take: func(e *nstancev1.MachineEvent) bool {
			if e.GetType() != "heartbeat" {
				sink.MachineEvent(s.name, e)
			}
			return true
		},
		strict: true,
		opened: func() func() { return sink.MachinesOpened(s.name) },
	}
}

// PutAssignment stores what a host builds its node machine from, and has it delivered.
func (s *Shard) PutAssignment(ctx context.Context, req *nstancev1.PutAssignmentRequest) error {
	_, err := change(ctx, s, methodPutAssignment, about{instance: req.GetInstanceId()}, func(ctx context.Context, api api, o ...grpc.CallOption) (any, error) {
		return api.PutAssignment(ctx, req, o...)
	})
	return err
}

// DeleteAssignment forgets the assignment of a host. An instance that is unknown there is no error.
func (s *Shard) DeleteAssignment(ctx context.Context, req *nstancev1.DeleteAssignmentRequest) error {
	_, err := change(ctx, s, methodDeleteAssignment, about{instance: req.GetInstanceId()}, func(ctx context.Context, api api, o ...grpc.CallOption) (any, error) {
		return api.DeleteAssignment(ctx, req, o...)
	})
	return unless(NotFound, err)
}

// ConfirmNode tells a host that its node machine has joined.
func (s *Shard) ConfirmNode(ctx context.Context, req *nstancev1.ConfirmNodeRequest) error {
	_, err := change(ctx, s, methodConfirmNode, about{instance: req.GetInstanceId()}, func(ctx context.Context, api api, o ...grpc.CallOption) (any, error) {
		return api.ConfirmNode(ctx, req, o...)
	})
	return err
}
