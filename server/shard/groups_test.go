package shard

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/server/config"
	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/config/requests"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/fleet"
	"nstance.dev/server/groups"
	"nstance.dev/server/layout"
	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore/memory"
	"nstance.dev/server/refusal"
	"nstance.dev/server/status"
)

var (
	other  = fleet.GroupID{Tenant: "default", Name: "other"}
	theirs = fleet.GroupID{Tenant: "b", Name: "web"}
)

const groupsKey = "groups/" + testShard + ".jsonc"

func (w *world) groupFile() *groupfile.File {
	w.t.Helper()
	o, err := w.store.Get(w.ctx, groupsKey)
	if err != nil {
		w.t.Fatal(err)
	}
	file, err := groupfile.Decode(groupsKey, o.Data)
	if err != nil {
		w.t.Fatal(err)
	}
	return file
}

// sizeOf is the size that a tenant is told; -1 for a group that it is not told of.
func (w *world) sizeOf(id fleet.GroupID) int {
	for _, g := range w.term().planner.status.ListGroups(id.Tenant) {
		if g.Key == id.Name {
			return g.Size
		}
	}
	return -1
}

func TestS1_LaterTermInTheGroupFileEndsTheTerm(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 1)
		file := w.groupFile()
		file.Term = 7
		data, err := groupfile.Encode(file)
		if err != nil {
			t.Fatal(err)
		}
		w.overwrite(groupsKey, string(data))
		if err := w.tryScale(web, 2); err == nil {
			t.Error("a change under a past term was accepted")
		}
		synctest.Wait()
		if _, err := w.shard().Term(); err == nil {
			t.Error("the server goes on leading after a later term has written")
		}
		if err := w.ended(); !errors.Is(err, lease.ErrSuperseded) {
			t.Errorf("Lead returned %v, want that it is superseded", err)
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
		if held := w.term().Unmanaged(); len(held) != 1 || held[0].VM.ID != rec.ID {
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
		if err := w.term().requests.DeleteGroup(w.ctx, "default", "web", groups.Manager{}); err != nil {
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
		if err := w.term().requests.DeleteGroup(w.ctx, "default", "web", groups.Manager{}); err != nil {
			t.Errorf("deleting it again: %v", err)
		}
	})
}

func TestS8_DeletedGroupGoesSlowly(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 25)
		w.settle(time.Minute)
		if err := w.term().requests.DeleteGroup(w.ctx, "default", "web", groups.Manager{}); err != nil {
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
		if err := w.term().requests.DeleteGroup(w.ctx, "default", "web", groups.Manager{}); err != nil {
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
		size := 4
		if _, err := w.term().requests.UpsertGroup(w.ctx, "default", "fixed", requests.GroupChange{Size: &size}, nil); err != nil {
			t.Fatal(err)
		}
		w.settle(time.Minute)
		w.converged(4)
		if err := w.term().requests.DeleteGroup(w.ctx, "default", "fixed", groups.Manager{}); err != nil {
			t.Fatal(err)
		}
		w.settle(time.Minute)
		w.converged(2)
		if got := w.sizeOf(fixed); got != 2 {
			t.Errorf("size %d, want that of the configuration, 2", got)
		}
	})
}

func TestUpsertWaitsNoLongerThanItsCaller(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.store.SetFaults(func(c memory.Call) memory.Fault { return memory.Fault{Latency: time.Hour} })
		ctx, cancel := context.WithTimeout(w.ctx, time.Second)
		defer cancel()
		size := 1
		_, err := w.term().requests.UpsertGroup(ctx, "default", "web", requests.GroupChange{Size: &size, Template: "plain"}, nil)
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
			if group.Static || group.StaticSize != nil || group.Size != 3 || group.Vars["a"] != "1" {
				t.Fatalf("without its static definition: %v", group)
			}
			w.stop()
			w.static = config.Version{Config: testConfig(t, static(5)), ETag: "back"}
			w.lead()
			w.settle(time.Minute)
			w.same(before)
			if group := w.group(web); !group.Static || *group.StaticSize != 5 || group.Size != 3 {
				t.Fatalf("back in the configuration: %v", group)
			}
		}
		if err := w.term().requests.DeleteGroup(w.ctx, web.Tenant, web.Name, groups.Manager{}); err != nil {
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
		res, err := w.term().requests.CreateInstance(w.ctx, "default", InstanceRequest{Group: "web"})
		if err != nil {
			t.Fatal(err)
		}
		w.settle(time.Minute)
		w.reconfigure(worldOptions{})
		w.settle(time.Minute)
		w.converged(26)
		if err := w.term().requests.DeleteGroup(w.ctx, "default", "web", groups.Manager{}); err != nil {
			t.Fatal(err)
		}
		w.settle(30 * time.Second)
		if n := len(w.vms(web)); n != 16 {
			t.Errorf("%d machines are left after half a minute, want 16: ten a minute may go", n)
		}
		w.settle(5 * time.Minute)
		w.converged(1)
		if st, err := w.term().planner.status.GetInstance("default", res.ID.String()); err != nil || st.Status != "running" {
			t.Errorf("the machine on demand: %v, %v", st, err)
		}
	})
}

// resize sets the size of a group that is there.
func (w *world) resize(group fleet.GroupID, size int) {
	w.t.Helper()
	_, err := w.term().requests.UpsertGroup(w.ctx, group.Tenant, group.Name, requests.GroupChange{Size: &size}, nil)
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) group(id fleet.GroupID) *status.Group {
	w.t.Helper()
	for _, g := range w.term().planner.status.ListGroups(id.Tenant) {
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

// TestS2_RecordsNeedTheLease: no record is written by who cannot prove that it leads.
func TestS2_RecordsNeedTheLease(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 1)
		w.settle(2 * time.Minute)
		r, unproved, puts := w.term(), context.WithoutCancel(t.Context()), 0
		w.store.SetFaults(func(c memory.Call) memory.Fault {
			if c.Op != memory.OpGet {
				puts++
			}
			return memory.Fault{}
		})
		_, update := r.planner.instances.Change(unproved, w.members(web)[0].ID, func(rec *layout.InstanceRecord) error { return nil })
		for what, err := range map[string]error{
			"record":  update,
			"its end": r.planner.instances.Remove(unproved, w.members(web)[0].ID),
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

// TestS8_DeletedGroupKeepsItsOwnBound: rails.max_delete_share of a group binds beside the
// shard's, and goes with the group when that leaves the configuration.
func TestS8_DeletedGroupKeepsItsOwnBound(t *testing.T) {
	opts := worldOptions{Groups: `{"default": {"web": {"template": "plain", "size": 25, "rails": {"max_delete_share": "12%"}}}}`}
	inWorld(t, opts, func(t *testing.T, w *world) {
		w.settle(time.Minute)
		w.reconfigure(worldOptions{})
		w.settle(time.Minute)
		w.converged(25)
		if err := w.term().requests.DeleteGroup(w.ctx, "default", "web", groups.Manager{}); err != nil {
			t.Fatal(err)
		}
		w.settle(50 * time.Second)
		if n := len(w.vms(web)); n != 22 {
			t.Errorf("%d machines are left within the first minute, want 22: 12%% of 25 may go", n)
		}
		w.settle(30 * time.Minute)
		var sent []time.Time
		for _, call := range w.cloud.Calls() {
			if call.Op == drivertest.OpDelete {
				sent = append(sent, call.At)
			}
		}
		for i := 3; i < len(sent); i++ {
			if span := sent[i].Sub(sent[i-3]); span < time.Minute {
				t.Errorf("4 deletes within %v, at most 3 a minute are allowed", span)
			}
		}
		w.converged(0)
	})
}
