package operatorapi

import (
	"context"
	"errors"

	"google.golang.org/protobuf/types/known/emptypb"

	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/jsonc"
	"nstance.dev/server/refusal"
)

// Refresher reads the static configuration again.
type Refresher interface {
	// Refresh puts the stored configuration in force if it is another one than
	// prev, the etag so far. What is wrong with an invalid one is an error that
	// errors.As finds as jsonc.Problems; a *refusal.Error says why a valid one
	// cannot be put in force, any other error that it could not be read. In all
	// cases the old one stays in force.
	Refresh(ctx context.Context) (prev, now string, updated bool, err error)

	// Rejected is the stored version that is not in force because it is invalid or
	// not applicable, and what is wrong with it; empty: the stored one is in force.
	Rejected() (etag, why string)

	// Check reads a configuration that is not stored, with the rules of a stored
	// one. What is wrong with it is an error as of Refresh; anew, if not empty, is
	// a part of it for which the server would start anew.
	Check(ctx context.Context, data []byte) (cfg *effective.Config, anew string, err error)
}

// RefreshConfig implements [nstancev1.OperatorServiceServer]. It changes the whole
// shard: for tenants that share it with others and do not administrate it, nothing
// happens.
func (s *Service) RefreshConfig(ctx context.Context, _ *emptypb.Empty) (*nstancev1.RefreshConfigResponse, error) {
	c := CallerOf(ctx)
	if !s.seesShard(c.Tenant) {
		s.opts.Log.InfoContext(ctx, "configuration not refreshed: the caller is no administrator", "tenant", c.Tenant, "operator", c.ID)
		part := s.opts.Static().Config.DigestFor(c.Tenant)
		return &nstancev1.RefreshConfigResponse{PrevEtag: part, Etag: part}, nil
	}
	prev, now, updated, err := s.opts.Config.Refresh(ctx)
	s.opts.Log.InfoContext(ctx, "configuration refreshed by a caller", "tenant", c.Tenant, "operator", c.ID,
		"updated", updated, "prev_etag", prev, "etag", now, "error", err)
	var problems jsonc.Problems
	var refused *refusal.Error
	switch {
	case errors.As(err, &refused):
		return nil, refused
	case errors.As(err, &problems):
		return nil, refusal.New(refusal.InvalidArgument, "INVALID_CONFIG", "the configuration is invalid and not in force:\n%v", problems)
	case err != nil:
		return nil, &refusal.Error{Code: refusal.Unavailable, Reason: "STORAGE_UNAVAILABLE", Message: "the configuration could not be read; try again", Err: err}
	}
	return &nstancev1.RefreshConfigResponse{Updated: updated, PrevEtag: prev, Etag: now}, nil
}

// PlanConfig implements [nstancev1.OperatorServiceServer]. The answer speaks of all
// tenants: hence for administrators alone.
func (s *Service) PlanConfig(ctx context.Context, req *nstancev1.PlanConfigRequest) (*nstancev1.PlanConfigResponse, error) {
	c := CallerOf(ctx)
	if !s.administrates(c.Tenant) {
		return nil, refusal.New(refusal.PermissionDenied, "NOT_ADMINISTRATOR", "only the tenants in server.admin_tenants may plan a configuration of the shard")
	}
	cfg, anew, err := s.opts.Config.Check(ctx, req.Config)
	if err != nil {
		return nil, refusal.New(refusal.InvalidArgument, "INVALID_CONFIG", "the configuration is invalid:\n%v", err)
	}
	plan := c.leader().PlanConfig(cfg)
	if anew != "" {
		plan.Warnings = append(plan.Warnings, anew+" differs, for which the server restarts by itself: a standby leads meanwhile")
	}
	return plan, nil
}
