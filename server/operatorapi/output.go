package operatorapi

import (
	"context"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// ReadInstanceOutput implements [nstancev1.OperatorServiceServer].
func (s *Service) ReadInstanceOutput(ctx context.Context, req *nstancev1.ReadInstanceOutputRequest) (*nstancev1.ReadInstanceOutputResponse, error) {
	c := CallerOf(ctx)
	out, err := c.Term.Requests().InstanceOutput(ctx, c.Tenant, req.InstanceId, req.Source)
	if err != nil {
		return nil, err
	}
	answer := &nstancev1.ReadInstanceOutputResponse{Source: string(out.Source), Text: out.Text, Truncated: out.Cut, Masked: count32(out.Masked)}
	for _, source := range out.Sources {
		answer.Sources = append(answer.Sources, string(source))
	}
	return answer, nil
}
