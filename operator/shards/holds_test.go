package shards_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"nstance.dev/operator/shards"
	"nstance.dev/operator/shards/shardtest"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// M84, M85: holds and operations on power go to the shard of an instance, and what it refuses keeps its reason.
func TestM84M85_HoldsAndOperations(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Shard("a").AddGroup(tenant, shardtest.Group{Key: "web", Size: 1})
		w.Shard("a").SetHosts(tenant, "web", true)
		id := w.Shard("a").Instances(tenant, "web")[0].GetInstanceId()
		all := newSink()
		set := shards.NewSet(shards.Options{
			Cluster: w.ID, Tenant: tenant, Credentials: w.Operator(tenant), Dial: w.DialContext, Sink: all,
			Streams: []shards.Stream{shards.WatchGroups(all), shards.WatchInstances(all)},
		})
		set.Apply([]shards.Target{at("a", "a:1")})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = set.Run(ctx)
		}()
		defer func() {
			stop()
			<-ended
		}()
		w.after(time.Minute)
		of, _ := set.Shard("a")
		s := of.Machines()
		start := func(id, of string) (*nstancev1.OperationStatus, error) {
			return s.StartOperation(t.Context(), &nstancev1.StartOperationRequest{Id: id, InstanceId: of, Name: "powerOff"})
		}
		if _, err := start("op", id); shards.ReasonOf(err) != "NO_HOLD" || shards.ClassOf(err) != shards.Precondition {
			t.Errorf("without a hold: %v", err)
		}
		hold, err := s.SetHold(t.Context(), &nstancev1.SetHoldRequest{InstanceId: id, Reason: "power", Until: timestamppb.New(time.Now().Add(time.Hour))})
		if err != nil || time.Until(hold.GetUntil().AsTime()) != time.Hour {
			t.Errorf("hold %v, %v", hold, err)
		}
		if _, err := s.SetHold(t.Context(), &nstancev1.SetHoldRequest{InstanceId: id, Reason: "reboot"}); shards.ReasonOf(err) != "ON_HOLD" {
			t.Errorf("a weaker hold: %v", err)
		}
		for range 2 {
			if op, err := start("op", id); err != nil || op.GetState() != nstancev1.OperationState_OPERATION_STATE_IN_PROGRESS {
				t.Errorf("started: %v, %v", op, err)
			}
		}
		w.Shard("a").EndOperation("op", "")
		if op, err := s.GetOperation(t.Context(), "op"); err != nil || op.GetState() != nstancev1.OperationState_OPERATION_STATE_COMPLETE {
			t.Errorf("ended: %v, %v", op, err)
		}
		if op, err := s.CancelOperation(t.Context(), "op"); err != nil || op.GetId() != "op" {
			t.Errorf("cancelled: %v, %v", op, err)
		}
		if _, err := s.GetOperation(t.Context(), "other"); shards.ClassOf(err) != shards.NotFound {
			t.Errorf("an operation that nobody knows: %v", err)
		}
		if in, err := s.GetInstanceStatus(t.Context(), id); err != nil || in.GetStatus() != "powered-off" || in.GetHold().GetReason() != "power" {
			t.Errorf("the instance is %v, %v", in, err)
		}
		for _, of := range []string{id, "gone"} {
			if err := s.ClearHold(t.Context(), &nstancev1.ClearHoldRequest{InstanceId: of, Reason: "power"}); err != nil {
				t.Errorf("end of the hold of %s: %v", of, err)
			}
		}
		if h := w.Shard("a").Hold(id); h != nil {
			t.Errorf("it is on hold still: %v", h)
		}
	})
}
