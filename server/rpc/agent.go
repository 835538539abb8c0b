package rpc

import (
	"google.golang.org/grpc"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// agentService passes the agents' streams to the term.
type agentService struct {
	nstancev1.UnimplementedAgentServiceServer
	opts Options
}

// Connect implements [nstancev1.AgentServiceServer].
func (s *agentService) Connect(stream grpc.BidiStreamingServer[nstancev1.AgentMessage, nstancev1.ServerMessage]) error {
	term, err := s.opts.Shard.Term()
	if err != nil {
		return err
	}
	return term.Agents().Connect(agentOf(stream.Context()), stream)
}
