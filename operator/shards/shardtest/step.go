package shardtest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Step takes every instance one step further: pending, provisioning with a machine,
// running; and to its end, draining until the work has left or the time is over,
// terminating, gone. Then groups create and condemn what their sizes ask for. It reports
// whether anything changed.
func (s *Shard) Step() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.step()
}

// Settle takes steps until nothing changes. Drains go on.
func (s *Shard) Settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle()
}

func (s *Shard) settle() {
	for s.step() {
		continue
	}
}

func (s *Shard) step() bool {
	before := s.revision
	var kept []*instance
	for _, in := range s.instances {
		if s.advance(in) {
			kept = append(kept, in)
		}
	}
	s.instances = kept
	for _, k := range s.keys() {
		g := s.groups[k]
		s.plan(g)
		if g.GetDeleting() && !s.inhabited(k) {
			delete(s.groups, k)
			s.revision++
			s.send(k.tenant, event{group: &nstancev1.GroupEvent{Type: "DELETE", Group: &nstancev1.GroupStatus{Key: k.key, Tenant: k.tenant}}})
		}
	}
	if s.revision == before {
		return false
	}
	for _, k := range s.keys() {
		if _, touched := s.touched[k]; touched {
			s.publishGroup(s.groups[k])
		}
	}
	clear(s.touched)
	return true
}

// keys returns the keys of all groups in order.
func (s *Shard) keys() []groupKey {
	return slices.SortedFunc(maps.Keys(s.groups), func(a, b groupKey) int {
		return cmp.Or(cmp.Compare(a.tenant, b.tenant), cmp.Compare(a.key, b.key))
	})
}

// inhabited reports whether a group has managed instances.
func (s *Shard) inhabited(k groupKey) bool {
	return slices.ContainsFunc(s.instances, func(in *instance) bool {
		return in.GetTenant() == k.tenant && in.GetGroup() == k.key && !in.GetOnDemand()
	})
}

// advance takes one instance a step further; false: it is gone.
func (s *Shard) advance(in *instance) bool {
	switch in.GetStatus() {
	case "pending":
		if s.refused(in) {
			return true
		}
		in.Status = "provisioning"
		in.ProviderInstanceId = "vm-" + in.GetInstanceId()
		in.ProviderUri = fmt.Sprintf("nstance://%s/%s", s.name, in.GetInstanceId())
		s.revise(in)
		in.Addresses = []string{fmt.Sprintf("10.1.%d.%d", in.GetRevision()/250%250, in.GetRevision()%250+1)}
		in.Hostname = in.GetInstanceId()
	case "provisioning":
		in.Status = "running"
		in.RegisteredAt = timestamppb.New(time.Now())
		s.publish(in, "registered", "")
		s.publish(in, "running", "")
	case "draining":
		if in.acked || !time.Now().Before(in.GetCondemned().GetDeleteAt().AsTime()) {
			in.Status = "terminating"
			s.publish(in, "deleting", in.GetCondemned().GetReason())
		}
	case "terminating":
		in.Status = "terminated"
		s.publish(in, "deleted", in.GetCondemned().GetReason())
		s.ended[in.GetInstanceId()] = in
		return false
	}
	return true
}

// refused reports that the provider has no machine for an instance.
func (s *Shard) refused(in *instance) bool {
	g := s.groups[groupKey{in.GetTenant(), in.GetGroup()}]
	if g == nil || g.capacity < 0 {
		return false
	}
	machines := 0
	for _, other := range s.instances {
		if other.GetTenant() == in.GetTenant() && other.GetGroup() == in.GetGroup() && other.GetProviderUri() != "" && other.GetStatus() != "terminated" {
			machines++
		}
	}
	if machines < g.capacity {
		return false
	}
	if !in.short {
		in.short = true
		id, key := in.GetInstanceId(), in.GetGroup()
		s.revision++
		s.send(in.GetTenant(), event{failure: &nstancev1.ErrorEvent{
			Group: &key, InstanceId: &id, Class: "capacity", Shard: s.name, Error: "no capacity for " + in.GetInstanceType(), Timestamp: timestamppb.New(time.Now()),
		}})
	}
	return true
}

// Condemn decides about the end of an instance as the server does by itself, for a reason
// such as spot-termination. A window above zero gives a drain that long; zero takes the
// group's. Unless the reason lowers the size, the next step makes a replacement.
func (s *Shard) Condemn(id, reason string, window time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if in := s.find(id); in != nil {
		s.condemn(in, reason, false, window)
		s.changed()
	}
}

// Pardon takes a decision about an instance's end back.
func (s *Shard) Pardon(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if in := s.find(id); in != nil && in.GetStatus() == "draining" {
		in.Status, in.Condemned, in.acked = "running", nil, false
		s.publish(in, "running", "")
	}
}

// SetStatus gives an instance a status without further effects, such as unhealthy.
func (s *Shard) SetStatus(id, status string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if in := s.find(id); in != nil {
		in.Status = status
		s.revise(in)
	}
}

// Vanish makes an instance disappear without an event, as if it had been forgotten. One
// that was deleted is otherwise known as such for the rest of the test.
func (s *Shard) Vanish(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.instances = slices.DeleteFunc(s.instances, func(in *instance) bool { return in.GetInstanceId() == id })
	s.revision++
}

// ReportError tells watchers of the tenant about an error.
func (s *Shard) ReportError(tenant string, e *nstancev1.ErrorEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.send(tenant, event{failure: e})
}

// Restart makes a new leader take over: streams end, the term rises, and lists of
// instances are incomplete and empty until [Shard.Rebuilt].
func (s *Shard) Restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.term++
	s.rebuilding = true
	s.endStreams()
}

// Rebuilt ends what Restart began.
func (s *Shard) Rebuilt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rebuilding = false
}

func (s *Shard) find(id string) *instance {
	for _, in := range s.instances {
		if in.GetInstanceId() == id {
			return in
		}
	}
	return nil
}
