package states

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
)

func update(id string, seq, snapshot uint64) *demandpb.NodeStateUpdate {
	return &demandpb.NodeStateUpdate{MachineId: id, StateSeq: seq, SnapshotId: snapshot}
}

func TestABurstIsWrittenOnceWithItsLastState(t *testing.T) {
	s := New()
	for seq := uint64(1); seq <= 1000; seq++ {
		if start := s.Arrived(update("m", seq, 0)); start != (seq == 1) {
			t.Fatalf("update %d asks for a writer: %t", seq, start)
		}
		if n := s.Waiting(); n != 1 {
			t.Fatalf("%d updates wait after update %d", n, seq)
		}
	}
	u := s.Next("m")
	if u.GetStateSeq() != 1000 {
		t.Fatalf("update %d is written first", u.GetStateSeq())
	}
	s.Arrived(update("m", 1001, 0))
	s.Arrived(update("m", 1002, 0))
	s.Written(u, true)
	if u = s.Next("m"); u.GetStateSeq() != 1002 {
		t.Fatalf("update %d is written next", u.GetStateSeq())
	}
	s.Written(u, true)
	if u = s.Next("m"); u != nil {
		t.Fatalf("update %d is written again", u.GetStateSeq())
	}
	if !s.Arrived(update("m", 1003, 0)) {
		t.Error("nobody writes the next update")
	}
}

func TestOlderAndEqualUpdatesChangeNothing(t *testing.T) {
	s := New()
	s.Arrived(update("m", 5, 0))
	s.Written(s.Next("m"), true)
	s.Next("m")
	for _, seq := range []uint64{4, 5} {
		if s.Arrived(update("m", seq, 0)) || s.Waiting() != 0 {
			t.Errorf("update %d counts after update 5", seq)
		}
	}
}

func TestAFailedWriteIsTriedAgainUntilANewerUpdateComes(t *testing.T) {
	s := New()
	s.Arrived(update("m", 1, 0))
	s.Written(s.Next("m"), false)
	again := s.Next("m")
	if again.GetStateSeq() != 1 {
		t.Fatalf("update %d follows the failed one", again.GetStateSeq())
	}
	s.Arrived(update("m", 2, 0))
	s.Written(again, false)
	if u := s.Next("m"); u.GetStateSeq() != 2 {
		t.Errorf("update %d follows, and a newer one had come", u.GetStateSeq())
	}
}

func TestASnapshotIsWholeWhenAllOfItIsWritten(t *testing.T) {
	s := New()
	if s.Whole() {
		t.Fatal("whole before it was announced")
	}
	s.Announce(7, 2)
	s.Arrived(update("b", 1, 7))
	s.Written(s.Next("b"), true)
	s.Arrived(update("other", 9, 0))
	s.Written(s.Next("other"), true)
	s.Arrived(update("stray", 9, 6))
	s.Written(s.Next("stray"), true)
	s.Arrived(update("b", 2, 7))
	s.Written(s.Next("b"), true)
	if s.Whole() {
		t.Fatal("whole with one machine of two")
	}
	s.Arrived(update("a", 1, 7))
	// A live update takes the place of the one of the snapshot; the machine stays in it.
	s.Arrived(update("a", 2, 0))
	u := s.Next("a")
	s.Written(u, false)
	if s.Whole() {
		t.Fatal("whole though the write has failed")
	}
	s.Written(s.Next("a"), true)
	if ids, want := s.Spoken(), []string{"a", "b", "other", "stray"}; !s.Whole() || !slices.Equal(ids, want) {
		t.Errorf("whole: %t; spoken of %v, want %v", s.Whole(), ids, want)
	}
}

// A machine that the shard gets after it has made the snapshot is there, though the snapshot does
// not name it.
func TestAMachineAfterTheSnapshotIsSpokenOf(t *testing.T) {
	s := New()
	s.Announce(7, 1)
	s.Arrived(update("a", 1, 7))
	s.Arrived(update("new", 2, 0))
	s.Written(s.Next("new"), true)
	s.Written(s.Next("a"), true)
	if ids := s.Spoken(); !s.Whole() || !slices.Equal(ids, []string{"a", "new"}) {
		t.Errorf("whole: %t; spoken of %v", s.Whole(), ids)
	}
}

// A session that stands for months keeps nothing of machines that have come and gone.
func TestMachinesThatLeftAreForgotten(t *testing.T) {
	s := New()
	s.Announce(7, 1)
	come := func(id string, states ...demandpb.MachineState) {
		for i, state := range states {
			u := update(id, uint64(i+1), 0)
			if u.State = state; id == "first" {
				u.SnapshotId = 7
			}
			if s.Arrived(u) {
				for next := s.Next(id); next != nil; next = s.Next(id) {
					s.Written(next, true)
				}
			}
		}
	}
	configured, idle, deleted := demandpb.MachineState_MACHINE_STATE_CONFIGURED, demandpb.MachineState_MACHINE_STATE_IDLE, demandpb.MachineState_MACHINE_STATE_DELETED
	come("first", configured, deleted)
	if ids := s.Spoken(); len(ids) != 1 {
		t.Fatalf("spoken of %v before the comparison", ids)
	}
	s.Compared()
	for i := range 1000 {
		come(fmt.Sprint("m", i), configured, deleted)
		come(fmt.Sprint("i", i), configured, idle)
	}
	come("stays", idle, configured)
	if len(s.machines) != 1 || s.machines["stays"] == nil {
		t.Errorf("%d machines are kept of one that serves", len(s.machines))
	}
}

func TestAnEmptySnapshotIsWholeAtOnce(t *testing.T) {
	s := New()
	s.Announce(1, 0)
	if !s.Whole() || len(s.Spoken()) != 0 {
		t.Errorf("whole: %t; spoken of %v", s.Whole(), s.Spoken())
	}
}

// Whatever the order, the last write of each machine is its newest update, never two writers
// have one machine, and what is written for one never goes back.
func TestRandomOrders(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		s := New()
		newest, wrote, writers := map[string]uint64{}, map[string]uint64{}, map[string]*demandpb.NodeStateUpdate{}
		next := func(id string) {
			if writers[id] = s.Next(id); writers[id] == nil {
				delete(writers, id)
			}
		}
		end := func(id string, ok bool) {
			u := writers[id]
			if s.Written(u, ok); ok {
				if u.GetStateSeq() <= wrote[id] {
					t.Fatalf("seed %d: %s: %d is written after %d", seed, id, u.GetStateSeq(), wrote[id])
				}
				wrote[id] = u.GetStateSeq()
			}
			next(id)
		}
		for range 400 {
			id := fmt.Sprint(r.IntN(6))
			if _, busy := writers[id]; busy && r.IntN(2) == 0 {
				end(id, r.IntN(3) > 0)
				continue
			}
			seq := 1 + r.Uint64N(50)
			newest[id] = max(newest[id], seq)
			if s.Arrived(update(id, seq, 0)) {
				if writers[id] != nil {
					t.Fatalf("seed %d: %s has two writers", seed, id)
				}
				next(id)
			}
		}
		for id := range newest {
			for writers[id] != nil {
				end(id, true)
			}
			if wrote[id] != newest[id] {
				t.Fatalf("seed %d: %s is left at %d, its newest update is %d", seed, id, wrote[id], newest[id])
			}
		}
	}
}
