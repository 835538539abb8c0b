package inventory

import (
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestStore(t *testing.T) {
	var told []string
	st := NewStore("acme", nil)
	st.notify = func(shard string, changes []Change) {
		told = append(told, shard+": "+string(changes[0].Kind)+" "+changes[0].Instance)
		st.Read(shard, func(*Shard) {}) // no deadlock
	}
	running := func(id string) func(*Shard) []Change {
		return func(s *Shard) []Change { return s.InstanceEvent(eventOf("running", id, 1), start) }
	}
	st.Configure([]string{"b", "a"})
	st.Update("a", running("i1"))
	st.Update("a", running("i1"))
	st.Update("c", running("i2"))
	st.Configure([]string{"c", "a"})
	st.Update("c", running("i2"))
	if diff := cmp.Diff([]string{"a: instance changed i1", "c: instance changed i2"}, told); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"a", "c"}, st.Names()); diff != "" {
		t.Error(diff)
	}
	for id, want := range map[string]string{"i1": "a", "i2": "c", "i3": ""} {
		if got := st.Find(id); got != want {
			t.Errorf("%s is found in %q, want %q", id, got, want)
		}
	}
	if st.Read("b", func(*Shard) {}) {
		t.Error("a shard that is not configured was read")
	}
}

func TestStoreIsSafeForConcurrentUse(*testing.T) {
	st := NewStore("acme", func(string, []Change) {})
	var wg sync.WaitGroup
	for _, id := range many(8) {
		wg.Go(func() {
			for revision := range int64(50) {
				st.Configure([]string{"a", "b"})
				st.Update("a", func(s *Shard) []Change { return s.InstanceEvent(eventOf("running", id, revision), start) })
				st.Read("a", func(s *Shard) { s.Instances("g") })
				st.Find(id)
			}
		})
	}
	wg.Wait()
}

// Whatever comes in whatever order: revisions grow, deleted instances stay away, and only
// a shard's own word or a complete listing takes something out.
func TestS17_AnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, now := NewShard("acme"), start
		s.Connected(1, now)
		deleted, revisions := map[string]bool{}, map[string]int64{}
		ids := []string{"a", "b", "c", "d", "e"}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(1e9)
			var complete bool
			var removed string
			switch id := rapid.SampledFrom(ids).Draw(t, "id"); rapid.IntRange(0, 4).Draw(t, "step") {
			case 0:
				s.Lost()
			case 1:
				s.Connected(2, now)
			case 2:
				list := InstanceList{Complete: rapid.Bool().Draw(t, "complete"), Asked: now.Add(-2e9)}
				for _, id := range ids {
					if rapid.Bool().Draw(t, "listed") {
						list.Instances = append(list.Instances, running(id, rapid.Int64Range(1, 9).Draw(t, "revision")))
					}
				}
				complete = list.Complete
				s.ListedInstances(list, now)
			case 3:
				s.InstanceEvent(eventOf("deleted", id, 1), now)
				deleted[id], removed = true, id
			default:
				s.InstanceEvent(eventOf("running", id, rapid.Int64Range(1, 9).Draw(t, "revision")), now)
			}
			for _, id := range ids {
				i := s.Instance(id)
				if deleted[id] && i != nil {
					t.Fatalf("%s was deleted and is back", id)
				}
				if revisions[id] > 0 && i == nil && !complete && id != removed {
					t.Fatalf("%s is gone, and nobody said so", id)
				}
				if i != nil && i.GetRevision() < revisions[id] {
					t.Fatalf("%s went back from %d to %d", id, revisions[id], i.GetRevision())
				}
				revisions[id] = i.GetRevision()
			}
		}
	})
}
