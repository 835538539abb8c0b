package shardtest_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"nstance.dev/operator/shards"
	"nstance.dev/operator/shards/shardtest"
	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client returns the API of shard a for an operator of tenant.
func client(t *testing.T, c *shardtest.Cluster, tenant string) nstancev1.OperatorServiceClient {
	t.Helper()
	cc, _, err := shards.Dial("a:1", identity.ServerName("a", c.ID), c.Operator(tenant), c.DialContext)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cc.Close() })
	return nstancev1.NewOperatorServiceClient(cc)
}

func inBubble(t *testing.T, test func(t *testing.T, c *shardtest.Cluster, a *shardtest.Shard)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := shardtest.NewCluster(t)
		a := c.Shard("a")
		a.Serve("a:1")
		test(t, c, a)
	})
}

func expect(t *testing.T, err error, code codes.Code) {
	t.Helper()
	if status.Code(err) != code {
		t.Errorf("error %v, want code %v", err, code)
	}
}

func TestGroups(t *testing.T) {
	inBubble(t, func(t *testing.T, c *shardtest.Cluster, a *shardtest.Shard) {
		api := client(t, c, "default")
		size, template, other := int32(2), "base", "other"
		upsert := func(change func(*nstancev1.UpsertGroupRequest)) (*nstancev1.GroupStatus, error) {
			r := &nstancev1.UpsertGroupRequest{Key: "web", Config: &nstancev1.GroupConfig{Size: &size, Template: &template}, Manager: "me"}
			change(r)
			return api.UpsertGroup(t.Context(), r)
		}
		_, err := upsert(func(r *nstancev1.UpsertGroupRequest) { r.Config.Template = nil })
		expect(t, err, codes.InvalidArgument)
		g, err := upsert(func(*nstancev1.UpsertGroupRequest) {})
		if err != nil || g.GetSize() != 2 || g.GetPending() != 2 || g.GetManager() != "me" {
			t.Fatalf("%v, %v", g, err)
		}
		again, err := upsert(func(r *nstancev1.UpsertGroupRequest) { r.ExpectedEtag = &g.Etag })
		if err != nil || again.GetEtag() != g.GetEtag() {
			t.Errorf("a change that changes nothing: %v, %v", again, err)
		}
		_, err = upsert(func(r *nstancev1.UpsertGroupRequest) { r.ExpectedEtag = &other })
		expect(t, err, codes.Aborted)
		_, err = upsert(func(r *nstancev1.UpsertGroupRequest) { r.Manager = "you" })
		expect(t, err, codes.FailedPrecondition)
		if _, err = upsert(func(r *nstancev1.UpsertGroupRequest) { r.Manager, r.Takeover = "you", true }); err != nil {
			t.Error(err)
		}
		a.SetStatic("default", "web", true)
		_, err = upsert(func(r *nstancev1.UpsertGroupRequest) { r.Manager, r.Config.Template = "", &other })
		expect(t, err, codes.FailedPrecondition)
		a.SetStatic("default", "web", false)

		if list, err := client(t, c, "acme").ListGroups(t.Context(), &emptypb.Empty{}); err != nil || len(list.GetGroups()) != 0 {
			t.Errorf("another tenant sees %v, %v", list, err)
		}
		a.Settle()
		if _, err := api.DeleteGroup(t.Context(), &nstancev1.DeleteGroupRequest{Key: "web"}); err != nil {
			t.Fatal(err)
		}
		if g := a.Group("default", "web"); !g.GetDeleting() || g.GetSize() != 0 || g.GetDraining() != 2 {
			t.Errorf("%v", g)
		}
		a.Settle()
		if g := a.Group("default", "web"); g != nil {
			t.Errorf("it is still there: %v", g)
		}
	})
}

func TestOnDemandInstances(t *testing.T) {
	inBubble(t, func(t *testing.T, c *shardtest.Cluster, a *shardtest.Shard) {
		a.AddGroup("default", shardtest.Group{Key: "web"})
		api := client(t, c, "default")
		id, err := identity.NewID("wrk")
		if err != nil {
			t.Fatal(err)
		}
		text := id.String()
		r := &nstancev1.CreateInstanceRequest{InstanceId: &text, Config: &nstancev1.InstanceConfig{Group: "web"}}
		for _, want := range []string{"pending", "pending", "provisioning", "running", "running"} {
			got, err := api.CreateInstance(t.Context(), r)
			if err != nil || got.GetStatus() != want {
				t.Errorf("%v, %v, want %s", got, err, want)
			}
			if want != "pending" || len(a.Calls()) > 1 {
				a.Step()
			}
		}
		if n := len(a.Instances("default", "web")); n != 1 {
			t.Errorf("%d instances", n)
		}
		_, err = client(t, c, "acme").GetInstanceStatus(t.Context(), &nstancev1.GetInstanceStatusRequest{InstanceId: text})
		expect(t, err, codes.NotFound)
	})
}

func TestADeletedInstanceStaysDeleted(t *testing.T) {
	inBubble(t, func(t *testing.T, c *shardtest.Cluster, a *shardtest.Shard) {
		a.AddGroup("default", shardtest.Group{Key: "web"})
		api := client(t, c, "default")
		id, err := identity.NewID("wrk")
		if err != nil {
			t.Fatal(err)
		}
		text := id.String()
		create := &nstancev1.CreateInstanceRequest{InstanceId: &text, Config: &nstancev1.InstanceConfig{Group: "web"}}
		expectCreated := func(want string) {
			t.Helper()
			if got, err := api.CreateInstance(t.Context(), create); err != nil || got.GetStatus() != want {
				t.Errorf("%v, %v, want %s", got, err, want)
			}
		}
		expectDeleted := func(want string) {
			t.Helper()
			got, err := api.DeleteInstance(t.Context(), &nstancev1.DeleteInstanceRequest{InstanceId: text})
			if err != nil || got.GetStatus() != want {
				t.Errorf("%v, %v, want %s", got, err, want)
			}
		}
		expectDeleted("unknown")
		expectCreated("pending")
		expectDeleted("deleting")
		a.Settle()
		expectDeleted("deleted")
		expectCreated("terminated")
		if all := a.Instances("default", "web"); len(all) != 0 {
			t.Errorf("%v", all)
		}
		if got, err := api.GetInstanceStatus(t.Context(), &nstancev1.GetInstanceStatusRequest{InstanceId: text}); err != nil || got.GetStatus() != "terminated" {
			t.Errorf("%v, %v", got, err)
		}
		time.Sleep(25 * time.Hour)
		_, err = api.CreateInstance(t.Context(), create)
		expect(t, err, codes.InvalidArgument)
	})
}

func TestAnAcknowledgementEndsAnInstanceThatNobodyCondemned(t *testing.T) {
	inBubble(t, func(t *testing.T, c *shardtest.Cluster, a *shardtest.Shard) {
		a.AddGroup("default", shardtest.Group{Key: "web", Size: 1, DrainTimeout: time.Hour})
		id := a.Instances("default", "web")[0].GetInstanceId()
		if _, err := client(t, c, "default").AcknowledgeDrained(t.Context(), &nstancev1.AcknowledgeDrainedRequest{InstanceId: id}); err != nil {
			t.Fatal(err)
		}
		a.Settle()
		if all := a.Instances("default", "web"); len(all) != 1 || all[0].GetInstanceId() == id {
			t.Errorf("%v", all)
		}
	})
}

func TestASizeThatWasLoweredIsNotLoweredAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, c *shardtest.Cluster, a *shardtest.Shard) {
		a.AddGroup("default", shardtest.Group{Key: "web", Size: 3})
		api := client(t, c, "default")
		id, size := a.Instances("default", "web")[0].GetInstanceId(), int32(2)
		if _, err := api.UpsertGroup(t.Context(), &nstancev1.UpsertGroupRequest{Key: "web", Config: &nstancev1.GroupConfig{Size: &size}}); err != nil {
			t.Fatal(err)
		}
		if _, err := api.DeleteInstance(t.Context(), &nstancev1.DeleteInstanceRequest{InstanceId: id, DecrementSize: true}); err != nil {
			t.Fatal(err)
		}
		if g := a.Group("default", "web"); g.GetSize() != 2 {
			t.Errorf("size %d, want 2", g.GetSize())
		}
	})
}

func TestDrain(t *testing.T) {
	inBubble(t, func(t *testing.T, c *shardtest.Cluster, a *shardtest.Shard) {
		a.AddGroup("default", shardtest.Group{Key: "web", Size: 1, DrainTimeout: 5 * time.Minute})
		api := client(t, c, "default")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stream, err := api.WatchInstances(ctx, &nstancev1.WatchInstancesRequest{CoordinatesDrains: true})
		if err != nil {
			t.Fatal(err)
		}
		next := func() string {
			t.Helper()
			e, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			return e.GetStatus()
		}
		got := []string{next()}
		id := a.Instances("default", "web")[0].GetInstanceId()
		a.Condemn(id, "expired", 0)
		a.Settle() // the replacement comes, the old one stays
		if n := len(a.Instances("default", "web")); n != 2 {
			t.Errorf("%d instances", n)
		}
		if _, err := api.AcknowledgeDrained(t.Context(), &nstancev1.AcknowledgeDrainedRequest{InstanceId: id}); err != nil {
			t.Fatal(err)
		}
		a.Settle()
		for range 6 {
			got = append(got, next())
		}
		want := []string{"snapshot_end", "pending_deletion", "created", "registered", "running", "deleting", "deleted"}
		if !slices.Equal(got, want) {
			t.Errorf("events %v, want %v", got, want)
		}
		time.Sleep(16 * time.Second)
		if next() != "heartbeat" {
			t.Error("no heartbeat")
		}
	})
}

func TestCapacity(t *testing.T) {
	inBubble(t, func(t *testing.T, c *shardtest.Cluster, a *shardtest.Shard) {
		a.AddGroup("default", shardtest.Group{Key: "web", Size: 1})
		a.SetCapacity("default", "web", 2)
		api := client(t, c, "default")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stream, err := api.WatchErrors(ctx, &emptypb.Empty{}, grpc.WaitForReady(true))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		size := int32(3)
		if _, err := api.UpsertGroup(t.Context(), &nstancev1.UpsertGroupRequest{Key: "web", Config: &nstancev1.GroupConfig{Size: &size}}); err != nil {
			t.Fatal(err)
		}
		a.Settle()
		if g := a.Group("default", "web"); g.GetActualSize() != 2 || g.GetPending() != 1 {
			t.Errorf("%v", g)
		}
		if e, err := stream.Recv(); err != nil || e.GetClass() != "capacity" || e.GetGroup() != "web" {
			t.Errorf("%v, %v", e, err)
		}
		a.SetCapacity("default", "web", -1)
		a.Settle()
		if g := a.Group("default", "web"); g.GetActualSize() != 3 {
			t.Errorf("%v", g)
		}
	})
}
