package shards_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/operator/shards"
	"nstance.dev/operator/shards/shardtest"
)

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
