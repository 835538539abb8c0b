package shardtest

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Shard is what the servers of one shard know together, and their API. It is safe for
// concurrent use.
type Shard struct {
	nstancev1.UnimplementedOperatorServiceServer

	name    string
	cluster *Cluster
	demand  *Demand

	mu         sync.Mutex
	term       int64
	revision   int64
	described  int64 // descriptions of groups that were given
	groups     map[groupKey]*group
	instances  []*instance          // in order of creation
	ended      map[string]*instance // deleted, and still known as such, by id
	hosts      map[string]*host     // by instance
	operations map[string]*operation
	watchers   map[*watcher]struct{}
	drains     map[string]bool // tenants whose operators move work away
	rebuilding bool
	auto       bool
	brief      bool // events leave out the instance
	faults     Faults
	digest     string // of the configuration, for all tenants
	calls      []Call
	onCall     []func(Call)
	touched    map[groupKey]struct{} // groups whose instances have changed since the last step
}

type groupKey struct{ tenant, key string }

// group is the status of a group without its counts, and what a server keeps beside it.
type group struct {
	*nstancev1.GroupStatus
	hosts    bool // nodes run in node machines on its instances
	capacity int  // machines that the provider has for it; negative: enough
}

// instance is the status of an instance and what a server keeps beside it.
type instance struct {
	*nstancev1.InstanceStatus
	counted bool // the group's size was lowered for it
	acked   bool // its work has left
	short   bool // that there is no machine for it has been reported
}

// Group describes a group for [Shard.AddGroup]; zero fields get plain values.
type Group struct {
	Key          string
	Size         int32
	Static       bool
	Template     string            // "base"
	InstanceType string            // "small"
	SubnetPool   string            // "workers"
	Vars         map[string]string // none
	Kind         string            // "wrk"
	DrainTimeout time.Duration     // none: instances are deleted without a drain
	Capacity     map[string]string // cpu 2, memory 4Gi
	// Demand makes it a group of mode demand with Size machines, nil one of fixed size.
	Demand *nstancev1.DemandSettings
}

// Shard returns the shard of a name, which is made at the first call. It has no servers
// until [Shard.Serve].
func (c *Cluster) Shard(name string) *Shard {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.shards[name]; s != nil {
		return s
	}
	s := &Shard{
		name: name, cluster: c, term: 1, groups: map[groupKey]*group{}, ended: map[string]*instance{},
		hosts: map[string]*host{}, operations: map[string]*operation{}, watchers: map[*watcher]struct{}{}, drains: map[string]bool{}, touched: map[groupKey]struct{}{},
	}
	if c.first == "" {
		c.first = name
	}
	s.demand = newDemand(s)
	c.shards[name] = s
	return s
}

// AddGroup adds a group of a tenant as if it had been there always: with as many running
// instances as its size says.
func (s *Shard) AddGroup(tenant string, g Group) {
	s.mu.Lock()
	defer s.mu.Unlock()
	status := &nstancev1.GroupStatus{
		Key: g.Key, Tenant: tenant, Size: g.Size, IsStatic: g.Static,
		Template: orText(g.Template, "base"), InstanceType: orText(g.InstanceType, "small"), SubnetPool: orText(g.SubnetPool, "workers"),
		Vars: maps.Clone(g.Vars), Kind: orText(g.Kind, "wrk"), Capacity: maps.Clone(g.Capacity),
	}
	if status.Capacity == nil {
		status.Capacity = map[string]string{"cpu": "2", "memory": "4Gi"}
	}
	s.place(status)
	if g.DrainTimeout > 0 {
		status.DrainTimeout = durationpb.New(g.DrainTimeout)
	}
	added := s.put(status)
	s.plan(added)
	s.settle()
	if g.Demand != nil {
		added.Dynamic = &nstancev1.GroupConfig{}
		s.mergeMode(added.GroupStatus, &nstancev1.GroupConfig{Mode: proto.String(modeDemand), Demand: g.Demand})
		s.put(added.GroupStatus)
	}
}

// place fills in what is the same for all groups of the shard.
func (s *Shard) place(g *nstancev1.GroupStatus) {
	g.Arch, g.Zone, g.Region, g.Provider = "amd64", s.name, "test", "local"
}

func orText(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// put stores a group anew, with a new etag, and tells the watchers.
func (s *Shard) put(status *nstancev1.GroupStatus) *group {
	k := groupKey{status.GetTenant(), status.GetKey()}
	g := s.groups[k]
	if g == nil {
		g = &group{capacity: -1}
		s.groups[k] = g
	}
	g.GroupStatus = status
	g.Etag = fmt.Sprintf("etag-%d", s.next())
	s.publishGroup(g)
	return g
}

// next returns a revision that was never used.
func (s *Shard) next() int64 {
	s.revision++
	return s.revision
}

// revise gives an instance that has changed a new revision.
func (s *Shard) revise(in *instance) {
	in.Revision = s.next()
	s.touched[groupKey{in.GetTenant(), in.GetGroup()}] = struct{}{}
}

// SetStatic makes the configuration file of the servers have a group, or have it no more.
func (s *Shard) SetStatic(tenant, key string, static bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g := s.groups[groupKey{tenant, key}]; g != nil {
		g.IsStatic = static
		s.put(g.GroupStatus)
	}
}

// SetStaticSize makes the configuration file of the servers give a group a size, which counts
// for nothing: an API has set another one.
func (s *Shard) SetStaticSize(tenant, key string, size int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g := s.groups[groupKey{tenant, key}]; g != nil {
		g.IsStatic, g.StaticSize = true, &size
		s.put(g.GroupStatus)
	}
}

// SetCapacity says how many machines the provider has for a group; negative: enough. For
// each that it lacks, Step reports an error of class `capacity`.
func (s *Shard) SetCapacity(tenant, key string, machines int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g := s.groups[groupKey{tenant, key}]; g != nil {
		g.capacity = machines
	}
}

// SetAuto makes the shard take all steps by itself after each call and change.
func (s *Shard) SetAuto(auto bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.auto = auto
	s.changed()
}

// changed takes the steps that follow from a change, if the shard is to do so by itself.
func (s *Shard) changed() {
	if s.auto {
		s.settle()
	}
}

// Group returns a group with its counts, nil if there is none.
func (s *Shard) Group(tenant, key string) *nstancev1.GroupStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g := s.groups[groupKey{tenant, key}]; g != nil {
		return s.counted(g)
	}
	return nil
}

// Instances returns the instances of a group that are not deleted, by creation.
func (s *Shard) Instances(tenant, key string) []*nstancev1.InstanceStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*nstancev1.InstanceStatus
	for _, in := range s.instances {
		if in.GetTenant() == tenant && in.GetGroup() == key {
			out = append(out, proto.CloneOf(in.InstanceStatus))
		}
	}
	return out
}

// counted returns a copy of a group with its counts and a new revision.
func (s *Shard) counted(g *group) *nstancev1.GroupStatus {
	out := proto.CloneOf(g.GroupStatus)
	for _, in := range s.instances {
		if in.GetTenant() != g.GetTenant() || in.GetGroup() != g.GetKey() || in.GetOnDemand() {
			continue
		}
		switch {
		case in.GetCondemned() != nil:
			out.Draining++
		case in.GetStatus() == "running":
			out.ActualSize++
			out.ProviderIds = append(out.ProviderIds, in.GetProviderInstanceId())
			out.ProviderUris = append(out.ProviderUris, in.GetProviderUri())
		case in.GetStatus() == "unhealthy":
			out.Unhealthy++
		default:
			out.Pending++
		}
	}
	slices.Sort(out.ProviderIds)
	slices.Sort(out.ProviderUris)
	if out.GetDeleting() {
		out.Size = 0
	}
	out.DemandUsage = s.usage(out)
	s.described++
	out.Revision = s.described
	return out
}

// plan creates what a group lacks and condemns what it has too much: those that do not run
// yet first, then the oldest.
func (s *Shard) plan(g *group) {
	if g.GetMode() == modeDemand && !g.GetDeleting() {
		return // what is needed decides, see Buy
	}
	live := s.live(g.GroupStatus)
	size := int(g.GetSize())
	reason := "scale-down"
	if g.GetDeleting() {
		size, reason = 0, "group-deleted"
	}
	for range size - len(live) {
		id, err := identity.NewID(g.GetKind())
		if err != nil {
			s.cluster.t.Error(err)
			return
		}
		s.create(g, id.String(), false)
	}
	slices.SortStableFunc(live, func(a, b *instance) int { return rank(a) - rank(b) })
	for _, in := range live[:max(0, len(live)-size)] {
		s.condemn(in, reason, false, 0)
	}
}

func rank(in *instance) int {
	if in.GetStatus() == "running" {
		return 1
	}
	return 0
}

func (s *Shard) create(g *group, id string, onDemand bool) *instance {
	in := &instance{InstanceStatus: &nstancev1.InstanceStatus{
		InstanceId: id, Tenant: g.GetTenant(), Group: g.GetKey(), OnDemand: onDemand, Status: "pending",
		InstanceType: g.GetInstanceType(), Template: g.GetTemplate(), CreatedAt: timestamppb.New(time.Now()),
	}}
	in.Machine = g.machine()
	s.instances = append(s.instances, in)
	s.publish(in, "created", "")
	return in
}

// condemn decides about an instance's end: after a drain if it runs, somebody moves its
// work and its group gives time for that; window overrules the group's.
func (s *Shard) condemn(in *instance, reason string, skipDrain bool, window time.Duration) {
	g := s.groups[groupKey{in.GetTenant(), in.GetGroup()}]
	if window == 0 && g != nil {
		window = g.GetDrainTimeout().AsDuration()
	}
	if skipDrain || in.GetStatus() != "running" || !s.drains[in.GetTenant()] {
		window = 0
	}
	in.Condemned = &nstancev1.Condemned{Reason: reason, DeleteAt: timestamppb.New(time.Now().Add(window))}
	if window > 0 {
		in.Status = "draining"
		s.publish(in, "pending_deletion", reason)
		return
	}
	in.Status = "terminating"
	s.publish(in, "deleting", reason)
}
