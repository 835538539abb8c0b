package groups

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"nstance.dev/server/cache"
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/fleet"
	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/memory"
	"nstance.dev/server/refusal"
)

// TestF11_EveryLeaderSignsTheGroupFile: where the lock is lost, the file says which
// term was the last, also after leaders that had nothing to change in it.
func TestF11_EveryLeaderSignsTheGroupFile(t *testing.T) {
	inArchive(t, func(t *testing.T, a *archive) {
		l := a.lead()
		l.scale(web, 1)
		for range 3 {
			l.end()
			l = a.lead()
			if file := a.file(); file.Term != int64(a.term) {
				t.Errorf("the leader of term %d leaves the group file in term %d", a.term, file.Term)
			}
			l.wantSizes(map[fleet.GroupID]int{web: 1})
		}
	})
}

// TestF11_LoadIsRepeated: a take-over tries until storage answers, and knows everything then.
func TestF11_LoadIsRepeated(t *testing.T) {
	inArchive(t, func(t *testing.T, a *archive) {
		first := a.lead()
		first.scale(web, 3)
		first.end()
		l := a.begin()
		for _, op := range []memory.Op{memory.OpGet, memory.OpPut} {
			a.objects.SetFaults(func(c memory.Call) memory.Fault {
				if c.Op == op {
					return memory.Fault{Before: objectstore.ErrUnavailable}
				}
				return memory.Fault{}
			})
			if err := l.Load(l.ctx); !errors.Is(err, objectstore.ErrUnavailable) {
				t.Errorf("load without storage: %v", err)
			}
		}
		a.objects.SetFaults(nil)
		a.cfg = configured(t, `{"default": {"fixed": {"template": "plain", "size": 2}}}`, "")
		if err := l.Reload(l.ctx, a.cfg); err != nil { // it was replaced meanwhile
			t.Fatal(err)
		}
		l.wantSizes(map[fleet.GroupID]int{web: 3, fixed: 2})
	})
}

// losses are the ways in which a group file is lost.
var losses = map[string]func(*archive){
	"missing":                 func(a *archive) { a.remove(groupsKey) },
	"missing with its copy":   func(a *archive) { a.remove(groupsKey); a.remove(previousKey) },
	"unreadable":              func(a *archive) { a.overwrite(groupsKey, `{"v": 1, "groups`) },
	"unreadable, and no copy": func(a *archive) { a.overwrite(groupsKey, ""); a.remove(previousKey) },
	"a copy of a lost file":   func(a *archive) { a.overwrite(groupsKey, "{"); a.overwrite(previousKey, "}") },
}

// TestF11_LostGroupFileIsRebuilt: from its copy and the records. Each group then waits until
// its own tenant, or an administrator, confirms it, under the next leaders too.
func TestF11_LostGroupFileIsRebuilt(t *testing.T) {
	for name, lose := range losses {
		t.Run(name, func(t *testing.T) {
			inArchive(t, func(t *testing.T, a *archive) {
				first := a.lead()
				first.scale(web, 1)
				first.scale(theirs, 2)
				pass(2 * time.Minute)
				first.scale(web, 2)
				for range 2 {
					a.instance(web, `{"template": "plain"}`)
					a.instance(theirs, `{"template": "plain"}`)
				}
				first.end()
				lose(a)
				var l *leader
				for range 2 {
					l = a.lead()
					l.wantSizes(map[fleet.GroupID]int{web: 2, theirs: 2})
					for id, g := range l.All() {
						if hold := l.Paused(id, time.Now()); !g.Rebuilt || hold.By != fleet.BlockerRebuilt {
							t.Errorf("%s goes on: rebuilt %t, held by %q", id, g.Rebuilt, hold.By)
						}
						if err := l.RefusePaused(id); !refusedWith(err, refusal.FailedPrecondition) {
							t.Errorf("%s: %v", id, err)
						}
					}
					if !l.Waiting() {
						t.Error("no metric says that groups wait")
					}
					l.end()
				}
				l = a.lead()
				l.scale(web, 3) // by its tenant
				if _, err := l.Confirm(l.ctx, "b", []string{"unknown"}); !refusedWith(err, refusal.NotFound) {
					t.Errorf("confirmed a group that does not exist: %v", err)
				}
				for _, want := range [][]string{{"web"}, nil} {
					if got, err := l.Confirm(l.ctx, "b", nil); err != nil || !slices.Equal(got, want) {
						t.Errorf("confirmed %v, %v, want %v", got, err, want)
					}
				}
				for id := range l.All() {
					if hold := l.Paused(id, time.Now()); hold.By != "" {
						t.Errorf("%s still waits: %+v", id, hold)
					}
				}
				if l.Waiting() {
					t.Error("the metric says that groups wait")
				}
			})
		})
	}
}

// TestS24_RebuiltFileIsReadable: what a record keeps of a group and no group file could have is
// left out of the file that is made of it; the group is made from the rest of the record.
func TestS24_RebuiltFileIsReadable(t *testing.T) {
	inArchive(t, func(t *testing.T, a *archive) {
		a.instance(web, `{"template": "plain", "manager": "a\u0000b"}`)
		l := a.lead()
		l.wantSizes(map[fleet.GroupID]int{web: 1})
		if entry, _ := a.file().Group("default", "web"); entry.Template != "plain" || entry.Manager != "" {
			t.Errorf("rebuilt as %+v", entry)
		}
	})
}

// TestS24_UnreadableIsNotWritten: a file that was made of what nobody has checked is read back
// as a whole. One that the next leader could not read is not written.
func TestS24_UnreadableIsNotWritten(t *testing.T) {
	inArchive(t, func(t *testing.T, a *archive) {
		row := a.instance(web, "")
		row.Template = "pl\x00ain"
		a.rows = []cache.Instance{row}
		l := a.lead()
		if hold := l.Paused(web, time.Now()); hold.By != fleet.BlockerUnknownGroup || !l.Waiting() {
			t.Errorf("held %+v, waiting %t", hold, l.Waiting())
		}
		if _, err := a.objects.Get(t.Context(), groupsKey); !errors.Is(err, objectstore.ErrNotFound) {
			t.Errorf("the group file: %v, want none", err)
		}
		if err := l.tryScale(other, 1); !refusedWith(err, refusal.FailedPrecondition) {
			t.Errorf("an edit: %v", err)
		}
	})
}

// TestF10_DamagedGroupFileIsKept: the rebuilt file takes the place of one that can't
// be read, which somebody may still want to look at.
func TestF10_DamagedGroupFileIsKept(t *testing.T) {
	inArchive(t, func(t *testing.T, a *archive) {
		l := a.lead()
		l.scale(web, 1)
		for _, text := range []string{"{", "", "}"} {
			l.end()
			a.overwrite(groupsKey, text)
			l = a.lead()
			if o, err := a.objects.Get(t.Context(), damagedKey); err != nil || string(o.Data) != text {
				t.Errorf("kept %q, %v, want %q", o.Data, err, text)
			}
			a.file()
		}
	})
}

// TestF10_NewerGroupFileIsLeftAlone: what it says is not known, and not lost. Static groups
// go on as far as nobody may have paused them.
func TestF10_NewerGroupFileIsLeftAlone(t *testing.T) {
	const newer = `{"v": 99, "term": 1, "groups": {}}`
	inArchive(t, func(t *testing.T, a *archive) {
		a.cfg = configured(t, `{"default": {"fixed": {"template": "plain", "size": 2}}}`, "")
		first := a.lead()
		first.scale(web, 3)
		first.end()
		a.overwrite(groupsKey, newer)
		l := a.lead()
		l.wantSizes(map[fleet.GroupID]int{fixed: 2})
		if g := l.Group(web); g.Blocked == "" || g.Deleted {
			t.Errorf("a dynamic group: %+v, want one that is held", g)
		}
		for _, id := range []fleet.GroupID{web, fixed} {
			if hold := l.Paused(id, time.Now()); hold.By != fleet.BlockerUnknownGroup {
				t.Errorf("%s: held %+v; nobody knows whether it is paused", id, hold)
			}
		}
		if err := l.tryScale(web, 1); !refusedWith(err, refusal.FailedPrecondition) {
			t.Errorf("an edit over an unreadable file: %v, want FailedPrecondition", err)
		}
		if _, err := l.Apply(l.ctx, configured(t, `{"default": {}}`, "")); err != nil {
			t.Errorf("another configuration: %v", err)
		}
		if o, err := a.objects.Get(t.Context(), groupsKey); err != nil || string(o.Data) != newer {
			t.Errorf("the unreadable file is now %q, %v", o.Data, err)
		}
		if !l.Waiting() {
			t.Error("no metric says that groups wait")
		}
	})
}

func TestF11_GroupFileChangedUnderALeader(t *testing.T) {
	inArchive(t, func(t *testing.T, a *archive) {
		l := a.lead()
		l.scale(web, 3)
		a.remove(groupsKey)
		l.scale(other, 1) // it knows the groups, and writes them again
		if entry, _ := a.file().Group("default", "web"); entry.Size == nil || *entry.Size != 3 {
			t.Errorf("written again as %+v", entry)
		}
		a.overwrite(groupsKey, "{")
		if err := l.tryScale(web, 4); !refusedWith(err, refusal.FailedPrecondition) {
			t.Errorf("an edit over an unreadable file: %v, want FailedPrecondition", err)
		}
		l.wantSizes(map[fleet.GroupID]int{web: 3, other: 1})
		if !l.Waiting() || l.ETag() == "" {
			t.Errorf("waiting %t, version %q", l.Waiting(), l.ETag())
		}
	})
}

func TestS1_CopyOfALaterTerm(t *testing.T) {
	inArchive(t, func(t *testing.T, a *archive) {
		data, err := groupfile.Encode(&groupfile.File{Term: 7})
		if err == nil {
			_, err = a.objects.PutIfAbsent(t.Context(), previousKey, data)
		}
		if err != nil {
			t.Fatal(err)
		}
		l := a.begin()
		if err := l.Load(l.ctx); !errors.Is(err, lease.ErrSuperseded) {
			t.Errorf("got %v, want that the leader is superseded", err)
		}
	})
}

// TestS3_LargeEntriesAreNotKeptWithEachInstance bounds the records.
func TestS3_LargeEntriesAreNotKeptWithEachInstance(t *testing.T) {
	kept := func(bytes int) []byte {
		entry := &groupfile.Entry{Template: "plain", Vars: document.Vars{"a": strings.Repeat("x", bytes)}}
		return entryToKeep(&effective.Group{Tenant: "default", Key: "web", Dynamic: entry}, effective.New(&document.Config{}, nil), false)
	}
	if kept(7<<10) == nil {
		t.Error("an entry of 7 KiB is not kept")
	}
	if kept(9<<10) != nil {
		t.Error("an entry of 9 KiB is kept with each instance")
	}
}

// TestS20_GroupThatIsGone: what is left of it drains as long as it did.
func TestS20_GroupThatIsGone(t *testing.T) {
	inArchive(t, func(t *testing.T, a *archive) {
		l := a.lead()
		if g := l.Group(web); !g.Deleted || g.DrainTimeout != time.Minute {
			t.Errorf("a group that never was: %+v, want one that is deleted, with the drains of the configuration", g)
		}
		l.end()
		row := a.instance(web, `{"template": "plain", "drain_timeout": "5m"}`)
		a.rows = nil
		l = a.lead()
		if err := l.opts.Cache.Insert(row); err != nil {
			t.Fatal(err)
		}
		if g := l.Group(web); !g.Deleted || g.DrainTimeout != 5*time.Minute {
			t.Errorf("a group that is gone: %+v, want the drains of its last entry", g)
		}
	})
}

// TestGroupsAreFoundByTheirState covers the four ways of asking.
func TestGroupsAreFoundByTheirState(t *testing.T) {
	inArchive(t, func(t *testing.T, a *archive) {
		l := a.lead()
		l.scale(web, 1)
		l.scale(other, 2)
		if err := l.Delete(l.ctx, other, Manager{}); err != nil {
			t.Fatal(err)
		}
		unfit := configured(t, `{"default": {}}`, "")
		delete(unfit.Templates, "plain")
		generation := l.Generation()
		l.told()
		changed, err := l.Apply(l.ctx, unfit)
		if err != nil || len(changed) != 2 {
			t.Errorf("applied: %v, %v, want that both groups changed", changed, err)
		}
		if l.Generation() == generation || l.Config() != unfit {
			t.Error("the configuration is not in force")
		}
		if _, ok := l.Effective(web); ok {
			t.Error("what a group without a template should be is known")
		}
		if g, ok := l.Find(web); !ok || g.Blocked == "" {
			t.Errorf("found %+v, %t", g, ok)
		}
		if g := l.Group(other); !g.Deleted || g.Desired() != 0 {
			t.Errorf("a deleted group: %+v", g)
		}
		if told := l.told(); !slices.Equal(told, []string{"default/other updated", "default/web updated"}) {
			t.Errorf("told of %v", told)
		}
		if !strings.Contains(l.log.String(), "group is blocked") {
			t.Error("nothing in the log says so")
		}
		again := *unfit
		if changed, err := l.Apply(l.ctx, &again); err != nil || len(changed) != 0 || len(l.told()) != 0 {
			t.Errorf("applied without a difference: %v, %v, want that no group changed", changed, err)
		}
	})
}
