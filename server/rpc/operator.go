package rpc

import (
	"cmp"
	"context"
	"math"
	"slices"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/config"
	"nstance.dev/server/refusal"
)

// ManagerMetadata is the metadata in which a client may name itself as the
// manager of what it changes, where the request has a field for that and leaves
// it empty.
const ManagerMetadata = "nstance-manager"

// features are the optional abilities of this API that are there.
var features = []string{
	"clear-fields", "confirm-groups", "coordinated-drain", "decrement-size", "expected-etag", "explain", "group-capacity", "group-manager", "held-vms",
	"instance-list", "instance-types", "pause", "plan-config", "replace-first",
}

// operatorService is the API of a shard for the operators of its tenants. What
// it does not implement answers Unimplemented.
type operatorService struct {
	nstancev1.UnimplementedOperatorServiceServer
	opts Options
}

// RenewCertificate implements [nstancev1.OperatorServiceServer].
func (s *operatorService) RenewCertificate(ctx context.Context, req *nstancev1.RenewCertificateRequest) (*nstancev1.RenewCertificateResponse, error) {
	return s.opts.Operators.Renew(ctx, callerOf(ctx).Peer, req.PublicKeyPem)
}

// GetServerInfo implements [nstancev1.OperatorServiceServer].
func (s *operatorService) GetServerInfo(ctx context.Context, _ *emptypb.Empty) (*nstancev1.GetServerInfoResponse, error) {
	c := callerOf(ctx)
	return &nstancev1.GetServerInfoResponse{
		ClusterId: s.opts.Cluster, Shard: s.opts.ShardName, Version: s.opts.Version,
		Term: int64(min(c.reign.Term(), math.MaxInt64)), Features: slices.Clone(features), ConfigDigest: c.reign.ConfigDigest(c.Tenant),
	}, nil
}

// ListGroups implements [nstancev1.OperatorServiceServer].
func (s *operatorService) ListGroups(ctx context.Context, _ *emptypb.Empty) (*nstancev1.ListGroupsResponse, error) {
	c := callerOf(ctx)
	return &nstancev1.ListGroupsResponse{Groups: c.reign.ListGroups(c.Tenant)}, nil
}

// UpsertGroup implements [nstancev1.OperatorServiceServer].
func (s *operatorService) UpsertGroup(ctx context.Context, req *nstancev1.UpsertGroupRequest) (*nstancev1.GroupStatus, error) {
	c := callerOf(ctx)
	req.Manager = cmp.Or(req.Manager, managerOf(ctx))
	return c.reign.UpsertGroup(ctx, c.Tenant, req)
}

// DeleteGroup implements [nstancev1.OperatorServiceServer].
func (s *operatorService) DeleteGroup(ctx context.Context, req *nstancev1.DeleteGroupRequest) (*emptypb.Empty, error) {
	c := callerOf(ctx)
	req.Manager = cmp.Or(req.Manager, managerOf(ctx))
	return &emptypb.Empty{}, c.reign.DeleteGroup(ctx, c.Tenant, req)
}

// ConfirmGroups implements [nstancev1.OperatorServiceServer].
func (s *operatorService) ConfirmGroups(ctx context.Context, req *nstancev1.ConfirmGroupsRequest) (*nstancev1.ConfirmGroupsResponse, error) {
	c := callerOf(ctx)
	tenant := c.Tenant
	if req.Tenant != nil && *req.Tenant != tenant {
		if !s.administrates(c.Tenant) {
			return nil, refusal.New(refusal.PermissionDenied, "NOT_ADMINISTRATOR", "only the tenants in server.admin_tenants may confirm groups of others")
		}
		tenant = *req.Tenant
	}
	confirmed, err := c.reign.ConfirmGroups(ctx, tenant, req.Keys)
	return &nstancev1.ConfirmGroupsResponse{Confirmed: confirmed}, err
}

// CreateInstance implements [nstancev1.OperatorServiceServer].
func (s *operatorService) CreateInstance(ctx context.Context, req *nstancev1.CreateInstanceRequest) (*nstancev1.CreateInstanceResponse, error) {
	c := callerOf(ctx)
	req.Manager = cmp.Or(req.Manager, managerOf(ctx))
	return c.reign.CreateInstance(ctx, c.Tenant, req)
}

// managerOf is who the metadata says the client is.
func managerOf(ctx context.Context) string {
	if values := metadata.ValueFromIncomingContext(ctx, ManagerMetadata); len(values) > 0 {
		return values[0]
	}
	return ""
}

// DeleteInstance implements [nstancev1.OperatorServiceServer].
func (s *operatorService) DeleteInstance(ctx context.Context, req *nstancev1.DeleteInstanceRequest) (*nstancev1.DeleteInstanceResponse, error) {
	c := callerOf(ctx)
	return c.reign.DeleteInstance(ctx, c.Tenant, req)
}

// GetInstanceStatus implements [nstancev1.OperatorServiceServer].
func (s *operatorService) GetInstanceStatus(ctx context.Context, req *nstancev1.GetInstanceStatusRequest) (*nstancev1.InstanceStatus, error) {
	c := callerOf(ctx)
	return c.reign.GetInstance(c.Tenant, req.InstanceId)
}

// ListInstances implements [nstancev1.OperatorServiceServer]. A reign serves
// only once it knows the whole shard, so every list is complete.
func (s *operatorService) ListInstances(ctx context.Context, req *nstancev1.ListInstancesRequest) (*nstancev1.ListInstancesResponse, error) {
	if req.PageSize < 0 {
		return nil, refusal.New(refusal.InvalidArgument, "INVALID_FIELD", "page_size: %d is negative", req.PageSize)
	}
	c := callerOf(ctx)
	page, next := c.reign.ListInstances(c.Tenant, req.PageToken, int(req.PageSize))
	return &nstancev1.ListInstancesResponse{Instances: page, Complete: true, NextPageToken: next}, nil
}

// AcknowledgeDrained implements [nstancev1.OperatorServiceServer].
func (s *operatorService) AcknowledgeDrained(ctx context.Context, req *nstancev1.AcknowledgeDrainedRequest) (*emptypb.Empty, error) {
	c := callerOf(ctx)
	return &emptypb.Empty{}, c.reign.AcknowledgeDrained(c.Tenant, req)
}

// ListHeldVMs implements [nstancev1.OperatorServiceServer]. Machines without a
// record have no tenant that could be trusted, so only administrators see them.
func (s *operatorService) ListHeldVMs(ctx context.Context, _ *emptypb.Empty) (*nstancev1.ListHeldVMsResponse, error) {
	c := callerOf(ctx)
	if !s.administrates(c.Tenant) {
		return nil, refusal.New(refusal.PermissionDenied, "NOT_ADMINISTRATOR", "only the tenants in server.admin_tenants may list held machines")
	}
	out := &nstancev1.ListHeldVMsResponse{}
	for _, held := range c.reign.Held() {
		vm := &nstancev1.HeldVM{
			ProviderInstanceId: held.VM.ProviderID, InstanceId: cmp.Or(held.VM.ID.String(), held.VM.RawID),
			Tenant: held.Machine.Tenant, Group: held.Machine.Group, Reason: string(held.Cause), Since: timestamppb.New(held.Since),
		}
		if !held.Machine.CreatedAt.IsZero() {
			vm.CreatedAt = timestamppb.New(held.Machine.CreatedAt)
		}
		out.Vms = append(out.Vms, vm)
	}
	return out, nil
}

// AdoptVM implements [nstancev1.OperatorServiceServer]. The machine becomes one of
// the tenant that its tags name, whoever asks: hence for administrators alone.
func (s *operatorService) AdoptVM(ctx context.Context, req *nstancev1.AdoptVMRequest) (*nstancev1.InstanceStatus, error) {
	c := callerOf(ctx)
	if !s.administrates(c.Tenant) {
		return nil, refusal.New(refusal.PermissionDenied, "NOT_ADMINISTRATOR", "only the tenants in server.admin_tenants may adopt held machines")
	}
	return c.reign.AdoptVM(ctx, req.ProviderInstanceId)
}

// SetPause implements [nstancev1.OperatorServiceServer].
func (s *operatorService) SetPause(ctx context.Context, req *nstancev1.SetPauseRequest) (*nstancev1.Pause, error) {
	c := callerOf(ctx)
	if err := s.mayPause(c.Tenant, req.Scope); err != nil {
		return nil, err
	}
	return c.reign.SetPause(ctx, c.Tenant, req)
}

// ClearPause implements [nstancev1.OperatorServiceServer].
func (s *operatorService) ClearPause(ctx context.Context, req *nstancev1.ClearPauseRequest) (*emptypb.Empty, error) {
	c := callerOf(ctx)
	if err := s.mayPause(c.Tenant, req.Scope); err != nil {
		return nil, err
	}
	return &emptypb.Empty{}, c.reign.ClearPause(ctx, c.Tenant, req)
}

// Explain implements [nstancev1.OperatorServiceServer].
func (s *operatorService) Explain(ctx context.Context, req *nstancev1.ExplainRequest) (*nstancev1.ExplainResponse, error) {
	c := callerOf(ctx)
	return c.reign.Explain(c.Tenant, req)
}

// mayPause leaves the whole shard to administrators.
func (s *operatorService) mayPause(tenant, scope string) error {
	if scope == config.PauseShard && !s.administrates(tenant) {
		return refusal.New(refusal.PermissionDenied, "NOT_ADMINISTRATOR", "only the tenants in server.admin_tenants may pause or resume the whole shard")
	}
	return nil
}

// administrates reports whether operators of the tenant may see and do what
// concerns the whole shard.
func (s *operatorService) administrates(tenant string) bool {
	return s.opts.Shard.Static().Config.Administrates(tenant)
}

// GetConfigStatus implements [nstancev1.OperatorServiceServer]. The file is about all
// tenants, and so is what is wrong with a version that is not in use: who may not see
// all of it is told the version of the own part (S12).
func (s *operatorService) GetConfigStatus(ctx context.Context, _ *emptypb.Empty) (*nstancev1.GetConfigStatusResponse, error) {
	st, tenant := s.opts.Shard.Static(), callerOf(ctx).Tenant
	if !s.seesConfig(tenant) {
		return &nstancev1.GetConfigStatusResponse{Etag: st.Config.DigestFor(tenant)}, nil
	}
	status := &nstancev1.GetConfigStatusResponse{
		Etag: st.ETag, LastModified: timestamppb.New(st.Modified), Size: int32(min(st.Size, math.MaxInt32)),
	}
	status.RejectedEtag, status.RejectedReason = s.opts.Config.Rejected()
	return status, nil
}

// seesConfig reports whether the whole configuration concerns the tenant: it has the
// shard to itself, or administrates it.
func (s *operatorService) seesConfig(tenant string) bool {
	cfg := s.opts.Shard.Static().Config
	return !cfg.SeveralTenants() || cfg.Administrates(tenant)
}
