package rpc_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// How the leader fares is told to whom the whole shard concerns: counts of calls would tell a
// tenant what others do (S12).
func TestS12_TheLoadOfAShardIsForAdministrators(t *testing.T) {
	before := time.Now()
	w := newWorld(t, worldOptions{})
	admin, tenant := w.operatorOf("default"), w.operatorOf("acme")
	w.machine(tenant)
	got, err := admin.GetServerInfo(t.Context(), &emptypb.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	if since := got.LeadingSince.AsTime(); since.Before(before) || since.After(time.Now()) {
		t.Errorf("it leads since %v; the test began at %v", since, before)
	}
	want := &nstancev1.Lease{RenewedAt: timestamppb.New(renewed), ExpiresAt: timestamppb.New(renewed.Add(15 * time.Second)), Holder: "server-1"}
	if diff := cmp.Diff(want, got.Lease, protocmp.Transform()); diff != "" || !got.Administrator {
		t.Errorf("administrator is %t; lease (-want +got):\n%s", got.Administrator, diff)
	}
	calls := []*nstancev1.CallStats{{Operation: "get", Calls: 9, Errors: 2, Throttled: 1, MeanSeconds: 0.003, P50Seconds: 0.002, P99Seconds: 1}}
	if diff := cmp.Diff(calls, got.Storage, protocmp.Transform()); diff != "" {
		t.Errorf("storage (-want +got):\n%s", diff)
	}
	if !slices.ContainsFunc(got.ProviderCalls, func(c *nstancev1.CallStats) bool { return c.Operation == "create" && c.Calls == 1 && c.Errors == 0 }) {
		t.Errorf("after a create the calls to the provider are %v", got.ProviderCalls)
	}
	own, err := tenant.GetServerInfo(t.Context(), &emptypb.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	if own.Administrator || own.Lease != nil || own.Storage != nil || own.ProviderCalls != nil || own.LeadingSince == nil {
		t.Errorf("a tenant is told %v", own)
	}
}

// Answers about one instance alone have its life and its files; lists do not.
func TestAnInstanceIsToldWithItsLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOptions{pipes: true})
		op := w.operatorOf("acme")
		id, conn := w.registered(op)
		stream := w.connect(conn, id)
		report := &nstancev1.HealthReport{InstanceId: id.String(), Count: 1, Metrics: &nstancev1.Metrics{CpuUsage: proto.Float64(12.5), MemoryUsage: proto.Float64(140)}}
		if err := stream.Send(&nstancev1.AgentMessage{Message: &nstancev1.AgentMessage_Report{Report: report}}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		st, err := op.GetInstanceStatus(t.Context(), &nstancev1.GetInstanceStatusRequest{InstanceId: id.String()})
		if err != nil {
			t.Fatal(err)
		}
		var states []string
		for _, step := range st.Life {
			states = append(states, step.State)
			if step.At == nil {
				t.Errorf("step %s has no time", step.State)
			}
		}
		slices.Sort(states) // the clock stands still
		if want := []string{"created", "launched", "registered"}; !slices.Equal(states, want) {
			t.Errorf("life %q, want %q", states, want)
		}
		if len(st.Files) != 1 || st.Files[0].Name != "identity.crt" || st.Files[0].Kind != "certificate" || !st.Files[0].Current || st.Files[0].ExpiresAt == nil {
			t.Errorf("files %v", st.Files)
		}
		if st.CpuUsage == nil || *st.CpuUsage != 12.5 || st.MemoryUsage != nil {
			t.Errorf("usage %v and %v; what is no percentage is not told", st.CpuUsage, st.MemoryUsage)
		}
		explained, err := op.Explain(t.Context(), &nstancev1.ExplainRequest{Target: &nstancev1.ExplainRequest_InstanceId{InstanceId: id.String()}})
		if err != nil || len(explained.Instance.Life) != 3 {
			t.Errorf("explained: %v, %v", explained.GetInstance(), err)
		}
		list, err := op.ListInstances(t.Context(), &nstancev1.ListInstancesRequest{})
		if err != nil || len(list.Instances) != 1 || list.Instances[0].Life != nil || list.Instances[0].Files != nil {
			t.Errorf("listed: %v, %v", list, err)
		}
	})
}
