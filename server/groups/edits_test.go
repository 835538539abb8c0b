package groups

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/config/requests"
	"nstance.dev/server/fleet"
	"nstance.dev/server/objectstore/memory"
	"nstance.dev/server/refusal"
)

// TestS24_AcceptedIsReadable: whatever one tenant asks for, the group file can be read
// by the next leader, and another tenant's edit is answered as if nothing had been.
func TestS24_AcceptedIsReadable(t *testing.T) {
	upsert := func(change requests.GroupChange) func(*leader) error {
		return func(l *leader) error {
			change.Template = "plain"
			return l.Upsert(l.ctx, web, change, nil)
		}
	}
	deep := any(1)
	for range 80 {
		deep = []any{deep}
	}
	arg := func(name string, value any) func(*leader) error {
		return upsert(requests.GroupChange{Args: map[string]any{name: value}})
	}
	pause := func(reason string, until time.Time) func(*leader) error {
		return func(l *leader) error {
			p := groupfile.Pause{Scope: groupfile.PauseTenant, Tenant: "default", Reason: reason}
			if !until.IsZero() {
				p.Until = &document.Time{Time: until}
			}
			_, err := l.SetPause(l.ctx, "default", p)
			return err
		}
	}
	for name, c := range map[string]struct {
		ask  func(*leader) error
		code refusal.Code
	}{
		"manager with a NUL":            {upsert(requests.GroupChange{Manager: "a\x00b"}), refusal.InvalidArgument},
		"manager with a line break":     {upsert(requests.GroupChange{Manager: "a\nb"}), refusal.InvalidArgument},
		"manager of 3 MiB":              {upsert(requests.GroupChange{Manager: strings.Repeat("m", 3<<20)}), refusal.InvalidArgument},
		"argument with a NUL":           {arg("a", "\x00"), refusal.InvalidArgument},
		"argument's name with NUL":      {arg("a\x00", 1), refusal.InvalidArgument},
		"argument's inner name":         {arg("a", map[string]any{"b": map[string]any{"\x00": 1}}), refusal.InvalidArgument},
		"argument nested 80 deep":       {arg("a", deep), refusal.InvalidArgument},
		"argument's name of 1 MiB":      {arg(strings.Repeat("a", 1<<20), 1), refusal.InvalidArgument},
		"reason with a NUL":             {pause("a\x00b", time.Time{}), refusal.InvalidArgument},
		"reason with a line break":      {pause("a\nb", time.Time{}), refusal.InvalidArgument},
		"until a year that no date has": {pause("r", time.Unix(1<<40, 0)), refusal.InvalidArgument},
		"until the past":                {pause("r", time.Unix(0, 0)), refusal.InvalidArgument},
	} {
		t.Run(name, func(t *testing.T) { refusedAndReadable(t, c.ask, c.code) })
	}
}

// refusedAndReadable demands that what one tenant asks for is refused, and that afterwards the
// next leader reads the group file and answers another tenant.
func refusedAndReadable(t *testing.T, ask func(*leader) error, code refusal.Code) {
	inArchive(t, func(t *testing.T, a *archive) {
		l := a.lead()
		l.scale(theirs, 2)
		if err := ask(l); !refusedWith(err, code) {
			t.Errorf("got %v, want %v", err, code)
		}
		l.end()
		l = a.lead()
		a.file()
		if err := l.tryScale(theirs, 3); err != nil {
			t.Errorf("another tenant, after a change of leader: %v", err)
		}
		if g := l.Group(theirs); g.Size != 3 || g.Blocked != "" {
			t.Errorf("another tenant's group: %+v", g)
		}
	})
}

// TestDeletedGroupIsForgottenOrRevived: the entry stays until its last instance is gone, and an
// upsert meanwhile brings it back.
func TestDeletedGroupIsForgottenOrRevived(t *testing.T) {
	inArchive(t, func(t *testing.T, a *archive) {
		a.cfg = configured(t, `{"default": {"fixed": {"template": "plain", "size": 2}}}`, "")
		l := a.lead()
		remove := func(id fleet.GroupID, by Manager) error { return l.Delete(l.ctx, id, by) }
		for _, id := range []fleet.GroupID{web, other, fixed} {
			l.scale(id, 4)
			if err := errors.Join(remove(id, Manager{}), remove(id, Manager{})); err != nil {
				t.Fatal(err)
			}
		}
		if g, _ := l.Find(fixed); g.Size != 2 || g.Deleted {
			t.Errorf("a static group has size %d, deleted %t: want that of the configuration", g.Size, g.Deleted)
		}
		l.scale(other, 1)
		_, err := l.SetPause(l.ctx, "default", groupfile.Pause{Scope: groupfile.PauseGroup, Tenant: "default", Group: "web", Reason: "r"})
		if err != nil {
			t.Fatal(err)
		}
		l.told()
		for _, id := range []fleet.GroupID{web, other, fixed} {
			if err := l.Forget(l.ctx, id); err != nil {
				t.Error(err)
			}
		}
		if told := l.told(); !slices.Equal(told, []string{"default/web removed"}) {
			t.Errorf("told of %v", told)
		}
		l.wantSizes(map[fleet.GroupID]int{other: 1, fixed: 2})
		if file := a.file(); len(file.Paused) != 0 {
			t.Errorf("pauses of a group that is gone: %v", file.Paused)
		}
		if err := remove(web, Manager{}); err != nil {
			t.Errorf("a group that does not exist: %v", err)
		}
	})
}

// TestGroupOfAnotherManager: whoever says who he is does not change what somebody else manages,
// unless he takes it over.
func TestGroupOfAnotherManager(t *testing.T) {
	inArchive(t, func(t *testing.T, a *archive) {
		l := a.lead()
		l.scale(web, 1)
		for by, allowed := range map[Manager]bool{{}: true, {Name: "one"}: true, {Name: "two"}: false, {Name: "two", Takeover: true}: true} {
			if err := l.Upsert(l.ctx, web, requests.GroupChange{Manager: "one", Takeover: true}, nil); err != nil {
				t.Fatal(err)
			}
			_, err := l.OnDemand(web, effective.InstanceRequest{}, by)
			if allowed && err != nil || !allowed && !refusedWith(err, refusal.FailedPrecondition) {
				t.Errorf("an instance on demand for %+v: %v", by, err)
			}
			err = l.Delete(l.ctx, web, by)
			if allowed && err != nil || !allowed && !refusedWith(err, refusal.FailedPrecondition) {
				t.Errorf("deleted by %+v: %v", by, err)
			}
		}
		if _, err := l.OnDemand(fleet.GroupID{Tenant: "b", Name: "nothing"}, effective.InstanceRequest{}, Manager{}); !refusedWith(err, refusal.NotFound) {
			t.Errorf("an instance of a group that does not exist: %v", err)
		}
	})
}

// TestA3_RetiredInOneStep: the size goes down once for each instance that is named, and the
// names are planned with as long as they may be needed.
func TestA3_RetiredInOneStep(t *testing.T) {
	inArchive(t, func(t *testing.T, a *archive) {
		first, second := a.instance(web, ""), a.instance(web, "")
		gone, err := a.ids.NewID("vmx")
		if err != nil {
			t.Fatal(err)
		}
		l := a.lead()
		l.scale(web, 3)
		name := func(id identity.ID, skip bool) {
			t.Helper()
			if err := l.Retire(l.ctx, web, id, skip); err != nil {
				t.Fatal(err)
			}
		}
		name(gone, false)
		name(first.ID, false)
		name(first.ID, true)
		count := a.faults(memory.Fault{})
		name(first.ID, true)
		name(first.ID, false)
		if n := count(); n != 0 {
			t.Errorf("%d writes for what was said already", n)
		}
		want := []fleet.Retired{{ID: gone}, {ID: first.ID, SkipDrain: true}}
		if g := l.Group(web); g.Size != 1 || !slices.Equal(g.Retired, want) {
			t.Errorf("%+v, want size 1 without %v", g, want)
		}
		l.end()
		time.Sleep(time.Hour)
		l = a.lead()
		want[1].SkipDrain = false // an hour later it may have work
		if g := l.Group(web); g.Size != 1 || !slices.Equal(g.Retired, want) {
			t.Errorf("S20: for the next leader %+v, want %v", g, want)
		}
		name(second.ID, false)
		want = []fleet.Retired{{ID: first.ID}, {ID: second.ID}}
		if g := l.Group(web); g.Size != 0 || !slices.Equal(g.Retired, want) {
			t.Errorf("%+v, want size 0 without %v: the other one has no record", g, want)
		}
		if err := l.Retire(l.ctx, theirs, first.ID, false); !refusedWith(err, refusal.NotFound) {
			t.Errorf("of a group that does not exist: %v", err)
		}
	})
}

// TestS23_PausesStandInTheFile: the widest counts, until it is over or cleared.
func TestS23_PausesStandInTheFile(t *testing.T) {
	inArchive(t, func(t *testing.T, a *archive) {
		l := a.lead()
		l.scale(web, 1)
		l.scale(theirs, 1)
		group := groupfile.Pause{Scope: groupfile.PauseGroup, Tenant: "default", Group: "web", Reason: "the group"}
		shard := groupfile.Pause{Scope: groupfile.PauseShard, Reason: "the shard", Until: &document.Time{Time: time.Now().Add(time.Hour)}}
		for _, p := range []groupfile.Pause{group, shard} {
			if set, err := l.SetPause(l.ctx, "default", p); err != nil || !set.Since.Equal(time.Now()) {
				t.Errorf("paused %+v, %v", set, err)
			}
		}
		l.end()
		l = a.lead()
		for _, id := range []fleet.GroupID{web, theirs} {
			if hold := l.Paused(id, time.Now()); hold.By != fleet.BlockerPaused || hold.Why != "the shard is paused: the shard" || !hold.Until.Equal(shard.Until.Time) {
				t.Errorf("%s: %+v", id, hold)
			}
		}
		time.Sleep(time.Hour)
		if hold := l.Paused(theirs, time.Now()); hold.By != "" || l.RefusePaused(theirs) != nil {
			t.Errorf("after its end: %+v", hold)
		}
		if p, ok := l.PauseOf(web, time.Now()); !ok || p.Reason != "the group" || !refusedWith(l.RefusePaused(web), refusal.FailedPrecondition) {
			t.Errorf("the group's own: %+v, %t", p, ok)
		}
		for range 2 {
			if err := l.ClearPause(l.ctx, "default", group); err != nil {
				t.Error(err)
			}
		}
		if hold := l.Paused(web, time.Now()); hold.By != "" {
			t.Errorf("after it was cleared: %+v", hold)
		}
		group.Group = "nothing"
		if _, err := l.SetPause(l.ctx, "default", group); !refusedWith(err, refusal.NotFound) {
			t.Errorf("S12: a group that does not exist: %v", err)
		}
	})
}

// fill adds machines to the cache: live ones of a group, some on their way out, and on demand.
func (l *leader) fill(group fleet.GroupID, live, leaving, onDemand int) {
	l.a.t.Helper()
	for i := range live + leaving + onDemand {
		id, err := l.a.ids.NewID("vmx")
		if err != nil {
			l.a.t.Fatal(err)
		}
		in := cache.Instance{Instance: fleet.Instance{ID: id, Group: group, State: fleet.Running, Power: fleet.Up}}
		switch {
		case i < leaving:
			in.State, in.Removal = fleet.Draining, fleet.Removal{Reason: fleet.ReasonScaleDown}
		case i < leaving+onDemand:
			in.OnDemand = true
		}
		if err := l.opts.Cache.Insert(in); err != nil {
			l.a.t.Fatal(err)
		}
	}
}

// TestS12_QuotaOfMachines: what counts are the machines that a tenant has and those that it is
// to have, and another tenant's do not.
func TestS12_QuotaOfMachines(t *testing.T) {
	for name, c := range map[string]struct {
		live, leaving, onDemand, size int
		room                          int // for more
	}{
		"an empty shard":             {0, 0, 0, 0, 5},
		"machines that are wanted":   {0, 0, 0, 2, 3},
		"machines that are there":    {2, 0, 0, 2, 3},
		"more than are wanted":       {3, 0, 0, 2, 2},
		"some on their way out":      {2, 2, 0, 2, 1},
		"some on demand":             {1, 0, 2, 1, 2},
		"as many as there may be":    {2, 2, 1, 2, 0},
		"more than there may be now": {4, 4, 4, 4, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inArchive(t, func(t *testing.T, a *archive) {
				a.cfg = configured(t, `{"default": {}}`, `"default_quota": {"machines": 5},`)
				l := a.lead()
				l.scale(web, c.size)
				l.fill(web, c.live, c.leaving, c.onDemand)
				l.scale(theirs, 5)
				if err := l.tryScale(other, c.room+1); !refusedWith(err, refusal.ResourceExhausted) {
					t.Errorf("a group of %d: %v", c.room+1, err)
				}
				var releases []func()
				for n := range c.room + 1 {
					id, err := a.ids.NewID("vmx")
					if err != nil {
						t.Fatal(err)
					}
					release, err := l.ReserveInstance("default", id)
					if n < c.room && err != nil || n == c.room && !refusedWith(err, refusal.ResourceExhausted) {
						t.Errorf("instance %d on demand: %v", n, err)
					}
					if err == nil {
						releases = append(releases, release)
					}
				}
				for _, release := range releases {
					release()
				}
				if err := l.tryScale(other, c.room); err != nil {
					t.Errorf("a group of %d: %v", c.room, err)
				}
				l.scale(web, 0) // what does not grow is never refused
			})
		})
	}
}

// TestS12_AGroupThatIsBeingWrittenTakesRoom from the moment that its edit is taken, and not
// first when it is stored, and also where its caller does not wait for that; and no longer.
func TestS12_AGroupThatIsBeingWrittenTakesRoom(t *testing.T) {
	inArchive(t, func(t *testing.T, a *archive) {
		a.cfg = configured(t, `{"default": {}}`, `"default_quota": {"machines": 5},`)
		l := a.lead()
		l.scale(web, 1)
		id, err := a.ids.NewID("vmx")
		if err != nil {
			t.Fatal(err)
		}
		room := func() bool {
			release, err := l.ReserveInstance("default", id)
			if err == nil {
				release()
			}
			return err == nil
		}
		a.faults(memory.Fault{Latency: 2 * time.Second})
		waits := make(chan error, 2)
		go func() { waits <- l.tryScale(theirs, 1) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(l.ctx, time.Second)
		defer cancel()
		go func() {
			size := 5
			waits <- l.Upsert(ctx, web, requests.GroupChange{Size: &size}, nil) // it waits for the other one's write
		}()
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if err := <-waits; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("who gives up first: %v", err)
		}
		if room() {
			t.Error("there is room while the group grows")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		a.objects.SetFaults(nil)
		l.wantSizes(map[fleet.GroupID]int{web: 5, theirs: 1})
		if room() {
			t.Error("there is room after the group has grown")
		}
		l.scale(web, 1)
		if !room() {
			t.Error("there is no room when the group is small again")
		}
	})
}

// TestS20_StaticGroupThatLeavesIsUnlocked, whether a leader is told or finds it so, and is
// static again when it is back; what the API has set stays.
func TestS20_StaticGroupThatLeavesIsUnlocked(t *testing.T) {
	const static = `{"default": {"web": {"template": "plain", "size": 2, "drain_timeout": "5m", "vars": {"a": "1"}}}}`
	inArchive(t, func(t *testing.T, a *archive) {
		with, without := configured(t, static, ""), a.cfg
		a.cfg = with
		l := a.lead()
		if err := l.Upsert(l.ctx, web, requests.GroupChange{Size: new(int)}, nil); err != nil {
			t.Fatal(err)
		}
		for _, underALeader := range []bool{true, false} {
			for _, cfg := range []*effective.Config{without, with} {
				before, after := l.Preview(cfg)
				was, will := before[web], after[web]
				l.told()
				if a.cfg = cfg; underALeader {
					if _, err := l.Apply(l.ctx, cfg); err != nil {
						t.Fatal(err)
					}
				} else {
					l.end()
					l = a.lead()
				}
				g, _ := l.Find(web)
				if g.Static != (cfg == with) || l.Unlocked(web) != (cfg == without) || g.Size != 0 || g.DrainTimeout != 5*time.Minute || g.Vars["a"] != "1" {
					t.Errorf("under a leader %t, static %t: %+v", underALeader, cfg == with, g)
				}
				if was.Static == will.Static || will.ETag != g.ETag {
					t.Errorf("the preview says %+v, and it is %+v", will, g)
				}
				if told := l.told(); slices.Contains(told, "default/web unlocked") != (cfg == without) {
					t.Errorf("under a leader %t, static %t: told of %v", underALeader, cfg == with, told)
				}
			}
		}
		if entry, _ := a.file().Group("default", "web"); entry.Unlocked != nil || entry.Template != "" || len(entry.Vars) != 0 {
			t.Errorf("what was written when it left is still there: %+v", entry)
		}
	})
}

// TestS20_SwitchOfModeByTheAPIKeepsTheMachines: a dynamic group of mode demand that is given a fixed size has as
// many machines as there are, unless the request says how many.
func TestS20_SwitchOfModeByTheAPIKeepsTheMachines(t *testing.T) {
	inArchive(t, func(t *testing.T, a *archive) {
		l := a.lead()
		four := 4
		dynamic := fleet.GroupID{Tenant: "default", Name: "batch"}
		l.fill(dynamic, 5, 1, 1)
		for i, step := range []struct {
			change requests.GroupChange
			demand bool
			size   int
		}{
			{requests.GroupChange{Template: "plain", Mode: document.ModeDemand}, true, 0},
			{requests.GroupChange{Mode: document.ModeFixed}, false, 5},
			{requests.GroupChange{Mode: document.ModeDemand}, true, 0},
			{requests.GroupChange{Mode: document.ModeFixed, Size: &four}, false, 4},
			{requests.GroupChange{Mode: document.ModeFixed}, false, 4}, // it is one: nothing changes
		} {
			if err := l.Upsert(l.ctx, dynamic, step.change, nil); err != nil {
				t.Fatalf("step %d: %v", i, err)
			}
			if g, _ := l.Find(dynamic); (g.Demand != nil) != step.demand || g.Size != step.size {
				t.Errorf("step %d: demand %t, size %d, want %t and %d", i, g.Demand != nil, g.Size, step.demand, step.size)
			}
		}
	})
}

// TestS20_SwitchOfModeKeepsTheMachines: a static group that was of mode demand has as many machines
// as there are, unless the configuration says how many, and what the API had set before does not
// come back.
func TestS20_SwitchOfModeKeepsTheMachines(t *testing.T) {
	const (
		fixed  = `{"default": {"web": {"template": "plain", "size": 2}}}`
		sized  = `{"default": {"web": {"template": "plain", "size": 4}}}`
		demand = `{"default": {"web": {"template": "plain", "mode": "demand"}}}`
		bare   = `{"default": {"web": {"template": "plain"}}}`
	)
	inArchive(t, func(t *testing.T, a *archive) {
		a.cfg = configured(t, fixed, "")
		l := a.lead()
		eight := 8
		if err := l.Upsert(l.ctx, web, requests.GroupChange{Size: &eight}, nil); err != nil {
			t.Fatal(err)
		}
		l.fill(web, 5, 1, 1)
		for i, step := range []struct {
			groups string
			demand bool
			size   int
		}{{demand, true, 0}, {bare, false, 5}, {demand, true, 0}, {sized, false, 4}} {
			cfg := configured(t, step.groups, "")
			_, after := l.Preview(cfg)
			if _, err := l.Apply(l.ctx, cfg); err != nil {
				t.Fatal(err)
			}
			g, _ := l.Find(web)
			if (g.Demand != nil) != step.demand || g.Size != step.size || l.Group(web).Demand != step.demand || after[web].ETag != g.ETag {
				t.Errorf("under %s: %+v", step.groups, g)
			}
			if err := l.Upsert(l.ctx, web, requests.GroupChange{Size: &eight}, nil); step.demand && !refusedAs(err, "GROUP_IS_DEMAND") {
				t.Errorf("a size of a demand group: %v", err)
			} else if !step.demand && err != nil {
				t.Error(err)
			}
			if err := l.Retire(l.ctx, web, identity.ID(fmt.Sprintf("vmx0000000000000000000000%d", i)), false); step.demand && !refusedAs(err, "GROUP_IS_DEMAND") {
				t.Errorf("one machine less in a demand group: %v", err)
			}
		}
	})
}

func refusedAs(err error, reason string) bool {
	var refused *refusal.Error
	return errors.As(err, &refused) && refused.Reason == reason
}
