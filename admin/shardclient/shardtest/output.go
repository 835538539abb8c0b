package shardtest

import (
	"context"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Write sets all that the machine of an instance has written to its console.
func (s *Shard) Write(id, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.output == nil {
		s.output = map[string]string{}
	}
	s.output[id] = text
}

// ReadInstanceOutput implements the operator API, of a provider that has consoles alone.
func (s *Shard) ReadInstanceOutput(ctx context.Context, r *nstancev1.ReadInstanceOutputRequest) (*nstancev1.ReadInstanceOutputResponse, error) {
	if s.OnOutput != nil {
		s.OnOutput()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.called(ctx)
	if _, err := s.find(r.GetInstanceId()); err != nil {
		return nil, err
	}
	if source := r.GetSource(); source != "" && source != "console" {
		st, err := status.Newf(codes.FailedPrecondition, "the provider local has no %s of machines; ask for source console", source).
			WithDetails(&errdetails.ErrorInfo{Reason: "NO_OUTPUT", Domain: "nstance"})
		if err != nil {
			return nil, err
		}
		return nil, st.Err()
	}
	text := s.output[r.GetInstanceId()]
	masked := int32(strings.Count(text, " masked]")) //nolint:gosec // there are few
	return &nstancev1.ReadInstanceOutputResponse{Source: "console", Text: text, Masked: masked, Sources: []string{"console"}}, nil
}
