package shardtest

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"nstance.dev/operator/shards"
	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// GetServerInfo implements the operator API.
func (s *Shard) GetServerInfo(context.Context, *emptypb.Empty) (*nstancev1.GetServerInfoResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &nstancev1.GetServerInfoResponse{
		ClusterId: cmp.Or(s.faults.ClusterID, s.cluster.ID), Shard: cmp.Or(s.faults.Shard, s.name), Term: s.term, Version: "test",
		Features:     slices.DeleteFunc(slices.Clone(shards.Abilities), func(name string) bool { return s.faults.Lacks[name] }),
		ConfigDigest: s.digest,
	}, nil
}

// ListGroups implements the operator API.
func (s *Shard) ListGroups(ctx context.Context, _ *emptypb.Empty) (*nstancev1.ListGroupsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &nstancev1.ListGroupsResponse{Groups: s.groupsOf(tenantOf(ctx))}, nil
}

func (s *Shard) groupsOf(tenant string) []*nstancev1.GroupStatus {
	var out []*nstancev1.GroupStatus
	for k, g := range s.groups {
		if k.tenant == tenant {
			out = append(out, s.counted(g))
		}
	}
	slices.SortFunc(out, func(a, b *nstancev1.GroupStatus) int { return cmp.Compare(a.GetKey(), b.GetKey()) })
	return out
}

// UpsertGroup implements the operator API.
func (s *Shard) UpsertGroup(ctx context.Context, r *nstancev1.UpsertGroupRequest) (*nstancev1.GroupStatus, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := groupKey{tenantOf(ctx), r.GetKey()}
	g := s.groups[k]
	if err := s.checkUpsert(g, r, cmp.Or(r.GetManager(), sent(ctx, "nstance-manager"))); err != nil {
		return nil, err
	}
	next := &nstancev1.GroupStatus{
		Key: k.key, Tenant: k.tenant, Template: "base", InstanceType: "small", SubnetPool: "workers", Kind: "wrk",
		Capacity: map[string]string{"cpu": "2", "memory": "4Gi"},
	}
	s.place(next)
	if g != nil {
		next = proto.CloneOf(g.GroupStatus)
	}
	next.Deleting = false
	next.Manager = cmp.Or(r.GetManager(), sent(ctx, "nstance-manager"), next.GetManager())
	if c := r.GetConfig(); c != nil {
		merge(next, c)
		s.mergeMode(next, c)
	}
	if g == nil || !proto.Equal(next, g.GroupStatus) {
		g = s.put(next)
		s.plan(g)
		s.changed()
	}
	return s.counted(g), nil
}

func (s *Shard) checkUpsert(g *group, r *nstancev1.UpsertGroupRequest, manager string) error {
	c := cmp.Or(r.GetConfig(), &nstancev1.GroupConfig{})
	if err := identity.ValidateName(r.GetKey()); err != nil {
		return Refusal(codes.InvalidArgument, "INVALID_KEY", err.Error())
	}
	switch {
	case c.GetSize() < 0 || c.GetSize() > 10000:
		return Refusal(codes.InvalidArgument, "INVALID_GROUP", "size is not from 0 to 10000")
	case r.ExpectedEtag != nil && (g == nil && r.GetExpectedEtag() != "" || g != nil && g.GetEtag() != r.GetExpectedEtag()):
		return Refusal(codes.Aborted, "ETAG_MISMATCH", "the group has changed since it was read")
	case g == nil && c.GetTemplate() == "":
		return Refusal(codes.InvalidArgument, "INVALID_GROUP", "template is required for a new group")
	case c.Size != nil && (c.GetMode() == modeDemand || c.GetMode() == "" && g != nil && g.GetMode() == modeDemand):
		return Refusal(codes.FailedPrecondition, "GROUP_IS_DEMAND", "the group is of mode demand: its size follows from what is needed")
	case g == nil:
		return nil
	case foreign(g.GetManager(), manager) && !r.GetTakeover():
		return Refusal(codes.FailedPrecondition, "MANAGED_BY_OTHER", "the group belongs to manager "+g.GetManager())
	case g.GetIsStatic() && locked(g, c):
		return Refusal(codes.FailedPrecondition, "LOCKED_FIELD", "the group is in the configuration file: template, subnet_pool, args and load_balancers are locked")
	}
	return nil
}

func foreign(owner, caller string) bool { return owner != "" && caller != "" && owner != caller }

func locked(g *group, c *nstancev1.GroupConfig) bool {
	return c.GetTemplate() != "" && c.GetTemplate() != g.GetTemplate() || c.GetMode() != "" || c.GetDemand() != nil ||
		c.GetSubnetPool() != "" && c.GetSubnetPool() != g.GetSubnetPool() ||
		c.GetArgs() != nil || c.GetLoadBalancers() != nil
}

// merge changes the fields that are present, and notes that the API has set them.
func merge(g *nstancev1.GroupStatus, c *nstancev1.GroupConfig) {
	if g.GetDynamic() == nil {
		g.Dynamic = &nstancev1.GroupConfig{}
	}
	for _, field := range c.GetClear() {
		switch field {
		case "instance_type":
			g.InstanceType, g.Dynamic.InstanceType = "small", nil
		case "subnet_pool":
			g.SubnetPool, g.Dynamic.SubnetPool = "workers", nil
		case "instance_requirements":
			g.InstanceRequirements, g.Dynamic.InstanceRequirements = nil, nil
		}
	}
	if c.Size != nil {
		g.Size, g.Dynamic.Size = c.GetSize(), c.Size
	}
	if c.GetTemplate() != "" {
		g.Template, g.Dynamic.Template = c.GetTemplate(), c.Template
	}
	if c.GetInstanceType() != "" {
		g.InstanceType, g.Dynamic.InstanceType = c.GetInstanceType(), c.InstanceType
	}
	if c.GetSubnetPool() != "" {
		g.SubnetPool, g.Dynamic.SubnetPool = c.GetSubnetPool(), c.SubnetPool
	}
	if c.GetVars() != nil {
		g.Vars, g.Dynamic.Vars = maps.Clone(c.GetVars().GetValues()), proto.CloneOf(c.GetVars())
	}
	if c.GetLoadBalancers() != nil {
		g.LoadBalancers, g.Dynamic.LoadBalancers = slices.Clone(c.GetLoadBalancers().GetValues()), proto.CloneOf(c.GetLoadBalancers())
	}
}

// DeleteGroup implements the operator API.
func (s *Shard) DeleteGroup(ctx context.Context, r *nstancev1.DeleteGroupRequest) (*emptypb.Empty, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.groups[groupKey{tenantOf(ctx), r.GetKey()}]
	switch {
	case g == nil || g.GetDeleting():
		return &emptypb.Empty{}, nil
	case foreign(g.GetManager(), cmp.Or(r.GetManager(), sent(ctx, "nstance-manager"))) && !r.GetTakeover():
		return nil, Refusal(codes.FailedPrecondition, "MANAGED_BY_OTHER", "the group belongs to manager "+g.GetManager())
	case g.GetIsStatic():
		g.Dynamic = nil
		s.put(g.GroupStatus)
	default:
		g.Deleting = true
		s.put(g.GroupStatus)
		s.plan(g)
	}
	s.changed()
	return &emptypb.Empty{}, nil
}

// CreateInstance implements the operator API.
func (s *Shard) CreateInstance(ctx context.Context, r *nstancev1.CreateInstanceRequest) (*nstancev1.CreateInstanceResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := groupKey{tenantOf(ctx), r.GetConfig().GetGroup()}
	g := s.groups[k]
	id, err := identity.ParseID(r.GetInstanceId())
	switch {
	case g == nil:
		return nil, Refusal(codes.NotFound, "NOT_FOUND", "group not found")
	case err != nil || id.Prefix() != g.GetKind():
		return nil, Refusal(codes.InvalidArgument, "INVALID_ID", "instance_id is not an id of kind "+g.GetKind())
	}
	if age := time.Since(id.CreatedAt()); age > 24*time.Hour || age < -time.Minute {
		return nil, Refusal(codes.InvalidArgument, "INVALID_ID", "instance_id is not from the last 24 hours")
	}
	in := cmp.Or(s.find(id.String()), s.ended[id.String()])
	switch {
	case in == nil:
		in = s.create(g, id.String(), true)
		in.InstanceType = cmp.Or(r.GetConfig().GetInstanceType(), in.GetInstanceType())
		s.changed()
	case in.GetTenant() != k.tenant || in.GetGroup() != k.key || !in.GetOnDemand():
		return nil, Refusal(codes.AlreadyExists, "ID_IN_USE", "the id belongs to another instance")
	}
	return &nstancev1.CreateInstanceResponse{InstanceId: id.String(), Status: in.GetStatus()}, nil
}

// DeleteInstance implements the operator API.
func (s *Shard) DeleteInstance(ctx context.Context, r *nstancev1.DeleteInstanceRequest) (*nstancev1.DeleteInstanceResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.owned(ctx, r.GetInstanceId())
	switch {
	case in == nil:
		return &nstancev1.DeleteInstanceResponse{Status: "unknown"}, nil
	case in.GetStatus() == "terminated":
		return &nstancev1.DeleteInstanceResponse{Status: "deleted"}, nil
	}
	g := s.groups[groupKey{in.GetTenant(), in.GetGroup()}]
	if r.GetDecrementSize() && !in.GetOnDemand() && !in.counted && !in.placeGone() && g != nil {
		in.counted = true
		g.Size = max(0, g.GetSize()-1)
		s.put(g.GroupStatus)
	}
	if in.GetCondemned() == nil || r.GetSkipDrain() && in.GetStatus() == "draining" {
		s.condemn(in, "requested", r.GetSkipDrain(), 0)
	}
	s.changed()
	return &nstancev1.DeleteInstanceResponse{Status: "deleting"}, nil
}

// placeGone reports whether a smaller size has taken the instance's place already.
func (in *instance) placeGone() bool {
	return slices.Contains([]string{"scale-down", "group-deleted", "tenant-sleep"}, in.GetCondemned().GetReason())
}

// GetInstanceStatus implements the operator API.
func (s *Shard) GetInstanceStatus(ctx context.Context, r *nstancev1.GetInstanceStatusRequest) (*nstancev1.InstanceStatus, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.owned(ctx, r.GetInstanceId())
	if in == nil {
		return nil, Refusal(codes.NotFound, "NOT_FOUND", "instance not found")
	}
	return proto.CloneOf(in.InstanceStatus), nil
}

// ListInstances implements the operator API. While the leader rebuilds its cache the list
// is empty and says that it is not complete.
func (s *Shard) ListInstances(ctx context.Context, r *nstancev1.ListInstancesRequest) (*nstancev1.ListInstancesResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rebuilding {
		return &nstancev1.ListInstancesResponse{}, nil
	}
	var mine []*instance
	for _, in := range s.instances {
		if in.GetTenant() == tenantOf(ctx) {
			mine = append(mine, in)
		}
	}
	start, _ := strconv.Atoi(r.GetPageToken())
	size := int(r.GetPageSize())
	if size <= 0 || size > 1000 {
		size = 1000
	}
	start = min(max(start, 0), len(mine))
	end := min(start+size, len(mine))
	out := &nstancev1.ListInstancesResponse{Complete: true}
	for _, in := range mine[start:end] {
		out.Instances = append(out.Instances, proto.CloneOf(in.InstanceStatus))
	}
	if end < len(mine) {
		out.NextPageToken = strconv.Itoa(end)
	}
	if pages := s.faults.NextPages; len(pages) > 0 {
		out.NextPageToken = pages[(slices.Index(pages, r.GetPageToken())+1)%len(pages)]
	}
	return out, nil
}

// AcknowledgeDrained implements the operator API. It always leads to deletion.
func (s *Shard) AcknowledgeDrained(ctx context.Context, r *nstancev1.AcknowledgeDrainedRequest) (*emptypb.Empty, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if in := s.owned(ctx, r.GetInstanceId()); in != nil && in.GetStatus() != "terminated" {
		if in.GetCondemned() == nil {
			s.condemn(in, "requested", true, 0)
		}
		in.acked = true
		s.changed()
	}
	return &emptypb.Empty{}, nil
}

// owned returns an instance of the caller's tenant, deleted ones included, nil for what it
// must not know of.
func (s *Shard) owned(ctx context.Context, id string) *instance {
	in := cmp.Or(s.find(id), s.ended[id])
	if in == nil || in.GetTenant() != tenantOf(ctx) {
		return nil
	}
	return in
}
