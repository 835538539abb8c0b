package shards_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/operator/shards"
	"nstance.dev/operator/shards/shardtest"
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
