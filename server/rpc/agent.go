package rpc

import (
	"google.golang.org/grpc"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// agentService passes the agents' streams to the reign.
type agentService struct {
	nstancev1.UnimplementedAgentServiceServer
}

// Connect implements [nstancev1.AgentServiceServer].
func (*agentService) Connect(stream grpc.BidiStreamingServer[nstancev1.AgentMessage, nstancev1.ServerMessage]) error {
	c := callerOf(stream.Context())
	return c.reign.Connect(c.Peer, stream)
}
