package shards_test

import (
	"context"
	"crypto/tls"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/types/known/emptypb"

	"nstance.dev/operator/shards"
	"nstance.dev/operator/shards/shardtest"
	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func TestAShardIsConnectedAndListed(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Shard("a").AddGroup(tenant, shardtest.Group{Key: "web", Size: 2})
		w.apply(at("a", "a:1"))
		if got, want := w.path("a"), []shards.State{shards.Syncing, shards.Ready}; !slices.Equal(got, want) {
			t.Errorf("went through %v, want %v", got, want)
		}
		if l := w.instancesOf("a"); len(l.Instances) != 2 || !l.Complete || l.Term != 1 {
			t.Errorf("listed %+v", l)
		}
		if l := w.groups["a"]; len(l.Groups) != 1 || l.Groups[0].GetActualSize() != 2 {
			t.Errorf("listed %+v", l)
		}
		if got := w.statuses(); !slices.Equal(got, []string{"snapshot_end"}) {
			t.Errorf("events %v", got)
		}
		n := int32(3)
		if _, err := w.shard("a").UpsertGroup(t.Context(), &nstancev1.UpsertGroupRequest{Key: "web", Config: size(n)}); err != nil {
			t.Fatal(err)
		}
		w.Shard("a").Settle()
		synctest.Wait()
		if got := w.statuses(); !slices.Equal(got, []string{"created", "registered", "running"}) {
			t.Errorf("events %v", got)
		}
		if g := w.Shard("a").Group(tenant, "web"); g.GetManager() != "me" {
			t.Errorf("manager %q", g.GetManager())
		}
	})
}

func TestEverythingIsListedFromTimeToTime(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.apply(at("a", "a:1"))
		lists := w.Shard("a").Count("ListInstances")
		w.after(5 * time.Minute)
		if n := w.Shard("a").Count("ListInstances") - lists; n < 9 || n > 11 {
			t.Errorf("%d lists in five minutes, want 10", n)
		}
		if got := w.path("a"); len(got) != 2 {
			t.Errorf("went through %v", got)
		}
		if got := w.restarted(); got != nil {
			t.Errorf("streams ended: %v", got)
		}
	})
}

// An event does not say what an instance is; nobody waits half a minute to hear it.
func TestWhatIsNewIsListedSoonAndOnce(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.apply(at("a", "a:1"))
		w.after(10 * time.Second)
		before := w.Shard("a").Count("ListInstances")
		w.Shard("a").AddGroup(tenant, shardtest.Group{Key: "web", Size: 20})
		w.after(3 * time.Second)
		if n := len(w.instancesOf("a").Instances); n != 20 {
			t.Errorf("%d instances are known of 20", n)
		}
		if n := w.Shard("a").Count("ListInstances") - before; n != 1 {
			t.Errorf("%d lists, want 1", n)
		}
	})
}

func TestAListHasAsManyPagesAsItNeeds(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Shard("a").AddGroup(tenant, shardtest.Group{Key: "web", Size: 2001})
		w.apply(at("a", "a:1"))
		ids := map[string]bool{}
		for _, in := range w.instancesOf("a").Instances {
			ids[in.GetInstanceId()] = true
		}
		if len(ids) != 2001 {
			t.Errorf("%d instances, want 2001", len(ids))
		}
		w.expect("a", shards.Ready, "")
	})
}

// A list is given up that goes on for ever; the shard is not taken for one that is known.
func TestS22_AListHasAnEnd(t *testing.T) {
	for _, tt := range []struct {
		name  string
		pages []string
		most  int // calls in the first seconds
	}{{"the same page again", []string{"again"}, 2}, {"pages in a circle", []string{"a", "b"}, 200}} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.Shard("a").Break(shardtest.Faults{NextPages: tt.pages})
				w.apply(at("a", "a:1"))
				w.after(4 * time.Second) // the first list is due at once or after a few seconds
				if n := w.Shard("a").Count("ListInstances"); n == 0 || n > 10*tt.most {
					t.Errorf("%d pages were asked for", n)
				}
				if st := w.shard("a").Status(); st.State == shards.Ready {
					t.Errorf("%+v", st)
				}
				if w.lists != 0 {
					t.Errorf("%d lists without an end were believed", w.lists)
				}
				w.Shard("a").Break(shardtest.Faults{})
				w.after(time.Minute)
				w.expect("a", shards.Ready, "")
			})
		})
	}
}

func TestAStreamThatWasTooSlowIsOpenedAtOnceOnce(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.apply(at("a", "a:1"))
		slow := shardtest.Refusal(codes.ResourceExhausted, "WATCHER_TOO_SLOW", "the watcher does not read")
		w.Shard("a").Break(shardtest.Faults{Refuse: map[string]error{"WatchErrors": slow}})
		w.Shard("a").EndStreams()
		w.after(4 * time.Second) // a second until the session after
		got := w.restarted()
		others := slices.DeleteFunc(slices.Clone(got), func(s string) bool { return s == "WatchErrors exhausted" })
		if len(got)-len(others) != 2 {
			t.Errorf("ended: %v", got)
		}
		w.expect("a", shards.Ready, "")
		w.Shard("a").Break(shardtest.Faults{})
		w.after(10 * time.Second)
		if n := w.Shard("a").Streams(); n != 3 {
			t.Errorf("%d streams, want 3", n)
		}
	})
}

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

func TestANewLeaderIsListedUntilItKnowsEverything(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Shard("a").AddGroup(tenant, shardtest.Group{Key: "web", Size: 2})
		w.apply(at("a", "a:1"))
		w.path("a")
		w.Shard("a").Restart()
		w.after(8 * time.Second)
		if l := w.instancesOf("a"); l.Complete || l.Term != 2 || len(l.Instances) != 0 {
			t.Errorf("listed %+v", l)
		}
		w.expect("a", shards.Syncing, "")
		w.Shard("a").Rebuilt()
		w.after(6 * time.Second)
		w.expect("a", shards.Ready, "")
		if l := w.instancesOf("a"); !l.Complete || len(l.Instances) != 2 {
			t.Errorf("listed %+v", l)
		}
		if got, want := w.path("a"), []shards.State{shards.Degraded, shards.Syncing, shards.Ready}; !slices.Equal(got, want) {
			t.Errorf("went through %v, want %v", got, want)
		}
	})
}

func TestAShardThatIsDownIsUnreachableAndComesBack(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		stop := w.Shard("a").Serve("a:1")
		w.apply(at("a", "a:1"))
		stop()
		w.after(25 * time.Second)
		w.expect("a", shards.Degraded, shards.ReasonUnreachable)
		if _, err := w.shard("a").GetInstanceStatus(t.Context(), "x"); shards.ClassOf(err) != shards.Unavailable || !strings.Contains(err.Error(), "shard a: GetInstanceStatus: not connected: ") {
			t.Errorf("a call while it is down: %v", err)
		}
		w.after(10 * time.Second)
		w.expect("a", shards.Unreachable, shards.ReasonUnreachable)
		w.after(time.Hour)
		dials := len(w.Dials())
		w.after(10 * time.Minute)
		if n := len(w.Dials()) - dials; n < 15 || n > 25 {
			t.Errorf("%d dials in ten minutes, want one each 30s", n)
		}
		w.Shard("a").Serve("a:1")
		w.after(40 * time.Second)
		w.expect("a", shards.Ready, "")
	})
}

func TestL7_AShardThatIsDownHoldsUpNoOther(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Shard("a").Break(shardtest.Faults{Slow: time.Hour})
		w.apply(at("a", "a:1"), at("b", "b:1"))
		w.expect("b", shards.Ready, "")
		w.expect("a", shards.Connecting, "")
	})
}

func TestO2_ShardsComeGoAndMove(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.apply(at("a", "a:1"))
		w.apply(at("a", "a:1"), at("b", "b:1"))
		w.expect("b", shards.Ready, "")
		if n := len(w.set.Shards()); n != 2 {
			t.Errorf("%d shards", n)
		}
		if n := w.Shard("a").Count("GetServerInfo"); n != 1 {
			t.Errorf("a was connected %d times", n)
		}

		w.path("a")
		stop := w.Shard("a").Serve("a:2")
		defer stop()
		w.apply(at("a", "a:2"), at("b", "b:1"))
		if st := w.shard("a").Status(); st.State != shards.Ready || st.Address != "a:2" {
			t.Errorf("after the move: %+v", st)
		}
		if got, want := w.path("a"), []shards.State{shards.Syncing, shards.Ready}; !slices.Equal(got, want) {
			t.Errorf("the move went through %v, want %v", got, want)
		}
		if n := w.Shard("a").Streams(); n != 3 {
			t.Errorf("%d streams, want 3", n)
		}

		w.apply(at("b", "b:1"))
		if n := w.Shard("a").Streams(); n != 0 || !slices.Equal(w.removed, []string{"a"}) {
			t.Errorf("%d streams of a shard that is gone; removed %v", n, w.removed)
		}
		if _, ok := w.set.Shard("a"); ok {
			t.Error("a shard that is gone is there")
		}
	})
}

func TestO2_AnAddressThatDoesNotAnswerKeepsTheOldConnection(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.apply(at("a", "a:1"))
		w.apply(at("a", "nowhere:1"))
		w.after(10 * time.Minute)
		w.expect("a", shards.Ready, "")
		if _, err := w.shard("a").UpsertGroup(t.Context(), upsert("web", 1)); err != nil {
			t.Error(err)
		}
	})
}

func TestO2_AKeptConnectionThatEndsIsNotUsed(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.apply(at("a", "a:1"))
		w.apply(at("a", "nowhere:1"))
		w.Shard("a").EndStreams()
		w.after(time.Second)
		w.expect("a", shards.Degraded, shards.ReasonUnreachable)
		if _, err := w.shard("a").UpsertGroup(t.Context(), upsert("web", 1)); shards.ClassOf(err) != shards.Unavailable {
			t.Errorf("upsert: %v", err)
		}
		w.after(time.Minute)
		w.expect("a", shards.Unreachable, shards.ReasonUnreachable)
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

func TestNothingIsReportedOfAShardThatIsGone(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.apply(at("a", "a:1"), at("b", "b:1"))
		w.Shard("a").Break(shardtest.Faults{Slow: time.Minute})
		a := w.shard("a")
		failed := make(chan error)
		go func() {
			_, err := a.UpsertGroup(t.Context(), upsert("web", 1))
			failed <- err
		}()
		synctest.Wait()
		w.path("a")
		w.apply(at("b", "b:1"))
		if err := <-failed; shards.ClassOf(err) != shards.Unavailable {
			t.Errorf("error %v", err)
		}
		w.after(time.Minute)
		if got := w.path("a"); got != nil {
			t.Errorf("went through %v", got)
		}
	})
}

func TestAStreamThatEndsAloneIsNoLostShard(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Shard("a").Break(shardtest.Faults{Refuse: map[string]error{"WatchErrors": shardtest.Refusal(codes.Internal, "INTERNAL", "panic")}})
		w.apply(at("a", "a:1"))
		w.after(10 * time.Second)
		w.expect("a", shards.Ready, "")
		if got := w.restarted(); len(got) < 3 || got[0] != "WatchErrors broken" {
			t.Errorf("ended: %v", got)
		}
	})
}

func upsert(key string, n int32) *nstancev1.UpsertGroupRequest {
	config := size(n)
	template := "base"
	config.Template = &template
	return &nstancev1.UpsertGroupRequest{Key: key, Config: config}
}

func TestO2_SwappedAddressesChangeNothing(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.apply(at("a", "a:1"), at("b", "b:1"))
		w.apply(at("a", "b:1"), at("b", "a:1"))
		for _, name := range []string{"a", "b"} {
			w.expect(name, shards.Unreachable, shards.ReasonIdentityMismatch)
			if _, err := w.shard(name).UpsertGroup(t.Context(), upsert("web", 1)); shards.ClassOf(err) != shards.Unavailable {
				t.Errorf("upsert: %v", err)
			}
			if n := w.Shard(name).Count("UpsertGroup"); n != 0 {
				t.Errorf("%s saw %d upserts", name, n)
			}
		}
		w.apply(at("a", "a:1"), at("b", "b:1"))
		w.expect("a", shards.Ready, "")
		w.expect("b", shards.Ready, "")
	})
}

func TestAServerMustSayThatItIsTheShard(t *testing.T) {
	for _, tt := range []struct {
		name   string
		faults shardtest.Faults
	}{{"another shard", shardtest.Faults{Shard: "z"}}, {"another cluster", shardtest.Faults{ClusterID: "z"}}} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.Shard("a").Break(tt.faults)
				w.apply(at("a", "a:1"))
				w.expect("a", shards.Unreachable, shards.ReasonIdentityMismatch)
				if n := w.Shard("a").Count("ListGroups"); n != 0 {
					t.Errorf("it was asked for groups %d times", n)
				}
				w.Shard("a").Break(shardtest.Faults{})
				w.after(59 * time.Second)
				w.expect("a", shards.Ready, "")
				if n := w.Shard("a").Count("GetServerInfo"); n != 2 {
					t.Errorf("it was asked who it is %d times, want 2", n)
				}
			})
		})
	}
}

// During a failover, an address of another shard says less than the shard's own server.
func TestAMisplacedAddressSaysLittleWhileNobodyLeads(t *testing.T) {
	for _, addresses := range [][]string{{"b:1", "a:2"}, {"a:2", "b:1"}} {
		inWorld(t, func(t *testing.T, w *world) {
			w.Shard("a").ServeStandby("a:2", "")
			w.apply(at("a", addresses...))
			w.expect("a", shards.Connecting, "")
			w.Shard("a").Serve("a:2")
			w.after(5 * time.Second)
			w.expect("a", shards.Ready, "")
		})
	}
	inWorld(t, func(t *testing.T, w *world) {
		w.apply(at("a", "gone:1", "b:1"))
		w.expect("a", shards.Unreachable, shards.ReasonIdentityMismatch)
	})
}

func TestAStandbyNamesTheLeader(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.apply(at("a", "gone:1", "a:1"))
		w.expect("a", shards.Ready, "")

		// The leader goes; who was a standby leads, and the old address has a standby.
		w.Shard("a").Serve("a:9")
		w.Shard("a").ServeStandby("a:1", "a:9")
		w.Shard("a").Restart()
		w.Shard("a").Rebuilt()
		w.after(3 * time.Second)
		if st := w.shard("a").Status(); st.State != shards.Ready || st.Address != "a:9" || st.Term != 2 {
			t.Errorf("%+v", st)
		}
	})
}

func TestStandbysThatPointAtEachOtherAreAskedWithPauses(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Shard("a").ServeStandby("a:1", "a:2")
		w.Shard("a").ServeStandby("a:2", "a:1")
		w.apply(at("a", "a:1"))
		w.after(10 * time.Minute)
		w.expect("a", shards.Unreachable, shards.ReasonUnreachable)
		if n := len(w.Dials()); n > 80 {
			t.Errorf("%d dials in ten minutes", n)
		}
	})
}

func TestASilentStreamIsOpenedAnew(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.apply(at("a", "a:1"))
		w.after(20 * time.Second)
		w.Shard("a").Break(shardtest.Faults{Silent: true})
		w.after(38 * time.Second) // 45s after the last heartbeat are not over
		if got := w.restarted(); got != nil {
			t.Errorf("ended too early: %v", got)
		}
		w.after(10 * time.Second)
		if got := w.restarted(); !slices.Equal(got, []string{"WatchInstances silent"}) {
			t.Errorf("ended: %v", got)
		}
		w.Shard("a").Break(shardtest.Faults{})
		w.after(50 * time.Second) // the stream that began silent ends too
		w.Shard("a").AddGroup(tenant, shardtest.Group{Key: "web", Size: 1})
		synctest.Wait()
		if got := w.statuses(); !slices.Contains(got, "running") {
			t.Errorf("events %v", got)
		}
	})
}

func TestAServerWithoutHeartbeatsMayBeSilent(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Shard("a").Break(shardtest.Faults{NoHeartbeats: true})
		w.apply(at("a", "a:1"))
		w.after(10 * time.Minute)
		if got := w.restarted(); got != nil {
			t.Errorf("streams ended: %v", got)
		}
	})
}

func TestAServerThatAnswersNothingIsUnreachable(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.apply(at("a", "a:1"))
		w.Shard("a").Break(shardtest.Faults{Slow: time.Hour})
		w.after(80 * time.Second)
		w.expect("a", shards.Unreachable, shards.ReasonUnreachable)
		w.Shard("a").Break(shardtest.Faults{})
		w.after(time.Minute)
		w.expect("a", shards.Ready, "")
	})
}

func TestWhatAServerLacksIsRemembered(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Shard("a").Break(shardtest.Faults{Lacks: map[string]bool{"ListInstances": true, "WatchErrors": true, "GetServerInfo": true}})
		w.apply(at("a", "a:1"))
		w.after(10 * time.Second)
		w.expect("a", shards.Ready, "")
		if got := w.shard("a").Status().Missing; !slices.Equal(got, []string{"GetServerInfo", "ListInstances", "WatchErrors"}) {
			t.Errorf("missing %v", got)
		}
		w.Shard("a").Break(shardtest.Faults{})
		w.Shard("a").EndStreams()
		w.after(5 * time.Second)
		if got := w.shard("a").Status().Missing; got != nil {
			t.Errorf("after a new connection: missing %v", got)
		}
	})
}

func TestAnAbilityThatIsNotNamedIsMissing(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Shard("a").Break(shardtest.Faults{Lacks: map[string]bool{"decrement-size": true}})
		w.apply(at("a", "a:1"))
		w.after(10 * time.Second)
		w.expect("a", shards.Ready, "")
		if got := w.shard("a").Status().Missing; !slices.Equal(got, []string{"decrement-size"}) {
			t.Errorf("missing %v", got)
		}
	})
}

// TestAStreamThatIsRefusedIsMissed: the shard answers, and yet nobody hears of its drains.
func TestAStreamThatIsRefusedIsMissed(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		denied := shardtest.Refusal(codes.PermissionDenied, "NOT_ADMINISTRATOR", "not for you")
		w.Shard("a").Break(shardtest.Faults{Refuse: map[string]error{"WatchInstances": denied}})
		w.apply(at("a", "a:1"))
		w.after(time.Minute)
		w.expect("a", shards.Ready, "")
		if got := w.shard("a").Status().Missing; !slices.Equal(got, []string{"WatchInstances"}) {
			t.Errorf("missing %v", got)
		}
		w.Shard("a").Break(shardtest.Faults{})
		w.after(10 * time.Minute)
		if got := w.shard("a").Status().Missing; len(got) != 0 {
			t.Errorf("when it is served again: missing %v", got)
		}
	})
}

func TestRefusalsOfUsAreNoSilence(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		want shards.Reason
	}{
		{"tenant", shardtest.Refusal(codes.PermissionDenied, "UNKNOWN_TENANT", "the tenant is not configured"), shards.ReasonTenantUnknown},
		{"operator", shardtest.Refusal(codes.PermissionDenied, "UNKNOWN_OPERATOR", "unknown"), shards.ReasonAuthFailed},
		{"certificate", shardtest.Refusal(codes.Unauthenticated, "CERTIFICATE_EXPIRED", "expired"), shards.ReasonAuthFailed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.apply(at("a", "a:1"))
				w.Shard("a").Break(shardtest.Faults{Refuse: map[string]error{"": tt.err}})
				w.after(time.Minute)
				w.expect("a", shards.Unreachable, tt.want)
				asked := w.Shard("a").Count("GetServerInfo")
				w.after(30 * time.Minute)
				if n := w.Shard("a").Count("GetServerInfo") - asked; n > 10 {
					t.Errorf("asked %d times in half an hour", n)
				}
				w.Shard("a").Break(shardtest.Faults{})
				w.after(6 * time.Minute)
				w.expect("a", shards.Ready, "")
			})
		})
	}
}

func TestAStreamThatIsRefusedIsAskedForRarely(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Shard("a").Break(shardtest.Faults{Refuse: map[string]error{"WatchInstances": shardtest.Refusal(codes.PermissionDenied, "UNKNOWN_OPERATOR", "unknown")}})
		w.apply(at("a", "a:1"))
		w.after(10 * time.Minute)
		w.expect("a", shards.Unreachable, shards.ReasonAuthFailed)
		if n := w.Shard("a").Count("GetServerInfo"); n > 7 {
			t.Errorf("connected %d times in ten minutes", n)
		}
	})
}

func TestAnotherAuthorityIsRefused(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		other := shardtest.NewCluster(t)
		other.Shard("a").Serve("a:1")
		set := shards.NewSet(shards.Options{Cluster: w.ID, Tenant: tenant, Credentials: w.Operator(tenant), Sink: w.sink, Dial: other.DialContext})
		set.Apply([]shards.Target{at("a", "a:1")})
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		_ = set.Run(ctx)
		if got := w.states["a"]; len(got) == 0 || got[len(got)-1].Reason != shards.ReasonAuthFailed {
			t.Errorf("states %+v", got)
		}
		if n := other.Shard("a").Count("GetServerInfo"); n != 0 {
			t.Errorf("the stranger got %d calls", n)
		}
	})
}

// lax are credentials that leave out what a connection must insist on.
type lax struct {
	*shardtest.Operator
	relax func(*tls.Config)
}

func (l lax) ClientTLS(serverName string) *tls.Config {
	settings := l.Operator.ClientTLS(serverName)
	l.relax(settings)
	return settings
}

func TestLaxCredentialsReachNoStranger(t *testing.T) {
	for name, relax := range map[string]func(*tls.Config){
		"no name":          func(c *tls.Config) { c.ServerName = "" },
		"another name":     func(c *tls.Config) { c.ServerName = identity.ServerName("b", "example") },
		"no check":         func(c *tls.Config) { c.InsecureSkipVerify = true },
		"no roots":         func(c *tls.Config) { c.RootCAs = nil },
		"an older version": func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS12 },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				creds := lax{w.Operator(tenant), relax}
				call := func(address string) (uint16, error) {
					cc, _, err := shards.Dial(address, identity.ServerName("a", w.ID), creds, w.DialContext)
					if err != nil {
						t.Fatal(err)
					}
					defer func() { _ = cc.Close() }()
					var from peer.Peer
					_, err = nstancev1.NewOperatorServiceClient(cc).GetServerInfo(t.Context(), &emptypb.Empty{}, grpc.Peer(&from))
					info, _ := from.AuthInfo.(credentials.TLSInfo)
					return info.State.Version, err
				}
				if _, err := call("b:1"); err == nil {
					t.Error("a server of another shard was called")
				}
				version, err := call("a:1")
				if name == "no roots" {
					if err == nil {
						t.Error("a server was trusted without roots")
					}
				} else if err != nil || version != tls.VersionTLS13 {
					t.Errorf("version %x: %v", version, err)
				}
			})
		})
	}
}

func TestS12_WhatBelongsToOthersIsDropped(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.apply(at("a", "a:1"))
		w.statuses()
		w.Shard("a").Send(tenant, &nstancev1.InstanceEvent{InstanceId: "x", Tenant: "other", Status: "deleted"})
		synctest.Wait()
		if got := w.statuses(); got != nil || w.foreign != 1 {
			t.Errorf("events %v, %d dropped", got, w.foreign)
		}
	})
}

func TestS12_AnswersAboutOthersAreDropped(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Shard("a").AddGroup(tenant, shardtest.Group{Key: "web", Size: 1})
		id := w.Shard("a").Instances(tenant, "web")[0].GetInstanceId()
		w.Shard("a").Break(shardtest.Faults{Tenant: "other"})
		w.apply(at("a", "a:1"))
		if groups, instances := w.groups["a"].Groups, w.instancesOf("a").Instances; len(groups) != 0 || len(instances) != 0 {
			t.Errorf("listed %v and %v", groups, instances)
		}
		if got, err := w.shard("a").UpsertGroup(t.Context(), upsert("web", 1)); got != nil || shards.ClassOf(err) != shards.Broken {
			t.Errorf("upsert: %v, %v", got, err)
		}
		if got, err := w.shard("a").GetInstanceStatus(t.Context(), id); got != nil || shards.ClassOf(err) != shards.Broken {
			t.Errorf("instance: %v, %v", got, err)
		}
		if w.foreign != 4 {
			t.Errorf("%d counted, want 4", w.foreign)
		}
		if g := w.Shard("a").Group(tenant, "web"); g.GetTenant() != tenant {
			t.Errorf("the fake spoilt its own group: %v", g)
		}
	})
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

func TestO1_RedialShowsTheNewCertificateShardByShard(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.apply(at("a", "a:1"), at("b", "b:1"))
		start := len(w.Dials())
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.set.Redial(t.Context())
		}()
		w.after(5 * time.Second)
		if got := w.Dials()[start:]; !slices.Equal(got, []string{"a:1"}) {
			t.Errorf("dialled %v at first", got)
		}
		w.after(10 * time.Second)
		<-done
		if got := w.Dials()[start:]; !slices.Equal(got, []string{"a:1", "b:1"}) {
			t.Errorf("dialled %v", got)
		}
		if got := w.restarted(); got != nil {
			t.Errorf("streams broke: %v", got)
		}
		for _, name := range []string{"a", "b"} {
			w.expect(name, shards.Ready, "")
			if n := w.Shard(name).Streams(); n != 3 {
				t.Errorf("%s has %d streams, want 3", name, n)
			}
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
