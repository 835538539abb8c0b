package shard

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/bucket"
	"nstance.dev/server/config"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/fleet"
	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/memory"
	"nstance.dev/server/refusal"
)

var (
	other  = fleet.GroupID{Tenant: "default", Name: "other"}
	theirs = fleet.GroupID{Tenant: "b", Name: "web"}
)

const groupsKey = "groups/" + testShard + ".jsonc"

func (w *world) groupFile() *config.GroupFile {
	w.t.Helper()
	o, err := w.store.Get(w.ctx, groupsKey)
	if err != nil {
		w.t.Fatal(err)
	}
	file, err := config.DecodeGroups(groupsKey, o.Data)
	if err != nil {
		w.t.Fatal(err)
	}
	return file
}

// sizeOf is the size that a tenant is told; -1 for a group that it is not told of.
func (w *world) sizeOf(id fleet.GroupID) int {
	for _, g := range w.reign().ListGroups(id.Tenant) {
		if g.Key == id.Name {
			return int(g.Size)
		}
	}
	return -1
}

// writes counts the accepted writes of one key from now on.
func (w *world) writes(key string) (count func() int) {
	n := 0
	w.store.SetFaults(func(c memory.Call) memory.Fault {
		if c.Op == memory.OpPut && c.Key == key {
			n++
		}
		return memory.Fault{}
	})
	return func() int { return n }
}

func TestUpsertsThatWaitShareOneWrite(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		count := 0
		w.store.SetFaults(func(c memory.Call) memory.Fault {
			if c.Op == memory.OpPut && c.Key == groupsKey {
				count++
				return memory.Fault{Latency: time.Second}
			}
			return memory.Fault{}
		})
		for _, id := range []fleet.GroupID{web, other, theirs, {Tenant: "b", Name: "four"}} {
			go func() {
				if err := w.tryScale(id, 1); err != nil {
					t.Errorf("%v: %v", id, err)
				}
			}()
			synctest.Wait() // the first is being written while the others arrive
		}
		w.settle(3 * time.Second)
		if count != 2 {
			t.Errorf("%d writes for four changes, want 2", count)
		}
		w.settle(time.Minute)
		w.converged(4)
	})
}

func TestUpsertThatChangesNothingWritesNothing(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 2)
		w.settle(time.Minute)
		count := w.writes(groupsKey)
		w.scale(web, 2)
		w.settle(time.Minute)
		if n := count(); n != 0 {
			t.Errorf("%d writes, want none", n)
		}
	})
}

// TestF4_ConditionRefusedMergesBothChanges: those who wait in one write are all
// answered, and nothing of theirs or of the other writer's is lost.
func TestF4_ConditionRefusedMergesBothChanges(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 1)
		another := func() error { // writer, of the same term, while the others are being written
			time.Sleep(1500 * time.Millisecond)
			w.store.SetFaults(nil)
			file, size := w.groupFile(), 2
			file.Set("b", "web", config.DynamicGroup{Template: "plain", Size: &size})
			data, err := config.EncodeGroups(file)
			if err == nil {
				w.overwrite(groupsKey, string(data))
			}
			return err
		}
		answers := w.together(
			func() error { return w.tryScale(other, 3) },
			another,
			func() error { return w.tryScale(web, 2) },
			func() error { return w.tryScale(fleet.GroupID{Tenant: "default", Name: "third"}, 4) },
		)
		if err := errors.Join(answers...); err != nil {
			t.Error(err)
		}
		w.settle(time.Minute)
		for id, want := range map[fleet.GroupID]int{web: 2, theirs: 2, other: 3, {Tenant: "default", Name: "third"}: 4} {
			if got := w.sizeOf(id); got != want {
				t.Errorf("%s has size %d, want %d", id, got, want)
			}
		}
	})
}

// TestS15_ARefusedWriteChangesNothing: a change whose write failed was answered with
// an error, so its repeat is a change, and is in storage when it is acknowledged.
func TestS15_ARefusedWriteChangesNothing(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 1)
		w.store.SetFaults(func(c memory.Call) memory.Fault {
			if c.Op == memory.OpPut && c.Key == groupsKey {
				return memory.Fault{Before: objectstore.ErrUnavailable}
			}
			return memory.Fault{}
		})
		if err := w.tryScale(web, 2); err == nil {
			t.Fatal("a change is acknowledged that storage refused")
		}
		if size := w.sizeOf(web); size != 1 {
			t.Errorf("size %d after a change that failed, want 1", size)
		}
		w.store.SetFaults(nil)
		w.scale(web, 2)
		if entry, _ := w.groupFile().Group("default", "web"); entry.Size == nil || *entry.Size != 2 {
			t.Errorf("the stored size is %v after the repeat was acknowledged, want 2", entry.Size)
		}
	})
}

// TestF4_OneEtagIsGoodForOneChange: of two who have read the same and wait in one
// write, the second has to read again.
func TestF4_OneEtagIsGoodForOneChange(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 1)
		w.mu.Lock()
		w.sizes[web] = 7
		w.mu.Unlock()
		etag := w.reign().ListGroups("default")[0].Etag
		expecting := func(size int32) func() error {
			return func() error {
				_, err := w.reign().UpsertGroup(w.ctx, "default", &nstancev1.UpsertGroupRequest{
					Key: "web", ExpectedEtag: &etag, Config: &nstancev1.GroupConfig{Size: &size},
				})
				return err
			}
		}
		answers := w.together(func() error { return w.tryScale(other, 1) }, expecting(5), expecting(7))
		if answers[0] != nil || answers[1] != nil || !refusedWith(answers[2], refusal.Aborted) {
			t.Errorf("answers %v, want that the third alone is Aborted", answers)
		}
		if size := w.sizeOf(web); size != 5 {
			t.Errorf("size %d, want the first one's 5", size)
		}
	})
}

// together makes calls of which the second and all later ones wait in one write of
// the group file, in this order, while the first one's is under way. It returns
// their answers.
func (w *world) together(calls ...func() error) []error {
	w.t.Helper()
	w.store.SetFaults(func(c memory.Call) memory.Fault {
		if c.Op == memory.OpPut && c.Key == groupsKey {
			return memory.Fault{Latency: time.Second}
		}
		return memory.Fault{}
	})
	answers := make([]error, len(calls))
	var all sync.WaitGroup
	for i, call := range calls {
		all.Go(func() { answers[i] = call() })
		synctest.Wait()
	}
	all.Wait()
	w.store.SetFaults(nil)
	return answers
}

func TestF3_LostAnswerOfTheGroupWrite(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		lost := 3
		w.store.SetFaults(func(c memory.Call) memory.Fault {
			if c.Op == memory.OpPut && c.Key == groupsKey && lost > 0 {
				lost--
				return memory.Fault{After: objectstore.ErrUnavailable}
			}
			return memory.Fault{}
		})
		w.scale(web, 2)
		w.settle(time.Minute)
		w.converged(2)
	})
}

func TestS1_LaterTermInTheGroupFileEndsTheReign(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 1)
		file := w.groupFile()
		file.Term = 7
		data, err := config.EncodeGroups(file)
		if err != nil {
			t.Fatal(err)
		}
		w.overwrite(groupsKey, string(data))
		if err := w.tryScale(web, 2); err == nil {
			t.Error("a change under a past term was accepted")
		}
		synctest.Wait()
		if _, err := w.shard().Reign(); err == nil {
			t.Error("the server goes on leading after a later term has written")
		}
		if err := w.ended(); !errors.Is(err, lease.ErrSuperseded) {
			t.Errorf("Lead returned %v, want that it is superseded", err)
		}
	})
}

// TestF11_EveryLeaderSignsTheGroupFile: where the lock is lost, the file says which
// term was the last, also after leaders that had nothing to change in it.
func TestF11_EveryLeaderSignsTheGroupFile(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 1)
		for range 3 {
			w.stop()
			w.lead()
			if file := w.groupFile(); file.Term != int64(w.term) {
				t.Errorf("the leader of term %d leaves the group file in term %d", w.term, file.Term)
			}
		}
		if size := w.sizeOf(web); size != 1 {
			t.Errorf("size %d after three leaders, want 1", size)
		}
	})
}

func TestF11_GroupFileMissingHoldsDynamicGroups(t *testing.T) {
	static := `{"default": {"fixed": {"template": "plain", "size": 1}}}`
	inWorld(t, worldOptions{Groups: static}, func(t *testing.T, w *world) {
		w.scale(web, 3)
		w.settle(time.Minute)
		w.stop()
		w.remove(groupsKey)
		w.lead()
		w.settle(time.Hour)
		w.converged(4)
		if n := w.count(drivertest.OpDelete); n > 0 {
			t.Errorf("%d deletes because the group file is missing", n)
		}
		w.scale(other, 1)
		w.settle(time.Minute)
		w.converged(5)
		if size := w.sizeOf(web); size != 3 {
			t.Errorf("size of the rebuilt group is %d, want 3", size)
		}
		w.scale(web, 1)
		w.settle(time.Minute)
		w.converged(3)
	})
}

func TestF11_GroupFileRemovedUnderALeader(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 3)
		w.settle(time.Minute)
		w.remove(groupsKey)
		w.settle(time.Minute)
		w.converged(3)
		w.scale(other, 1) // it knows the groups, and writes them again
		w.settle(time.Minute)
		w.converged(4)
		if size := w.sizeOf(web); size != 3 {
			t.Errorf("size %d, want 3", size)
		}
	})
}

// TestF10_NewerGroupFileHoldsDynamicGroups: what it says is not known, and not lost.
func TestF10_NewerGroupFileHoldsDynamicGroups(t *testing.T) {
	for name, text := range map[string]string{
		"of a newer schema": `{"v": 99, "term": 1, "groups": {}}`,
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
				w.scale(web, 3)
				w.settle(time.Minute)
				w.stop()
				w.overwrite(groupsKey, text)
				w.lead()
				w.settle(time.Hour)
				w.converged(3)
				err := w.tryScale(web, 1)
				if !refusedWith(err, refusal.FailedPrecondition) {
					t.Errorf("an upsert over an unreadable file: %v, want FailedPrecondition", err)
				}
				if o, err := w.store.Get(w.ctx, groupsKey); err != nil || string(o.Data) != text {
					t.Errorf("the unreadable file is now %q, %v", o.Data, err)
				}
			})
		})
	}
}

func TestF10_UnreadableRecordIsQuarantined(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 2)
		w.settle(time.Minute)
		rec := w.records()[0]
		w.stop()
		w.overwrite(rec.Key(), `{"v": 1, "id":`)
		w.lead()
		w.settle(time.Hour)
		if _, there := w.cloud.Machine(rec.ID); !there {
			t.Error("the machine of an unreadable record was deleted")
		}
		if held := w.reign().Held(); len(held) != 1 || held[0].VM.ID != rec.ID {
			t.Errorf("held: %v, want %s", held, rec.ID)
		}
		if o, err := w.store.Get(w.ctx, rec.Key()); err != nil || !strings.HasSuffix(string(o.Data), `"id":`) {
			t.Errorf("the unreadable record is now %q, %v", o.Data, err)
		}
		if n := len(w.members(web)); n != 2 {
			t.Errorf("%d instances, want 2: others go on", n)
		}
	})
}

func TestDeleteGroupEmptiesAndForgetsIt(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 4)
		w.settle(time.Minute)
		if err := w.reign().DeleteGroup(w.ctx, "default", &nstancev1.DeleteGroupRequest{Key: "web"}); err != nil {
			t.Fatal(err)
		}
		w.settle(2 * time.Minute)
		w.converged(0)
		if _, ok := w.groupFile().Group("default", "web"); ok {
			t.Error("the entry of the deleted group is still there")
		}
		if size := w.sizeOf(web); size != -1 {
			t.Errorf("the deleted group is listed with size %d", size)
		}
		if err := w.reign().DeleteGroup(w.ctx, "default", &nstancev1.DeleteGroupRequest{Key: "web"}); err != nil {
			t.Errorf("deleting it again: %v", err)
		}
	})
}

func TestS8_DeletedGroupGoesSlowly(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 25)
		w.settle(time.Minute)
		if err := w.reign().DeleteGroup(w.ctx, "default", &nstancev1.DeleteGroupRequest{Key: "web"}); err != nil {
			t.Fatal(err)
		}
		w.settle(4 * time.Minute)
		var sent []time.Time
		for _, call := range w.cloud.Calls() {
			if call.Op == drivertest.OpDelete {
				sent = append(sent, call.At)
			}
		}
		for i := 10; i < len(sent); i++ {
			if span := sent[i].Sub(sent[i-10]); span < time.Minute {
				t.Errorf("11 deletes within %v, at most 10 a minute are allowed", span)
			}
		}
		w.converged(0)
	})
}

func TestDeleteGroupIsRevivedByAnUpsert(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 20)
		w.settle(time.Minute)
		if err := w.reign().DeleteGroup(w.ctx, "default", &nstancev1.DeleteGroupRequest{Key: "web"}); err != nil {
			t.Fatal(err)
		}
		w.settle(time.Second)
		w.scale(web, 15)
		w.settle(2 * time.Minute)
		w.converged(15)
	})
}

func TestStaticOverrideIsRemoved(t *testing.T) {
	static := `{"default": {"fixed": {"template": "plain", "size": 2}}}`
	inWorld(t, worldOptions{Groups: static}, func(t *testing.T, w *world) {
		w.settle(time.Minute)
		w.converged(2)
		size := int32(4)
		if _, err := w.reign().UpsertGroup(w.ctx, "default", &nstancev1.UpsertGroupRequest{
			Key: "fixed", Config: &nstancev1.GroupConfig{Size: &size},
		}); err != nil {
			t.Fatal(err)
		}
		w.settle(time.Minute)
		w.converged(4)
		if err := w.reign().DeleteGroup(w.ctx, "default", &nstancev1.DeleteGroupRequest{Key: "fixed"}); err != nil {
			t.Fatal(err)
		}
		w.settle(time.Minute)
		w.converged(2)
		if got := w.sizeOf(fixed); got != 2 {
			t.Errorf("size %d, want that of the configuration, 2", got)
		}
	})
}

func TestUpsertWithAnEtagOfThePast(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 1)
		etag := w.reign().ListGroups("default")[0].Etag
		w.scale(web, 2)
		size := int32(5)
		_, err := w.reign().UpsertGroup(w.ctx, "default", &nstancev1.UpsertGroupRequest{
			Key: "web", ExpectedEtag: &etag, Config: &nstancev1.GroupConfig{Size: &size},
		})
		if !refusedWith(err, refusal.Aborted) {
			t.Errorf("got %v, want Aborted", err)
		}
	})
}

func TestUpsertWaitsNoLongerThanItsCaller(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.store.SetFaults(func(c memory.Call) memory.Fault { return memory.Fault{Latency: time.Hour} })
		ctx, cancel := context.WithTimeout(w.ctx, time.Second)
		defer cancel()
		size, template := int32(1), "plain"
		_, err := w.reign().UpsertGroup(ctx, "default", &nstancev1.UpsertGroupRequest{
			Key: "web", Config: &nstancev1.GroupConfig{Size: &size, Template: &template},
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the caller's deadline", err)
		}
	})
}

// TestStaticGroupBecomesDynamicAndBack: neither way costs a machine, and each way the
// one who owns the group decides.
func TestStaticGroupBecomesDynamicAndBack(t *testing.T) {
	static := func(size int) worldOptions {
		return worldOptions{Groups: fmt.Sprintf(`{"default": {"web": {"template": "plain", "size": %d, "args": {"k": "v"}, "vars": {"a": "1"}}}}`, size)}
	}
	inWorld(t, static(2), func(t *testing.T, w *world) {
		w.resize(web, 3)
		w.settle(time.Minute)
		before := w.vms(web)
		for range 2 { // the second time by a leader that was told at its take-over
			w.reconfigure(worldOptions{})
			w.settle(time.Minute)
			w.same(before)
			group := w.group(web)
			if group.IsStatic || group.StaticSize != nil || group.Size != 3 || group.Vars["a"] != "1" {
				t.Fatalf("without its static definition: %v", group)
			}
			w.stop()
			w.static = Static{Config: testConfig(t, static(5)), ETag: "back"}
			w.lead()
			w.settle(time.Minute)
			w.same(before)
			if group := w.group(web); !group.IsStatic || group.GetStaticSize() != 5 || group.Size != 3 {
				t.Fatalf("back in the configuration: %v", group)
			}
		}
		if err := w.reign().DeleteGroup(w.ctx, web.Tenant, &nstancev1.DeleteGroupRequest{Key: web.Name}); err != nil {
			t.Fatal(err)
		}
		w.settle(time.Minute)
		w.converged(5) // what the API had set is gone, and its size is the configuration's
	})
}

// TestS8_UnlockedGroupGoesSlowly: a group that was static is deleted like any other.
func TestS8_UnlockedGroupGoesSlowly(t *testing.T) {
	opts := worldOptions{Groups: `{"default": {"web": {"template": "plain", "size": 25}}}`}
	inWorld(t, opts, func(t *testing.T, w *world) {
		res, err := w.reign().CreateInstance(w.ctx, "default", &nstancev1.CreateInstanceRequest{Config: &nstancev1.InstanceConfig{Group: "web"}})
		if err != nil {
			t.Fatal(err)
		}
		w.settle(time.Minute)
		w.reconfigure(worldOptions{})
		w.settle(time.Minute)
		w.converged(26)
		if err := w.reign().DeleteGroup(w.ctx, "default", &nstancev1.DeleteGroupRequest{Key: "web"}); err != nil {
			t.Fatal(err)
		}
		w.settle(30 * time.Second)
		if n := len(w.vms(web)); n != 16 {
			t.Errorf("%d machines are left after half a minute, want 16: ten a minute may go", n)
		}
		w.settle(5 * time.Minute)
		w.converged(1)
		if st, err := w.reign().GetInstance("default", res.InstanceId); err != nil || st.Status != "running" {
			t.Errorf("the machine on demand: %v, %v", st, err)
		}
	})
}

// resize sets the size of a group that is there.
func (w *world) resize(group fleet.GroupID, size int32) {
	w.t.Helper()
	_, err := w.reign().UpsertGroup(w.ctx, group.Tenant, &nstancev1.UpsertGroupRequest{
		Key: group.Name, Config: &nstancev1.GroupConfig{Size: &size},
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) group(id fleet.GroupID) *nstancev1.GroupStatus {
	w.t.Helper()
	for _, g := range w.reign().ListGroups(id.Tenant) {
		if g.Key == id.Name {
			return g
		}
	}
	w.t.Fatalf("no group %s", id)
	return nil
}

// same checks that the shard has the machines that it had.
func (w *world) same(before []drivertest.VM) {
	w.t.Helper()
	w.converged(len(before))
	for i, vm := range w.vms(web) {
		if vm.InstanceID != before[i].InstanceID {
			w.t.Errorf("%s was replaced by %s", before[i].InstanceID, vm.InstanceID)
		}
	}
}

// TestS2_WritesNeedTheLease: no record, no group file and no copy of it is written by
// who cannot prove that it leads.
func TestS2_WritesNeedTheLease(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 1)
		w.settle(2 * time.Minute)
		r, unproved, puts := w.reign(), context.WithoutCancel(t.Context()), 0
		w.store.SetFaults(func(c memory.Call) memory.Fault {
			if c.Op != memory.OpGet {
				puts++
			}
			return memory.Fault{}
		})
		_, _, groups := r.wanted.write(unproved, r.wanted.file.Clone(), r.wanted.etag)
		_, update := r.instances.Change(unproved, w.members(web)[0].ID, func(rec *bucket.InstanceRecord) error { return nil })
		for what, err := range map[string]error{
			"group file": groups, "its copy": (&previousFile{}).write(unproved, r, []byte("{}")), "record": update,
			"its end": r.instances.Remove(unproved, w.members(web)[0].ID),
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
