package shards_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"nstance.dev/operator/shards"
	"nstance.dev/operator/shards/shardtest"
	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func TestACallThatMeetsNoLeaderFindsIt(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.apply(at("a", "a:1"))
		w.Shard("a").Break(shardtest.Faults{Refuse: map[string]error{"UpsertGroup": shardtest.Refusal(codes.Unavailable, "NOT_LEADER", "not shard leader")}})
		if _, err := w.shard("a").UpsertGroup(t.Context(), upsert("web", 1)); shards.ClassOf(err) != shards.Unavailable {
			t.Fatal(err)
		}
		w.Shard("a").Break(shardtest.Faults{})
		w.after(2 * time.Second)
		w.expect("a", shards.Ready, "")
		if n := w.Shard("a").Count("GetServerInfo"); n != 2 {
			t.Errorf("it was asked who it is %d times, want 2", n)
		}
	})
}

func TestAnAnswerOverALostConnectionDoesNotCount(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.apply(at("a", "a:1"))
		w.Shard("a").Break(shardtest.Faults{Slow: 3 * time.Second})
		answered := make(chan error)
		go func() {
			_, err := w.shard("a").UpsertGroup(t.Context(), upsert("web", 1))
			answered <- err
		}()
		w.after(2 * time.Second)
		w.Shard("a").EndStreams()
		if err := <-answered; err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.expect("a", shards.Degraded, shards.ReasonUnreachable)
	})
}

func TestACallLostWithTheOldConnectionDoesNotHarmTheNew(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		stop := w.Shard("a").Serve("a:1")
		w.Shard("a").Serve("a:2")
		w.apply(at("a", "a:1"))
		w.Shard("a").Break(shardtest.Faults{Slow: 10 * time.Second})
		failed := make(chan error)
		go func() {
			_, err := w.shard("a").UpsertGroup(t.Context(), upsert("web", 1))
			failed <- err
		}()
		synctest.Wait()
		w.Shard("a").Break(shardtest.Faults{})
		w.apply(at("a", "a:2"))
		w.expect("a", shards.Ready, "")
		w.path("a")
		stop()
		if err := <-failed; shards.ClassOf(err) != shards.Unavailable {
			t.Errorf("error %v", err)
		}
		synctest.Wait()
		if got := w.path("a"); got != nil {
			t.Errorf("went through %v", got)
		}
	})
}

func upsert(key string, n int32) *nstancev1.UpsertGroupRequest {
	config := size(n)
	template := "base"
	config.Template = &template
	return &nstancev1.UpsertGroupRequest{Key: key, Config: config}
}

func TestALostAnswerIsRepeatedByTheCaller(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.Shard("a")
		a.AddGroup(tenant, shardtest.Group{Key: "web", Size: 3})
		w.apply(at("a", "a:1"))
		a.Break(shardtest.Faults{LoseAnswers: map[string]int{"DeleteInstance": 1}})
		id := a.Instances(tenant, "web")[1].GetInstanceId()
		req := &nstancev1.DeleteInstanceRequest{InstanceId: id, DecrementSize: true}
		_, err := w.shard("a").DeleteInstance(t.Context(), "web", req)
		if class := shards.ClassOf(err); class != shards.Unavailable || class.Answered() {
			t.Fatalf("error %v", err)
		}
		for range 2 {
			if _, err := w.shard("a").DeleteInstance(t.Context(), "web", req); err != nil {
				t.Fatal(err)
			}
		}
		a.Settle()
		if g := a.Group(tenant, "web"); g.GetSize() != 2 || g.GetActualSize() != 2 {
			t.Errorf("size %d, running %d, want 2 and 2", g.GetSize(), g.GetActualSize())
		}
		w.after(2 * time.Second)
		w.expect("a", shards.Ready, "")
	})
}

func TestOneFailedCallIsNoLostShard(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.apply(at("a", "a:1"))
		w.path("a")
		w.Shard("a").Break(shardtest.Faults{Refuse: map[string]error{"UpsertGroup": shardtest.Refusal(codes.Unavailable, "STORAGE_UNAVAILABLE", "storage")}})
		if _, err := w.shard("a").UpsertGroup(t.Context(), upsert("web", 1)); shards.ClassOf(err) != shards.Unavailable {
			t.Fatal(err)
		}
		w.after(2 * time.Minute)
		if got, want := w.path("a"), []shards.State{shards.Degraded, shards.Ready}; !slices.Equal(got, want) {
			t.Errorf("went through %v, want %v", got, want)
		}
	})
}

func TestAProviderWithoutRoomIsNoLostShard(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.apply(at("a", "a:1"))
		w.path("a")
		w.Shard("a").Break(shardtest.Faults{Refuse: map[string]error{"CreateInstance": shardtest.Refusal(codes.Unavailable, "NO_CAPACITY", "no machine can be made")}})
		id := "x"
		_, err := w.shard("a").CreateInstance(t.Context(), &nstancev1.CreateInstanceRequest{InstanceId: &id})
		if class := shards.ClassOf(err); class != shards.NoRoom || !class.Answered() {
			t.Errorf("error %v", err)
		}
		if got := w.path("a"); got != nil {
			t.Errorf("went through %v", got)
		}
	})
}

func TestCallsAboutOneGroupComeOneAfterTheOther(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.apply(at("a", "a:1"))
		w.Shard("a").Break(shardtest.Faults{Slow: time.Second})
		start := time.Now()
		var calls sync.WaitGroup
		var mu sync.Mutex
		ended := map[string][]time.Duration{}
		for _, key := range []string{"web", "web", "web", "db", "mail"} {
			calls.Go(func() {
				if _, err := w.shard("a").UpsertGroup(t.Context(), upsert(key, 1)); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				ended[key] = append(ended[key], time.Since(start))
			})
		}
		calls.Wait()
		if got, want := ended["web"], []time.Duration{time.Second, 2 * time.Second, 3 * time.Second}; !slices.Equal(got, want) {
			t.Errorf("one group: %v, want %v", got, want)
		}
		if ended["db"][0] != time.Second || ended["mail"][0] != time.Second {
			t.Errorf("other groups: %v", ended)
		}
	})
}

func TestS22_CallsInFlightAreLimited(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.apply(at("a", "a:1"))
		before := w.Shard("a").Count("AcknowledgeDrained")
		w.Shard("a").Break(shardtest.Faults{Slow: 5 * time.Second})
		id, err := identity.NewID("wrk")
		if err != nil {
			t.Fatal(err)
		}
		var calls sync.WaitGroup
		for range 100 {
			calls.Go(func() {
				if err := w.shard("a").AcknowledgeDrained(t.Context(), &nstancev1.AcknowledgeDrainedRequest{InstanceId: id.String()}); err != nil {
					t.Error(err)
				}
			})
		}
		w.after(time.Second)
		if n := w.Shard("a").Count("AcknowledgeDrained") - before; n != 32 {
			t.Errorf("%d calls at once, want 32", n)
		}
		calls.Wait()
	})
}

func TestACallerThatGivesUpIsNotTheShardsFault(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.apply(at("a", "a:1"))
		w.Shard("a").Break(shardtest.Faults{Slow: time.Minute})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := w.shard("a").GetInstanceStatus(ctx, "x"); shards.ClassOf(err) != shards.Ended {
			t.Errorf("error %v", err)
		}
		w.expect("a", shards.Ready, "")
	})
}

func TestCreateInstanceNeedsAnID(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.apply(at("a", "a:1"))
		_, err := w.shard("a").CreateInstance(t.Context(), &nstancev1.CreateInstanceRequest{})
		if shards.ClassOf(err) != shards.Invalid || w.Shard("a").Count("CreateInstance") != 0 {
			t.Errorf("error %v", err)
		}
	})
}

func TestErrorsSayWhereAndWhat(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Shard("a").AddGroup(tenant, shardtest.Group{Key: "web", Static: true})
		w.apply(at("a", "a:1"))
		req := upsert("web", 1)
		other := "other"
		req.Config.Template = &other
		_, err := w.shard("a").UpsertGroup(t.Context(), req)
		var e *shards.Error
		if !errors.As(err, &e) || e.Class != shards.Locked || e.Code != codes.FailedPrecondition || e.Reason != "LOCKED_FIELD" || !strings.HasPrefix(err.Error(), "shard a: UpsertGroup: the group is in the configuration file") {
			t.Errorf("error %v", err)
		}
	})
}
