package shardtest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Epoch is when everything in a [Shard] was created.
var Epoch = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)

// Shard is the operator API of one tenant in memory. The zero value is an empty
// shard. It is safe for concurrent use.
type Shard struct {
	nstancev1.UnimplementedOperatorServiceServer
	// Frozen keeps instances from moving on by themselves.
	Frozen bool
	// OfBefore: it is a server that knows no host machines.
	OfBefore bool
	// OnOutput is called before each answer about what a machine has written; nil: nothing is.
	OnOutput func()

	mu        sync.Mutex
	groups    map[string]*nstancev1.GroupStatus
	instances []*nstancev1.InstanceStatus
	held      []*nstancev1.HeldVM
	demand    *nstancev1.GetDemandResponse
	machines  []*nstancev1.MachineEvent
	made      int
	watchers  map[*watcher]struct{}
	began     chan struct{} // a stream has; nil until somebody cares
	calls     []string
	output    map[string]string // that machines have written, by instance
	config    configuration
}

// configuration is what a shard has been told of the stored one.
type configuration struct {
	rejected string // why it is not in force; empty: it is
	read     bool   // a caller had it read
	shared   bool   // it is of several tenants, and the callers' does not administrate the shard
}

// Calls returns the methods that were called, in order.
func (s *Shard) Calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// AddGroup adds a group with as many running instances as its size says.
func (s *Shard) AddGroup(g *nstancev1.GroupStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(proto.CloneOf(g))
	s.plan(g.GetKey())
	s.step(g.GetKey())
}

// AddInstance adds an instance as it is.
func (s *Shard) AddInstance(in *nstancev1.InstanceStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.instances = append(s.instances, proto.CloneOf(in))
}

// Reject lets the stored configuration not be in force, for a reason.
func (s *Shard) Reject(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.config.rejected = reason
}

// Share lets the shard answer as one of several tenants, to callers of one that does not
// administrate it.
func (s *Shard) Share() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.config.shared = true
}

func (s *Shard) put(g *nstancev1.GroupStatus) {
	if s.groups == nil {
		s.groups = map[string]*nstancev1.GroupStatus{}
	}
	s.groups[g.GetKey()] = g
	s.publish(&nstancev1.GroupEvent{Type: "UPSERT", Group: s.group(g.GetKey())}, nil)
}

// group returns a copy with its counts.
func (s *Shard) group(key string) *nstancev1.GroupStatus {
	g := proto.CloneOf(s.groups[key])
	g.ActualSize, g.Pending = 0, 0
	for _, in := range s.instances {
		switch {
		case in.GetGroup() != key || in.GetOnDemand():
		case in.GetStatus() == "running":
			g.ActualSize++
		case in.GetStatus() == "pending":
			g.Pending++
		}
	}
	return g
}

// plan creates what a group lacks and condemns what it has too much.
func (s *Shard) plan(key string) {
	var live []*nstancev1.InstanceStatus
	for _, in := range s.instances {
		if in.GetGroup() == key && !in.GetOnDemand() && in.GetCondemned() == nil {
			live = append(live, in)
		}
	}
	size := int(s.groups[key].GetSize())
	for range size - len(live) {
		s.create(&nstancev1.InstanceStatus{Group: key})
	}
	for _, in := range live[min(size, len(live)):] {
		s.condemn(in, "scale-down")
	}
}

func (s *Shard) create(in *nstancev1.InstanceStatus) {
	s.made++
	if in.GetInstanceId() == "" {
		in.InstanceId = fmt.Sprintf("knc068a3cp3thz5z2mv1gejwfta%02d", s.made)
	}
	in.Tenant, in.Status, in.CreatedAt = identity.DefaultTenant, "pending", timestamppb.New(Epoch)
	s.instances = append(s.instances, in)
	s.instanceEvent(in, "created", "")
}

func (s *Shard) condemn(in *nstancev1.InstanceStatus, reason string) {
	in.Status, in.Condemned = "terminating", &nstancev1.Condemned{Reason: reason}
	s.instanceEvent(in, "deleting", reason)
}

// step moves the instances of a group on, of all groups if key is empty.
func (s *Shard) step(key string) {
	var kept []*nstancev1.InstanceStatus
	for _, in := range s.instances {
		mine := key == "" || in.GetGroup() == key
		switch {
		case mine && in.GetCondemned() != nil:
			s.instanceEvent(in, "deleted", "")
			continue
		case mine && in.GetStatus() == "pending":
			in.Status = "running"
			s.instanceEvent(in, "running", "")
		}
		kept = append(kept, in)
	}
	s.instances = kept
	for _, key := range slices.Sorted(maps.Keys(s.groups)) {
		g := s.group(key)
		if g.GetDeleting() && g.GetActualSize() == 0 {
			delete(s.groups, key)
			s.publish(&nstancev1.GroupEvent{Type: "DELETE", Group: &nstancev1.GroupStatus{Key: key, Tenant: g.GetTenant()}}, nil)
		}
	}
}

func (s *Shard) instanceEvent(in *nstancev1.InstanceStatus, what, reason string) {
	s.publish(nil, &nstancev1.InstanceEvent{
		InstanceId: in.GetInstanceId(), Tenant: in.GetTenant(), Group: in.GetGroup(), Status: what, Reason: reason,
	})
}

func (s *Shard) called(ctx context.Context) {
	method, _ := grpc.Method(ctx)
	s.calls = append(s.calls, method)
}

func (s *Shard) find(id string) (*nstancev1.InstanceStatus, error) {
	for _, in := range s.instances {
		if in.GetInstanceId() == id {
			return in, nil
		}
	}
	return nil, status.Errorf(codes.NotFound, "instance %q not found", id)
}

// ListGroups implements the operator API.
func (s *Shard) ListGroups(ctx context.Context, _ *emptypb.Empty) (*nstancev1.ListGroupsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.called(ctx)
	response := &nstancev1.ListGroupsResponse{}
	for _, key := range slices.Sorted(maps.Keys(s.groups)) {
		response.Groups = append(response.Groups, s.group(key))
	}
	return response, nil
}

// ListInstances implements the operator API, in pages of two.
func (s *Shard) ListInstances(ctx context.Context, r *nstancev1.ListInstancesRequest) (*nstancev1.ListInstancesResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.called(ctx)
	start := 0
	_, _ = fmt.Sscan(r.GetPageToken(), &start)
	response := &nstancev1.ListInstancesResponse{Complete: true}
	end := min(len(s.instances), start+2)
	for _, in := range s.instances[min(start, end):end] {
		response.Instances = append(response.Instances, proto.CloneOf(in))
	}
	if end < len(s.instances) {
		response.NextPageToken = fmt.Sprint(end)
	} else if !s.Frozen {
		s.step("")
	}
	return response, nil
}

// GetInstanceStatus implements the operator API.
func (s *Shard) GetInstanceStatus(ctx context.Context, r *nstancev1.GetInstanceStatusRequest) (*nstancev1.InstanceStatus, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.called(ctx)
	in, err := s.find(r.GetInstanceId())
	if err != nil {
		return nil, err
	}
	return proto.CloneOf(in), nil
}
