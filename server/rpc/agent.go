package rpc

import (
	"google.golang.org/grpc"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// agentService passes the agents' streams to the reign.
type agentService struct {
	nstancev1.UnimplementedAgentServiceServer
	opts Options
}

// Connect implements [nstancev1.AgentServiceServer].
func (s *agentService) Connect(stream grpc.BidiStreamingServer[nstancev1.AgentMessage, nstancev1.ServerMessage]) error {
	reign, err := s.opts.Shard.Reign()
	if err != nil {
		return err
	}
	return reign.Connect(agentOf(stream.Context()), stream)
}
