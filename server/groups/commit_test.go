package groups

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/config/requests"
	"nstance.dev/server/fleet"
	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/memory"
	"nstance.dev/server/refusal"
)

func TestEditsThatWaitShareOneWrite(t *testing.T) {
	inArchive(t, func(t *testing.T, a *archive) {
		l := a.lead()
		count := a.faults(memory.Fault{Latency: time.Second})
		for _, id := range []fleet.GroupID{web, other, theirs, third} {
			go func() {
				if err := l.tryScale(id, 1); err != nil {
					t.Errorf("%v: %v", id, err)
				}
			}()
			synctest.Wait() // the first is being written while the others arrive
		}
		pass(3 * time.Second)
		if n := count(); n != 2 {
			t.Errorf("%d writes for four edits, want 2", n)
		}
		l.wantSizes(map[fleet.GroupID]int{web: 1, other: 1, theirs: 1, third: 1})
	})
}

func TestEditThatChangesNothingWritesNothing(t *testing.T) {
	inArchive(t, func(t *testing.T, a *archive) {
		l := a.lead()
		l.scale(web, 2)
		count := a.faults(memory.Fault{})
		l.told()
		l.scale(web, 2)
		if n := count(); n != 0 {
			t.Errorf("%d writes, want none", n)
		}
		if told := l.told(); told != nil {
			t.Errorf("told of %v", told)
		}
	})
}

// TestF4_ConditionRefusedMergesBothChanges: those who wait in one write are all
// answered, and nothing of theirs or of the other writer's is lost.
func TestF4_ConditionRefusedMergesBothChanges(t *testing.T) {
	inArchive(t, func(t *testing.T, a *archive) {
		l := a.lead()
		l.scale(web, 1)
		another := func() error { // writer, of the same term, while the others are being written
			time.Sleep(1500 * time.Millisecond)
			a.objects.SetFaults(nil)
			file, size := a.file(), 2
			file.Set("b", "web", groupfile.Entry{Template: "plain", Size: &size})
			a.store(file)
			return nil
		}
		answers := l.together(
			func() error { return l.tryScale(other, 3) },
			another,
			func() error { return l.tryScale(web, 2) },
			func() error { return l.tryScale(third, 4) },
		)
		if err := errors.Join(answers...); err != nil {
			t.Error(err)
		}
		l.wantSizes(map[fleet.GroupID]int{web: 2, theirs: 2, other: 3, third: 4})
	})
}

// TestF4_AnotherWriterWhoNeverEnds: an edit that keeps losing is answered.
func TestF4_AnotherWriterWhoNeverEnds(t *testing.T) {
	inArchive(t, func(t *testing.T, a *archive) {
		l := a.lead()
		l.scale(web, 1)
		a.faults(memory.Fault{Before: objectstore.ErrPrecondition})
		if err := l.tryScale(web, 2); !refusedWith(err, refusal.Aborted) {
			t.Errorf("got %v, want Aborted", err)
		}
		a.objects.SetFaults(nil)
		l.scale(web, 2)
	})
}

// TestS15_ARefusedWriteChangesNothing: an edit whose write failed was answered with
// an error, so its repeat is an edit, and is in storage when it is acknowledged.
func TestS15_ARefusedWriteChangesNothing(t *testing.T) {
	inArchive(t, func(t *testing.T, a *archive) {
		l := a.lead()
		l.scale(web, 1)
		a.faults(memory.Fault{Before: objectstore.ErrUnavailable})
		l.told()
		if err := l.tryScale(web, 2); !refusedWith(err, refusal.Unavailable) {
			t.Errorf("an edit that storage refused: %v", err)
		}
		l.wantSizes(map[fleet.GroupID]int{web: 1})
		if told := l.told(); told != nil {
			t.Errorf("told of %v, of which nothing is durable", told)
		}
		a.objects.SetFaults(nil)
		l.scale(web, 2)
		if entry, _ := a.file().Group("default", "web"); entry.Size == nil || *entry.Size != 2 {
			t.Errorf("the stored size is %v after the repeat was acknowledged, want 2", entry.Size)
		}
	})
}

// TestS15_WhatIsToldIsDurable: nobody hears of a group before the next leader would.
func TestS15_WhatIsToldIsDurable(t *testing.T) {
	inArchive(t, func(t *testing.T, a *archive) {
		l := a.lead()
		told := 0
		l.writer.inForce.opts.Changed = func(c Change) {
			told++
			entry, ok := a.file().Group(c.Group.Tenant, c.Group.Name)
			if !ok || *entry.Size != c.After.Size {
				t.Errorf("told that %s has size %d, and stored is %+v", c.Group, c.After.Size, entry)
			}
			if g, _ := l.Find(c.Group); g != c.After {
				t.Errorf("told of %+v, in force is %+v", c.After, g)
			}
		}
		for size := range 3 {
			l.scale(web, size)
		}
		if told != 3 {
			t.Errorf("told %d times, want 3", told)
		}
	})
}

// TestF4_OneEtagIsGoodForOneChange: of two who have read the same and wait in one
// write, the second has to read again.
func TestF4_OneEtagIsGoodForOneChange(t *testing.T) {
	inArchive(t, func(t *testing.T, a *archive) {
		l := a.lead()
		l.scale(web, 1)
		g, _ := l.Find(web)
		expecting := func(size int) func() error {
			return func() error { return l.Upsert(l.ctx, web, requests.GroupChange{Size: &size}, &g.ETag) }
		}
		answers := l.together(func() error { return l.tryScale(other, 1) }, expecting(5), expecting(7))
		if answers[0] != nil || answers[1] != nil || !refusedWith(answers[2], refusal.Aborted) {
			t.Errorf("answers %v, want that the third alone is Aborted", answers)
		}
		l.wantSizes(map[fleet.GroupID]int{web: 5, other: 1})
		if err := expecting(9)(); !refusedWith(err, refusal.Aborted) {
			t.Errorf("a version of the past: %v, want Aborted", err)
		}
	})
}

func TestF3_LostAnswerOfTheGroupWrite(t *testing.T) {
	inArchive(t, func(t *testing.T, a *archive) {
		l := a.lead()
		lost := 3
		a.objects.SetFaults(func(c memory.Call) memory.Fault {
			if c.Op == memory.OpPut && c.Key == groupsKey && lost > 0 {
				lost--
				return memory.Fault{After: objectstore.ErrUnavailable}
			}
			return memory.Fault{}
		})
		l.scale(web, 2)
		l.wantSizes(map[fleet.GroupID]int{web: 2})
	})
}

func TestS1_LaterTermInTheGroupFileEndsTheTerm(t *testing.T) {
	inArchive(t, func(t *testing.T, a *archive) {
		l := a.lead()
		l.scale(web, 1)
		file := a.file()
		file.Term = 7
		a.store(file)
		if err := l.tryScale(web, 2); err == nil {
			t.Error("an edit under a past term was accepted")
		}
		synctest.Wait()
		if !errors.Is(l.over, lease.ErrSuperseded) {
			t.Errorf("the term was ended by %v, want that it is superseded", l.over)
		}
		if err := l.tryScale(web, 2); !errors.Is(err, refusal.ErrTermOver) && !errors.Is(err, context.Canceled) {
			t.Errorf("an edit after that: %v", err)
		}
		next := a.begin()
		if err := next.Load(next.ctx); !errors.Is(err, lease.ErrSuperseded) {
			t.Errorf("the leader of term %d reads a file of term 7: %v", a.term, err)
		}
	})
}

// TestS2_WritesNeedTheLease: neither the group file nor its copy is written by who cannot
// prove that it leads.
func TestS2_WritesNeedTheLease(t *testing.T) {
	inArchive(t, func(t *testing.T, a *archive) {
		l := a.lead()
		l.scale(web, 1)
		synctest.Wait() // until the copy is written
		puts := 0
		a.objects.SetFaults(func(c memory.Call) memory.Fault {
			if c.Op != memory.OpGet {
				puts++
			}
			return memory.Fault{}
		})
		w, unproved := l.writer, t.Context()
		_, _, file := w.write(unproved, l.now().file.Clone(), l.now())
		for what, err := range map[string]error{
			"group file": file, "its copy": w.previous.write(unproved, []byte("{}")), "a damaged one": w.setAside(unproved, objectstore.Object{}, errors.New("damaged")),
		} {
			if !errors.Is(err, lease.ErrNotLeader) {
				t.Errorf("%s: %v, want that nobody leads", what, err)
			}
		}
		if puts != 0 {
			t.Errorf("%d writes are sent without a proof of the lease", puts)
		}
	})
}

func TestEditWaitsNoLongerThanItsCaller(t *testing.T) {
	inArchive(t, func(t *testing.T, a *archive) {
		l := a.lead()
		a.faults(memory.Fault{Latency: time.Hour})
		ctx, cancel := context.WithTimeout(l.ctx, time.Second)
		defer cancel()
		if err := l.Upsert(ctx, web, requests.GroupChange{Template: "plain"}, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the caller's deadline", err)
		}
		waits := make(chan error)
		go func() { waits <- l.Upsert(t.Context(), other, requests.GroupChange{Template: "plain"}, nil) }()
		synctest.Wait()
		l.end()
		if err := <-waits; !errors.Is(err, refusal.ErrTermOver) && !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want that the term is over", err)
		}
	})
}

// TestF11_CopyOfTheGroupFile: what was in the file before an edit is copied, once a
// minute at most, and no edit waits for that.
func TestF11_CopyOfTheGroupFile(t *testing.T) {
	inArchive(t, func(t *testing.T, a *archive) {
		l := a.lead()
		var copies, down atomic.Int64
		a.objects.SetFaults(func(c memory.Call) memory.Fault {
			if c.Key != previousKey {
				return memory.Fault{}
			}
			if c.Op == memory.OpPut {
				copies.Add(1)
			}
			if down.Load() > 0 {
				return memory.Fault{Before: objectstore.ErrUnavailable}
			}
			return memory.Fault{Latency: 10 * time.Second}
		})
		pass(2 * time.Minute)
		copies.Store(0)
		l.scale(web, 1)
		before := a.file()
		pass(2 * time.Minute)
		for size := range 20 {
			begun := time.Now()
			l.scale(web, size+2)
			if took := time.Since(begun); took > time.Second {
				t.Errorf("an edit took %v while a copy is written", took)
			}
			pass(time.Second)
		}
		if n := copies.Load(); n != 2 {
			t.Errorf("%d copies in two minutes of edits, want 2", n)
		}
		o, err := a.objects.Get(t.Context(), previousKey)
		if err != nil {
			t.Fatal(err)
		}
		kept, err := groupfile.Decode(previousKey, o.Data)
		if err != nil {
			t.Fatal(err)
		}
		want, _ := before.Group("default", "web")
		if got, _ := kept.Group("default", "web"); !got.Equal(want) {
			t.Errorf("the copy has %+v, want %+v, as it was before the edit", got, want)
		}
		down.Store(1)
		pass(2 * time.Minute)
		l.scale(web, 1)
		pass(time.Minute)
		if !strings.Contains(l.log.String(), "copy of the group file not kept") {
			t.Error("nothing is said of a copy that could not be written")
		}
	})
}
