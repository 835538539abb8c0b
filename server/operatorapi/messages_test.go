package operatorapi

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/cache"
	"nstance.dev/server/catalog"
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/config/requests"
	"nstance.dev/server/driver"
	"nstance.dev/server/events"
	"nstance.dev/server/explain"
	"nstance.dev/server/fleet"
	"nstance.dev/server/refusal"
	"nstance.dev/server/status"
)

var at = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func later(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(at.Add(d)) }

func same(t *testing.T, got, want proto.Message) {
	t.Helper()
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestGroupStatus(t *testing.T) {
	three, five := 3, 5
	for name, c := range map[string]struct {
		group status.Group
		want  *nstancev1.GroupStatus
	}{
		"gone": {
			status.Group{Group: &effective.Group{Tenant: "a", Key: "web", Deleted: true}},
			&nstancev1.GroupStatus{Tenant: "a", Key: "web", Deleting: true},
		},
		"bare": {
			status.Group{Group: &effective.Group{Tenant: "a", Key: "web"}, Revision: 7},
			&nstancev1.GroupStatus{Tenant: "a", Key: "web", Mode: "fixed", Revision: 7, DrainTimeout: durationpb.New(0)},
		},
		"full": {
			status.Group{
				Group: &effective.Group{
					Tenant: "a", Key: "web", Template: "plain", Kind: "vmx", Arch: "arm64", Size: 4, StaticSize: &three, Static: true,
					InstanceTypes: []string{"small", "large"}, AllowedInstanceTypes: []string{"small"}, SubnetPool: "pool",
					Vars: map[string]string{"a": "1"}, LoadBalancers: []string{"www"}, DrainTimeout: time.Minute,
					Traits: driver.Traits{Interruptible: true}, Rebuilt: true, ETag: "tag",
					Dynamic: &groupfile.Entry{Template: "plain", Size: &five, Manager: "uid", Vars: map[string]string{"a": "1"}},
				},
				Revision: 9, Zone: "z", Region: "r", Provider: "aws",
				Offer:      catalog.Offer{VCPU: 4, MemoryMiB: 16384, GPUs: 1, GPUModel: "T4"},
				Pause:      &groupfile.Pause{Scope: "group", Group: "web", Reason: "work", Until: &document.Time{Time: at}},
				Conditions: []explain.Condition{{Type: "paused", Message: "work", Since: at}},
				Pending:    1, Actual: 2, Unhealthy: 3, Draining: 4, ProviderIDs: []string{"i-1"}, ProviderURIs: []string{"aws:///z/i-1"},
			},
			&nstancev1.GroupStatus{
				Tenant: "a", Key: "web", Mode: "fixed", Template: "plain", Kind: "vmx", Arch: "arm64", Size: 4, StaticSize: proto.Int32(3), IsStatic: true,
				InstanceType: "small", InstanceTypes: []string{"small", "large"}, AllowedInstanceTypes: []string{"small"}, SubnetPool: "pool",
				Vars: map[string]string{"a": "1"}, LoadBalancers: []string{"www"}, DrainTimeout: durationpb.New(time.Minute),
				Interruptible: true, Rebuilt: true, Etag: "tag", Manager: "uid",
				Dynamic: &nstancev1.GroupConfig{
					Template: proto.String("plain"), Size: proto.Int32(5), Vars: &nstancev1.StringMap{Values: map[string]string{"a": "1"}},
				},
				Revision: 9, Zone: "z", Region: "r", Provider: "aws",
				Capacity: map[string]string{"cpu": "4", "memory": "16384Mi"}, Gpu: &nstancev1.Gpu{Type: "T4", Count: 1},
				Pause:      &nstancev1.Pause{Scope: "group", Group: "web", Reason: "work", Until: later(0)},
				Conditions: []*nstancev1.Condition{{Type: "paused", Message: "work", Since: later(0)}},
				Pending:    1, ActualSize: 2, Unhealthy: 3, Draining: 4, ProviderIds: []string{"i-1"}, ProviderUris: []string{"aws:///z/i-1"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) { same(t, groupStatus(&c.group), c.want) })
	}
}

// leaving is an instance with all that the API shows.
func leaving() status.Instance {
	in := cache.Instance{
		Template: "plain", InstanceType: "small", ProviderID: "i-1", Hostname: "web-1", IPv4: "10.0.0.1", IPv6: "fd00::1", UnhealthyAt: at.Add(time.Second),
	}
	in.ID, in.Group, in.OnDemand = "vmx1", fleet.GroupID{Tenant: "a", Name: "web"}, true
	in.Created, in.RegisteredAt = at, at.Add(time.Minute)
	in.Removal.Reason, in.Removal.DeleteAt = fleet.ReasonRequested, at.Add(time.Hour)
	in.Revision = 3 // that of the row is not told
	return status.Instance{
		Instance: in, Status: "pending_deletion", Revision: 1<<40 + 3, ProviderURI: "aws:///z/i-1", LastSeen: at.Add(2 * time.Minute), AgentVersion: "v1",
	}
}

func leavingMessage() *nstancev1.InstanceStatus {
	return &nstancev1.InstanceStatus{
		InstanceId: "vmx1", Tenant: "a", Group: "web", OnDemand: true, Status: "pending_deletion", Revision: 1<<40 + 3,
		Template: "plain", InstanceType: "small", ProviderInstanceId: "i-1", ProviderUri: "aws:///z/i-1",
		Hostname: "web-1", Addresses: []string{"10.0.0.1", "fd00::1"},
		CreatedAt: later(0), RegisteredAt: later(time.Minute), LastSeen: later(2 * time.Minute), AgentVersion: "v1",
		Condemned: &nstancev1.Condemned{Reason: string(fleet.ReasonRequested), DeleteAt: later(time.Hour)},
	}
}

func TestInstanceStatus(t *testing.T) {
	in := leaving()
	same(t, instanceStatus(&in), leavingMessage())
	host := status.Instance{Status: "running"}
	host.ID, host.Created, host.Arch, host.Machine = "vmx3", at, "arm64", cache.Machine{On: true, Binding: "configuring"}
	same(t, instanceStatus(&host), &nstancev1.InstanceStatus{
		InstanceId: "vmx3", Status: "running", CreatedAt: later(0), Machine: &nstancev1.InstanceMachine{Arch: "arm64", Binding: "configuring"},
	})
	fresh := status.Instance{Status: "pending"}
	fresh.ID, fresh.Created = "vmx2", at
	same(t, instanceStatus(&fresh), &nstancev1.InstanceStatus{InstanceId: "vmx2", Status: "pending", CreatedAt: later(0)})
}

// TestS17_EventsCarryTheWholeInstance: of one that has ended there is nothing to tell.
func TestS17_EventsCarryTheWholeInstance(t *testing.T) {
	event := func(status string, in *nstancev1.InstanceStatus) *nstancev1.InstanceEvent {
		return &nstancev1.InstanceEvent{
			InstanceId: "vmx1", Tenant: "a", Group: "web", ProviderInstanceId: "i-1", Status: status, Reason: string(fleet.ReasonRequested),
			Revision: 1<<40 + 3, UnhealthyAt: later(time.Second), DeleteAt: later(time.Hour), Instance: in,
		}
	}
	same(t, instanceEvent(&events.Instance{Status: "pending_deletion", Instance: leaving()}), event("pending_deletion", leavingMessage()))
	same(t, instanceEvent(&events.Instance{Status: "deleted", Instance: leaving()}), event("deleted", nil))
	same(t, instanceEvent(&events.Instance{Status: "heartbeat", ConfigDigest: "d"}), &nstancev1.InstanceEvent{Status: "heartbeat", ConfigDigest: "d"})
}

func TestEventsOfGroupsAndErrors(t *testing.T) {
	web := status.Group{Group: &effective.Group{Tenant: "a", Key: "web"}}
	same(t, groupEvent(&events.Group{Group: web}), &nstancev1.GroupEvent{Type: "UPSERT", Group: &nstancev1.GroupStatus{Tenant: "a", Key: "web"}})
	same(t, groupEvent(&events.Group{Group: web, Gone: true}), &nstancev1.GroupEvent{Type: "DELETE", Group: &nstancev1.GroupStatus{Tenant: "a", Key: "web"}})
	same(t, errorEvent(&events.Error{Class: "quota", Text: "no more", Shard: "s", At: at}),
		&nstancev1.ErrorEvent{Class: "quota", Error: "no more", Shard: "s", Timestamp: later(0)})
	same(t, errorEvent(&events.Error{Class: "quota", Text: "no more", Shard: "s", Group: "web", Instance: "vmx1", At: at}),
		&nstancev1.ErrorEvent{Class: "quota", Error: "no more", Shard: "s", Group: proto.String("web"), InstanceId: proto.String("vmx1"), Timestamp: later(0)})
}

// TestUpsertRequests: what a request leaves out is told apart from what it empties.
func TestUpsertRequests(t *testing.T) {
	zero := 0
	for name, c := range map[string]struct {
		req  *nstancev1.UpsertGroupRequest
		want requests.GroupChange
	}{
		"nothing": {&nstancev1.UpsertGroupRequest{}, requests.GroupChange{}},
		"emptied": {
			&nstancev1.UpsertGroupRequest{Config: &nstancev1.GroupConfig{
				Size: proto.Int32(0), Vars: &nstancev1.StringMap{}, Args: &nstancev1.StringMap{}, LoadBalancers: &nstancev1.StringList{}, Clear: []string{"args"},
			}},
			requests.GroupChange{Size: &zero, Vars: map[string]string{}, Args: map[string]any{}, LoadBalancers: []string{}, Clear: []string{"args"}},
		},
		"set": {
			&nstancev1.UpsertGroupRequest{Manager: "uid", Takeover: true, Config: &nstancev1.GroupConfig{
				Template: proto.String("plain"), InstanceType: proto.String("small"), InstanceTypes: &nstancev1.StringList{Values: []string{"a", "b"}},
				SubnetPool: proto.String("pool"), Args: &nstancev1.StringMap{Values: map[string]string{"k": "1"}},
			}},
			requests.GroupChange{
				Template: "plain", InstanceType: "small", InstanceTypes: []string{"a", "b"}, SubnetPool: "pool",
				Args: map[string]any{"k": 1.0}, Manager: "uid", Takeover: true,
			},
		},
	} {
		if diff := cmp.Diff(c.want, groupChangeOf(c.req)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
}

func TestDecisions(t *testing.T) {
	held := explain.Decision{At: at, Action: "create", Instance: "vmx1", Reason: "0 of 1", BlockedBy: fleet.BlockerListing, BlockedWhy: "the listing is doubted", NotBefore: at.Add(time.Minute)}
	got := decisionList([]explain.Decision{{At: at, Action: "delete", Reason: "2 of 1"}, held})
	same(t, got[0], &nstancev1.Decision{Time: later(0), Action: "delete", Reason: "2 of 1"})
	same(t, got[1], &nstancev1.Decision{
		Time: later(0), Action: "create", InstanceId: "vmx1", Reason: held.Why(), HeldBy: string(fleet.BlockerListing) + ": the listing is doubted", NotBefore: later(time.Minute),
	})
}

func TestExplainNeedsATarget(t *testing.T) {
	_, err := Of(nil).Explain("a", &nstancev1.ExplainRequest{})
	if refused := (*refusal.Error)(nil); !errors.As(err, &refused) || refused.Code != refusal.InvalidArgument {
		t.Errorf("got %v, want InvalidArgument", err)
	}
}
