package shard

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/bucket"
	"nstance.dev/server/config"
	"nstance.dev/server/fleet"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/memory"
)

const previousKey = "groups/" + testShard + ".previous.jsonc"

var fixed = fleet.GroupID{Tenant: "default", Name: "fixed"}

// losses are the ways in which a group file is lost.
var losses = map[string]func(*world){
	"missing":                 func(w *world) { w.remove(groupsKey) },
	"missing with its copy":   func(w *world) { w.remove(groupsKey); w.remove(previousKey) },
	"unreadable":              func(w *world) { w.overwrite(groupsKey, `{"v": 1, "groups`) },
	"unreadable, and no copy": func(w *world) { w.overwrite(groupsKey, ""); w.remove(previousKey) },
	"a copy of a lost file":   func(w *world) { w.overwrite(groupsKey, "{"); w.overwrite(previousKey, "}") },
}

// TestF11_LostGroupFileIsRebuilt: from what is left, with type, pool, vars, args and
// sizes, static ones too. Each group waits until its own tenant confirms it; another
// tenant's change does nothing to it, nor does the next leader.
func TestF11_LostGroupFileIsRebuilt(t *testing.T) {
	opts := worldOptions{Groups: `{"default": {"fixed": {"template": "plain", "size": 2}}}`}
	for name, lose := range losses {
		t.Run(name, func(t *testing.T) {
			inWorld(t, opts, func(t *testing.T, w *world) {
				size := int32(3)
				upsert := &nstancev1.UpsertGroupRequest{Key: "web", Manager: "uid", Config: &nstancev1.GroupConfig{
					Template: proto.String("plain"), Size: &size, InstanceType: proto.String("huge"),
					Vars: &nstancev1.StringMap{Values: map[string]string{"a": "1"}},
					Args: &nstancev1.StringMap{Values: map[string]string{"k": `{"n": [1, true]}`}},
				}}
				if _, err := w.reign().UpsertGroup(w.ctx, "default", upsert); err != nil {
					t.Fatal(err)
				}
				w.resize(fixed, 4)
				w.scale(theirs, 1)
				w.settle(2 * time.Minute)
				w.scale(theirs, 2)
				w.settle(2 * time.Minute)
				before, file := w.vms(web), w.groupFile()
				w.stop()
				lose(w)
				w.lead()
				changes := w.changes()
				w.scale(fleet.GroupID{Tenant: "b", Name: "new"}, 1)
				for range 2 {
					w.settle(time.Hour)
					w.stop()
					w.lead()
				}
				if n := w.changes() - changes; n != 1 {
					t.Errorf("%d creates and deletes, want the one of the new group", n)
				}
				w.cloud.Kill(before[0].InstanceID)
				w.settle(time.Hour)
				if n := w.changes() - changes; n != 1 {
					t.Errorf("%d creates and deletes in groups that nobody has confirmed", n-1)
				}
				for _, id := range []fleet.GroupID{web, fixed, theirs} {
					want, _ := file.Group(id.Tenant, id.Name)
					got, _ := w.groupFile().Group(id.Tenant, id.Name)
					if got.Rebuilt == nil || !w.group(id).Rebuilt {
						t.Errorf("%s: nothing says that it was rebuilt", id)
					}
					if d := w.lastDecision(web); d.By != fleet.BlockerRebuilt {
						t.Errorf("the last decision is %+v, want one that waits", d)
					}
					if got.Rebuilt = nil; !got.Equal(want) {
						t.Errorf("%s is rebuilt as %+v, want %+v", id, got, want)
					}
				}
				if _, err := w.reign().UpsertGroup(w.ctx, "default", upsert); err != nil {
					t.Fatal(err)
				}
				w.confirm("default", nil, "fixed")
				w.confirm("b", []string{"web"}, "web")
				w.confirm("b", nil)
				w.settle(5 * time.Minute)
				w.converged(10)
				if got, _ := w.groupFile().Group("default", "web"); got.Rebuilt != nil {
					t.Error("a change by its tenant did not confirm the group")
				}
			})
		})
	}
}

// confirm lets groups go on, and checks which had waited.
func (w *world) confirm(tenant string, keys []string, want ...string) {
	w.t.Helper()
	if got, err := w.reign().ConfirmGroups(w.ctx, tenant, keys); err != nil || !slices.Equal(got, want) {
		w.t.Errorf("confirm %s %v: %v, %v, want %v", tenant, keys, got, err, want)
	}
}

// TestF10_DamagedGroupFileIsKept: the rebuilt file takes the place of one that can't
// be read, which somebody may still want to look at.
func TestF10_DamagedGroupFileIsKept(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 1)
		w.settle(time.Minute)
		for _, text := range []string{"{", "", "}"} {
			w.stop()
			w.overwrite(groupsKey, text)
			w.lead()
			o, err := w.store.Get(w.ctx, bucket.DamagedGroupsKey(testShard))
			if err != nil || string(o.Data) != text {
				t.Errorf("kept %q, %v, want %q", o.Data, err, text)
			}
		}
	})
}

// TestF11_CopyOfTheGroupFile: what was in the file before a change is copied, once a
// minute at most, and no change waits for that.
func TestF11_CopyOfTheGroupFile(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		copies, down := 0, false
		w.store.SetFaults(func(c memory.Call) memory.Fault {
			if c.Key != previousKey {
				return memory.Fault{}
			}
			if c.Op == memory.OpPut {
				copies++
			}
			if down {
				return memory.Fault{Before: objectstore.ErrUnavailable}
			}
			return memory.Fault{Latency: 10 * time.Second}
		})
		w.settle(2 * time.Minute)
		copies = 0
		w.scale(web, 1)
		before := w.groupFile()
		w.settle(2 * time.Minute)
		for size := range 20 {
			begun := time.Now()
			w.scale(web, size+2)
			if took := time.Since(begun); took > time.Second {
				t.Errorf("a change took %v while a copy is written", took)
			}
			w.settle(time.Second)
		}
		if copies != 2 {
			t.Errorf("%d copies in two minutes of changes, want 2", copies)
		}
		o, err := w.store.Get(w.ctx, previousKey)
		if err != nil {
			t.Fatal(err)
		}
		kept, err := config.DecodeGroups(previousKey, o.Data)
		if err != nil {
			t.Fatal(err)
		}
		want, _ := before.Group("default", "web")
		if got, _ := kept.Group("default", "web"); !got.Equal(want) {
			t.Errorf("the copy has %+v, want %+v, as it was before the change", got, want)
		}
		down = true
		w.settle(2 * time.Minute)
		w.scale(web, 1)
		w.settle(time.Minute)
		if !strings.Contains(w.logs.String(), "copy of the group file not kept") {
			t.Error("nothing is said of a copy that could not be written")
		}
	})
}

// TestS3_LargeEntriesAreNotKeptWithEachInstance bounds the records.
func TestS3_LargeEntriesAreNotKeptWithEachInstance(t *testing.T) {
	kept := func(bytes int) []byte {
		entry := &config.DynamicGroup{Template: "plain", Vars: config.Vars{"a": strings.Repeat("x", bytes)}}
		return entryToKeep(&config.EffectiveGroup{Tenant: "default", Key: "web", Dynamic: entry}, &config.Config{}, false)
	}
	if kept(7<<10) == nil {
		t.Error("an entry of 7 KiB is not kept")
	}
	if kept(9<<10) != nil {
		t.Error("an entry of 9 KiB is kept with each instance")
	}
}
