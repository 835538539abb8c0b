package shard

import (
	"slices"
	"strings"
	"testing"
	"time"

	"nstance.dev/server/explain"
)

// retire ends the process that leads as an administrator does: it hands over.
func (w *world) retire() {
	w.t.Helper()
	w.life.kill()
	if err := <-w.stopped; err != nil {
		w.t.Error(err)
	}
	w.stopped <- nil
	if err := w.drained(); err != nil && w.opts.CachePath != "" {
		w.t.Error(err)
	}
}

// plain are decisions as they are stored.
func plain(all []explain.Decision) []explain.Decision {
	out := slices.Clone(all)
	for i := range out {
		out[i].At, out[i].NotBefore = out[i].At.UTC().Round(0), out[i].NotBefore.UTC().Round(0)
	}
	return out
}

func TestDecisionsAreTheSameAfterThreePlannedChangesOfLeader(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 3)
		w.settle(5 * time.Minute)
		w.scale(web, 1)
		w.settle(5 * time.Minute)
		before := plain(w.asked(web).Decisions)
		if len(before) < 3 {
			t.Fatalf("only %d decisions: %q", len(before), essence(before))
		}
		for range 3 {
			w.retire()
			w.lead()
			w.settle(30 * time.Second)
			after := w.asked(web)
			if got := plain(after.Decisions); !slices.Equal(got, before) {
				t.Fatalf("decisions are\n%s\nwere\n%s", strings.Join(essence(got), "\n"), strings.Join(essence(before), "\n"))
			}
			if slices.Contains(types(after.Conditions), explain.DecisionsMissing) {
				t.Errorf("conditions are %v", after.Conditions)
			}
		}
	})
}

func TestAfterACrashAtMostTheLastMinuteOfDecisionsIsMissing(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 3)
		w.settle(5 * time.Minute)
		kept := plain(w.asked(web).Decisions)
		w.scale(web, 2)
		w.settle(time.Second)
		w.stop()
		crashed := time.Now()
		w.lead()
		after := w.asked(web)
		got := plain(after.Decisions)
		for _, d := range kept {
			if !slices.Contains(got, d) {
				t.Errorf("%q of %v before the crash is missing", essence([]explain.Decision{d}), crashed.Sub(d.At))
			}
		}
		i := slices.Index(types(after.Conditions), explain.DecisionsMissing)
		if i < 0 || !strings.Contains(after.Conditions[i].Message, "may be missing: the leader of then ended without a hand-over") {
			t.Errorf("conditions are %v", after.Conditions)
		}
		w.settle(2 * time.Minute)
		w.retire()
		w.lead()
		if !slices.Contains(types(w.asked(web).Conditions), explain.DecisionsMissing) {
			t.Error("a planned change forgets the gap")
		}
	})
}

// TestDecisionsOutliveAGroupFileThatCannotBeRead: while the file of the groups is one of a newer
// version, nobody knows which of them exist. Once it is back, `explain` says what it said before.
func TestDecisionsOutliveAGroupFileThatCannotBeRead(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 3)
		w.settle(5 * time.Minute)
		before := plain(w.asked(web).Decisions)
		if len(before) == 0 {
			t.Fatal("there are no decisions")
		}
		w.retire()
		file, err := w.store.Get(w.ctx, groupsKey)
		if err != nil {
			t.Fatal(err)
		}
		w.overwrite(groupsKey, `{"v": 99, "term": 1, "groups": {}}`)
		w.lead()
		w.settle(5 * time.Minute)
		w.retire()
		w.overwrite(groupsKey, string(file.Data))
		w.lead()
		w.settle(30 * time.Second)
		after := plain(w.asked(web).Decisions)
		for _, d := range before {
			if !slices.Contains(after, d) {
				t.Errorf("%q is forgotten", essence([]explain.Decision{d}))
			}
		}
	})
}
