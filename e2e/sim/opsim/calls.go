package opsim

import (
	"context"

	"nstance.dev/operator/shards"
	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// watched is a shard as the operator's controllers call it. What they ask for is held
// against the API server and the bucket at the moment it is sent.
type watched struct {
	*shards.Shard

	g *guest
}

// UpsertGroup implements shardgroup.Server.
func (s watched) UpsertGroup(ctx context.Context, req *nstancev1.UpsertGroupRequest) (*nstancev1.GroupStatus, error) {
	s.g.checks.upsert(req)
	s.g.Resizes(req.Key)
	return s.Shard.UpsertGroup(ctx, req)
}

// DeleteGroup implements shardgroup.Server.
func (s watched) DeleteGroup(ctx context.Context, req *nstancev1.DeleteGroupRequest) error {
	s.g.checks.deleteGroup(req)
	s.g.Resizes(req.Key)
	return s.Shard.DeleteGroup(ctx, req)
}

// CreateInstance implements machine.Server.
func (s watched) CreateInstance(ctx context.Context, req *nstancev1.CreateInstanceRequest) (*nstancev1.CreateInstanceResponse, error) {
	s.g.checks.create(req)
	return s.Shard.CreateInstance(ctx, req)
}

// DeleteInstance implements machine.Server.
func (s watched) DeleteInstance(ctx context.Context, group string, req *nstancev1.DeleteInstanceRequest) (*nstancev1.DeleteInstanceResponse, error) {
	s.g.checks.deleteInstance(req)
	s.g.Wishes(identity.ID(req.InstanceId), req.SkipDrain)
	s.g.Resizes(group)
	return s.Shard.DeleteInstance(ctx, group, req)
}

// AcknowledgeDrained implements drain.Server.
func (s watched) AcknowledgeDrained(ctx context.Context, req *nstancev1.AcknowledgeDrainedRequest) error {
	id := identity.ID(req.InstanceId)
	s.g.checks.acknowledge(id)
	s.g.Acknowledges(id)
	err := s.Shard.AcknowledgeDrained(ctx, req)
	if err == nil {
		s.g.Acknowledged(id)
	}
	return err
}
