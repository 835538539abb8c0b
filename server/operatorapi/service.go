package operatorapi

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"slices"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/calls"
	"nstance.dev/server/config"
	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/lease"
	"nstance.dev/server/operatorauth"
	"nstance.dev/server/refusal"
	"nstance.dev/server/shard"
)

// ManagerMetadata is the metadata in which a client may name itself as the
// manager of what it changes, where the request has a field for that and leaves
// it empty.
const ManagerMetadata = "nstance-manager"

// features are the optional abilities of this API that are there.
var features = []string{
	"check-group", "clear-fields", "confirm-groups", "coordinated-drain", "decrement-size", "demand", "demand-groups", "expected-etag", "explain", "explain-need", "group-capacity", "group-manager", "held-vms", "holds",
	"instance-list", "instance-output", "instance-types", "machine-assignments", "pause", "plan-config", "power-operations", "replace-first",
}

// Service is the API of a shard for the operators of its tenants. What
// it does not implement answers Unimplemented. Its calls come with a [Caller].
type Service struct {
	nstancev1.UnimplementedOperatorServiceServer
	opts Options
}

// Options are what a [Service] works with. Required are those up to Now.
type Options struct {
	Cluster, Shard, Version string // the last one of the server program; may be empty

	Static    func() config.Version // the configuration in force
	Operators *operatorauth.Registry
	Config    Refresher
	Log       *slog.Logger
	Now       func() time.Time

	Held    func() (lease.Document, bool) // the lock under which this server leads; nil: there is none
	Storage func() []calls.Stat           // calls to the object storage since it leads; nil: nothing is known
}

// New returns the service.
func New(opts Options) *Service { return &Service{opts: opts} }

// Caller is who calls, and the term that serves the call. It is not to be changed.
type Caller struct {
	identity.Peer
	Term *shard.Term // nil in calls that the cluster's leader answers
}

// leader is the API of the term.
func (c *Caller) leader() Leader { return Of(c.Term) }

type callerKey struct{}

// WithCaller returns the context of a call by an operator that was let in.
func WithCaller(ctx context.Context, c *Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerOf returns who makes a call that was let in; the zero Caller: nobody that is known.
func CallerOf(ctx context.Context) *Caller {
	c, ok := ctx.Value(callerKey{}).(*Caller)
	if !ok {
		return &Caller{}
	}
	return c
}

// RenewCertificate implements [nstancev1.OperatorServiceServer].
func (s *Service) RenewCertificate(ctx context.Context, req *nstancev1.RenewCertificateRequest) (*nstancev1.RenewCertificateResponse, error) {
	return s.opts.Operators.Renew(ctx, CallerOf(ctx).Peer, req.PublicKeyPem)
}

// GetServerInfo implements [nstancev1.OperatorServiceServer].
func (s *Service) GetServerInfo(ctx context.Context, _ *emptypb.Empty) (*nstancev1.GetServerInfoResponse, error) {
	c := CallerOf(ctx)
	info := &nstancev1.GetServerInfoResponse{
		ClusterId: s.opts.Cluster, Shard: s.opts.Shard, Version: s.opts.Version,
		Term: int64(min(c.Term.Number(), math.MaxInt64)), Features: slices.Clone(features), ConfigDigest: c.Term.Status().ConfigDigest(c.Tenant),
		LeadingSince: stamp(c.Term.Since()), Administrator: s.administrates(c.Tenant),
	}
	if s.seesShard(c.Tenant) {
		s.addLoad(info, c.Term)
	}
	return info, nil
}

// ListGroups implements [nstancev1.OperatorServiceServer].
func (s *Service) ListGroups(ctx context.Context, _ *emptypb.Empty) (*nstancev1.ListGroupsResponse, error) {
	c := CallerOf(ctx)
	return &nstancev1.ListGroupsResponse{Groups: c.leader().ListGroups(c.Tenant)}, nil
}

// UpsertGroup implements [nstancev1.OperatorServiceServer].
func (s *Service) UpsertGroup(ctx context.Context, req *nstancev1.UpsertGroupRequest) (*nstancev1.GroupStatus, error) {
	c := CallerOf(ctx)
	req.Manager = cmp.Or(req.Manager, managerOf(ctx))
	return c.leader().UpsertGroup(ctx, c.Tenant, req)
}

// CheckGroup implements [nstancev1.OperatorServiceServer].
func (s *Service) CheckGroup(ctx context.Context, req *nstancev1.UpsertGroupRequest) (*nstancev1.CheckGroupResponse, error) {
	c := CallerOf(ctx)
	req.Manager = cmp.Or(req.Manager, managerOf(ctx))
	return c.leader().CheckGroup(c.Tenant, req)
}

// DeleteGroup implements [nstancev1.OperatorServiceServer].
func (s *Service) DeleteGroup(ctx context.Context, req *nstancev1.DeleteGroupRequest) (*emptypb.Empty, error) {
	c := CallerOf(ctx)
	req.Manager = cmp.Or(req.Manager, managerOf(ctx))
	return &emptypb.Empty{}, c.leader().DeleteGroup(ctx, c.Tenant, req)
}

// ConfirmGroups implements [nstancev1.OperatorServiceServer].
func (s *Service) ConfirmGroups(ctx context.Context, req *nstancev1.ConfirmGroupsRequest) (*nstancev1.ConfirmGroupsResponse, error) {
	c := CallerOf(ctx)
	tenant := c.Tenant
	if req.Tenant != nil && *req.Tenant != tenant {
		if !s.administrates(c.Tenant) {
			return nil, refusal.New(refusal.PermissionDenied, "NOT_ADMINISTRATOR", "only the tenants in server.admin_tenants may confirm groups of others")
		}
		tenant = *req.Tenant
	}
	confirmed, err := c.leader().ConfirmGroups(ctx, tenant, req.Keys)
	return &nstancev1.ConfirmGroupsResponse{Confirmed: confirmed}, err
}

// CreateInstance implements [nstancev1.OperatorServiceServer].
func (s *Service) CreateInstance(ctx context.Context, req *nstancev1.CreateInstanceRequest) (*nstancev1.CreateInstanceResponse, error) {
	c := CallerOf(ctx)
	req.Manager = cmp.Or(req.Manager, managerOf(ctx))
	return c.leader().CreateInstance(ctx, c.Tenant, req)
}

// managerOf is who the metadata says the client is.
func managerOf(ctx context.Context) string {
	if values := metadata.ValueFromIncomingContext(ctx, ManagerMetadata); len(values) > 0 {
		return values[0]
	}
	return ""
}

// DeleteInstance implements [nstancev1.OperatorServiceServer].
func (s *Service) DeleteInstance(ctx context.Context, req *nstancev1.DeleteInstanceRequest) (*nstancev1.DeleteInstanceResponse, error) {
	c := CallerOf(ctx)
	return c.leader().DeleteInstance(ctx, c.Tenant, req)
}

// GetInstanceStatus implements [nstancev1.OperatorServiceServer].
func (s *Service) GetInstanceStatus(ctx context.Context, req *nstancev1.GetInstanceStatusRequest) (*nstancev1.InstanceStatus, error) {
	c := CallerOf(ctx)
	return c.leader().GetInstance(c.Tenant, req.InstanceId)
}

// ListInstances implements [nstancev1.OperatorServiceServer]. A term serves
// only once it knows the whole shard, so every list is complete.
func (s *Service) ListInstances(ctx context.Context, req *nstancev1.ListInstancesRequest) (*nstancev1.ListInstancesResponse, error) {
	if req.PageSize < 0 {
		return nil, refusal.New(refusal.InvalidArgument, "INVALID_FIELD", "page_size: %d is negative", req.PageSize)
	}
	c := CallerOf(ctx)
	page, next := c.leader().ListInstances(c.Tenant, req.PageToken, int(req.PageSize))
	return &nstancev1.ListInstancesResponse{Instances: page, Complete: true, NextPageToken: next}, nil
}

// AcknowledgeDrained implements [nstancev1.OperatorServiceServer].
func (s *Service) AcknowledgeDrained(ctx context.Context, req *nstancev1.AcknowledgeDrainedRequest) (*emptypb.Empty, error) {
	c := CallerOf(ctx)
	return &emptypb.Empty{}, c.leader().AcknowledgeDrained(c.Tenant, req)
}

// ListHeldVMs implements [nstancev1.OperatorServiceServer]. Machines without a
// record have no tenant that could be trusted, so only administrators see them.
func (s *Service) ListHeldVMs(ctx context.Context, _ *emptypb.Empty) (*nstancev1.ListHeldVMsResponse, error) {
	c := CallerOf(ctx)
	if !s.administrates(c.Tenant) {
		return nil, refusal.New(refusal.PermissionDenied, "NOT_ADMINISTRATOR", "only the tenants in server.admin_tenants may list unmanaged machines")
	}
	return &nstancev1.ListHeldVMsResponse{Vms: c.leader().UnmanagedVMs()}, nil
}

// AdoptVM implements [nstancev1.OperatorServiceServer]. The machine becomes one of
// the tenant that its tags name, whoever asks: hence for administrators alone.
func (s *Service) AdoptVM(ctx context.Context, req *nstancev1.AdoptVMRequest) (*nstancev1.InstanceStatus, error) {
	c := CallerOf(ctx)
	if !s.administrates(c.Tenant) {
		return nil, refusal.New(refusal.PermissionDenied, "NOT_ADMINISTRATOR", "only the tenants in server.admin_tenants may adopt unmanaged machines")
	}
	return c.leader().AdoptVM(ctx, req.ProviderInstanceId)
}

// SetPause implements [nstancev1.OperatorServiceServer].
func (s *Service) SetPause(ctx context.Context, req *nstancev1.SetPauseRequest) (*nstancev1.Pause, error) {
	c := CallerOf(ctx)
	if err := s.mayPause(c.Tenant, req.Scope); err != nil {
		return nil, err
	}
	return c.leader().SetPause(ctx, c.Tenant, req)
}

// ClearPause implements [nstancev1.OperatorServiceServer].
func (s *Service) ClearPause(ctx context.Context, req *nstancev1.ClearPauseRequest) (*emptypb.Empty, error) {
	c := CallerOf(ctx)
	if err := s.mayPause(c.Tenant, req.Scope); err != nil {
		return nil, err
	}
	return &emptypb.Empty{}, c.leader().ClearPause(ctx, c.Tenant, req)
}

// Explain implements [nstancev1.OperatorServiceServer].
func (s *Service) Explain(ctx context.Context, req *nstancev1.ExplainRequest) (*nstancev1.ExplainResponse, error) {
	c := CallerOf(ctx)
	return c.leader().Explain(c.Tenant, req)
}

// mayPause leaves the whole shard to administrators.
func (s *Service) mayPause(tenant, scope string) error {
	if scope == groupfile.PauseShard && !s.administrates(tenant) {
		return refusal.New(refusal.PermissionDenied, "NOT_ADMINISTRATOR", "only the tenants in server.admin_tenants may pause or resume the whole shard")
	}
	return nil
}

// administrates reports whether operators of the tenant may see and do what
// concerns the whole shard.
func (s *Service) administrates(tenant string) bool {
	return s.opts.Static().Config.Administrates(tenant)
}

// GetConfigStatus implements [nstancev1.OperatorServiceServer]. The file is about all
// tenants, and so is what is wrong with a version that is not in use: who may not see
// all of it is told the version of the own part (S12).
func (s *Service) GetConfigStatus(ctx context.Context, _ *emptypb.Empty) (*nstancev1.GetConfigStatusResponse, error) {
	st, tenant := s.opts.Static(), CallerOf(ctx).Tenant
	if !s.seesShard(tenant) {
		return &nstancev1.GetConfigStatusResponse{Etag: st.Config.DigestFor(tenant)}, nil
	}
	status := &nstancev1.GetConfigStatusResponse{
		Etag: st.ETag, LastModified: timestamppb.New(st.Modified), Size: int32(min(st.Size, math.MaxInt32)),
	}
	status.RejectedEtag, status.RejectedReason = s.opts.Config.Rejected()
	return status, nil
}

// seesShard reports whether the whole shard concerns the tenant: it has the shard to
// itself, or administrates it.
func (s *Service) seesShard(tenant string) bool {
	cfg := s.opts.Static().Config
	return !cfg.SeveralTenants() || cfg.Administrates(tenant)
}
