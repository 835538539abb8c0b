package shard

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"nstance.dev/server/config"
	"nstance.dev/server/config/document"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/explain"
	"nstance.dev/server/groups"
)

// leavings is a shard with a static group, whose drains take five minutes, and with
// the defaults of the server another time.
func leavings(groups string) worldOptions {
	return worldOptions{
		Drain: "1m", Groups: groups,
		Files:        `{"key": {"kind": "certificate", "template": "service", "key": {"source": "agent", "name": "k.pub"}}}`,
		Certificates: `{"service": {"kind": "server", "cn": "x"}}`,
	}
}

const staticWeb = `{"default": {"web": {"template": "plain", "size": 12, "drain_timeout": "5m", "vars": {"a": "1"}}}}`

// TestS20_StaticGroupThatLeavesIsUnlocked: no machine goes because a group has left
// the configuration, whether a leader was told or finds it so; it ends when it is
// deleted, drained with its own time-out.
func TestS20_StaticGroupThatLeavesIsUnlocked(t *testing.T) {
	for name, leave := range map[string]func(*world){
		"under a leader": func(w *world) { w.reconfigure(leavings("")) },
		"between two leaders": func(w *world) {
			w.stop()
			w.static = config.Version{Config: testConfig(w.t, leavings("")), ETag: "new"}
			w.lead()
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, leavings(staticWeb), func(t *testing.T, w *world) {
				w.coordinate("default")
				w.settle(2 * time.Minute)
				before := w.vms(web)
				leave(w)
				w.settle(time.Hour)
				w.same(before)
				g := w.group(web)
				if g.Static || g.Size != 12 || g.Vars["a"] != "1" || g.DrainTimeout != 5*time.Minute {
					t.Errorf("unlocked as %v", g)
				}
				if !slices.ContainsFunc(g.Conditions, func(c explain.Condition) bool {
					return c.Type == "unlocked" && strings.Contains(c.Message, "group delete web")
				}) {
					t.Errorf("no condition says so: %v", g.Conditions)
				}
				if !strings.Contains(w.logs.String(), "static group left the configuration and became dynamic") {
					t.Error("nothing in the log says so")
				}
				w.stop()
				w.lead()
				w.coordinate("default")
				w.settle(time.Hour)
				w.same(before)
				if err := w.term().requests.DeleteGroup(w.ctx, "default", "web", groups.Manager{}); err != nil {
					t.Fatal(err)
				}
				w.settle(4 * time.Minute)
				if n := len(w.vms(web)); n != 12 {
					t.Errorf("%d machines are left before the drain is over, want 12", n)
				}
				w.settle(time.Hour)
				w.converged(0)
			})
		})
	}
}

// TestS24_UnlockedWithDeepArguments: what the configuration may have, the group file
// can have, too.
func TestS24_UnlockedWithDeepArguments(t *testing.T) {
	deep := strings.Repeat("[", 58) + strings.Repeat("]", 58)
	inWorld(t, worldOptions{Groups: `{"default": {"web": {"template": "plain", "size": 1, "args": {"k": ` + deep + `}}}}`}, func(t *testing.T, w *world) {
		w.settle(time.Minute)
		before := w.vms(web)
		w.reconfigure(worldOptions{})
		w.settle(time.Minute)
		w.stop()
		w.lead()
		w.settle(time.Hour)
		w.same(before)
		if entry, ok := w.groupFile().Group("default", "web"); !ok || len(entry.Args) != 1 {
			t.Errorf("the entry is %+v, %v", entry, ok)
		}
	})
}

// TestPlanSaysThatAGroupIsUnlocked, and an event does when it is.
func TestPlanSaysThatAGroupIsUnlocked(t *testing.T) {
	inWorld(t, leavings(staticWeb), func(t *testing.T, w *world) {
		w.settle(2 * time.Minute)
		plan := w.term().requests.PlanConfig(testConfig(t, leavings("")))
		if len(plan.Groups) != 1 || plan.Groups[0].Deletes+plan.Groups[0].Rotations+plan.Groups[0].Creates != 0 || !slices.Contains(plan.Groups[0].Causes, "static") {
			t.Errorf("planned: %v, want one group that is unlocked and nothing else", plan.Groups)
		}
		if !slices.ContainsFunc(plan.Warnings, func(s string) bool {
			return strings.Contains(s, "default/web") && strings.Contains(s, "group delete web")
		}) {
			t.Errorf("warnings: %v", plan.Warnings)
		}
		w.reconfigure(leavings(""))
		w.settle(time.Second)
		if !strings.Contains(fmt.Sprint(w.term().planner.cache.Errors("default")), "unlocked") {
			t.Errorf("no event says so: %v", w.term().planner.cache.Errors("default"))
		}
	})
}

// TestS20_TemplateIsGone: a group whose template has left the configuration is blocked;
// its machines, those on demand too, keep files and certificates, and drain as before.
func TestS20_TemplateIsGone(t *testing.T) {
	inWorld(t, leavings(""), func(t *testing.T, w *world) {
		w.coordinate("default")
		w.scale(web, 2)
		onDemand, err := w.term().requests.CreateInstance(w.ctx, "default", InstanceRequest{Group: "web"})
		if err != nil {
			t.Fatal(err)
		}
		w.settle(2 * time.Minute)
		before := w.vms(web)
		cfg := *testConfig(t, leavings(""))
		cfg.Templates = map[string]document.Template{"bare": cfg.Templates["bare"]}
		cfg.Certificates = nil
		if err := w.shard().Apply(w.ctx, config.Version{Config: &cfg, ETag: "without"}); err != nil {
			t.Fatal(err)
		}
		w.settle(time.Hour)
		w.same(before)
		w.described(before)
		w.stop()
		w.static = config.Version{Config: &cfg, ETag: "without"}
		w.lead()
		w.settle(time.Hour)
		w.same(before)
		w.described(before)
		w.coordinate("default")
		begun := time.Now()
		if _, err := w.term().requests.DeleteInstance(w.ctx, "default", RemovalRequest{ID: onDemand.ID.String()}); err != nil {
			t.Fatal(err)
		}
		took := w.until(func() bool { return len(w.vms(web)) == 2 }).Sub(begun)
		if took < time.Minute || took > 2*time.Minute {
			t.Errorf("a machine on demand goes after %v, want the drain of 1m", took)
		}
	})
}

// described checks that each machine is to have the file and the certificate of [leavings].
func (w *world) described(vms []drivertest.VM) {
	w.t.Helper()
	for _, vm := range vms {
		m, ok := w.term().describeFiles(vm.InstanceID)
		if !ok || m.Config.Files["key"].Kind == "" || m.Certificates["service"].CN != "x" {
			w.t.Errorf("%s is to have %v, %v", vm.InstanceID, m, ok)
		}
	}
}

// TestS20_TemplateGoesWhileNobodyLeads: the next leader knows it all the same, and so does
// the one after that.
func TestS20_TemplateGoesWhileNobodyLeads(t *testing.T) {
	cases := []struct {
		name, groups string
		deleted      bool // the group, before: a machine on demand is left of it
	}{
		{"of a dynamic group", "", false},
		{"of a static group, which goes with it", staticWeb, false},
		{"of a group that is gone", "", true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, leavings(c.groups), func(t *testing.T, w *world) {
				if c.groups == "" {
					w.scale(web, 2)
				}
				if _, err := w.term().requests.CreateInstance(w.ctx, "default", InstanceRequest{Group: "web"}); err != nil {
					t.Fatal(err)
				}
				w.settle(5 * time.Minute)
				if c.deleted {
					if err := w.term().requests.DeleteGroup(w.ctx, "default", "web", groups.Manager{}); err != nil {
						t.Fatal(err)
					}
					w.settle(time.Hour)
					w.converged(1)
				}
				before := w.vms(web)
				w.stop()
				cfg := *testConfig(t, leavings(""))
				cfg.Templates = map[string]document.Template{"bare": cfg.Templates["bare"]}
				cfg.Certificates = nil
				w.static = config.Version{Config: &cfg, ETag: "without"}
				for range 2 {
					w.lead()
					w.settle(time.Hour)
					w.same(before)
					w.described(before)
					w.stop()
				}
				w.static = config.Version{Config: testConfig(t, leavings("")), ETag: "again"}
				w.lead()
				w.settle(time.Hour)
				w.same(before)
				w.described(before)
			})
		})
	}
}

// TestS20_MachineOnDemandOutlivesItsGroup: it keeps its files, and its drain takes as
// long as that of its group did.
func TestS20_MachineOnDemandOutlivesItsGroup(t *testing.T) {
	inWorld(t, leavings(staticWeb), func(t *testing.T, w *world) {
		w.coordinate("default")
		res, err := w.term().requests.CreateInstance(w.ctx, "default", InstanceRequest{Group: "web"})
		if err != nil {
			t.Fatal(err)
		}
		w.settle(2 * time.Minute)
		w.reconfigure(leavings(""))
		if err := w.term().requests.DeleteGroup(w.ctx, "default", "web", groups.Manager{}); err != nil {
			t.Fatal(err)
		}
		w.settle(time.Hour)
		w.converged(1)
		if _, ok := w.term().planner.groups.Find(web); ok {
			t.Error("the group is not gone")
		}
		w.stop()
		w.lead()
		w.coordinate("default")
		w.settle(2 * time.Minute)
		if m, ok := w.term().describeFiles(res.ID); !ok || m.Config.Files["key"].Kind == "" {
			t.Errorf("it is to have %v, %v", m, ok)
		}
		begun := time.Now()
		if _, err := w.term().requests.DeleteInstance(w.ctx, "default", RemovalRequest{ID: res.ID.String()}); err != nil {
			t.Fatal(err)
		}
		if took := w.until(func() bool { return len(w.vms(web)) == 0 }).Sub(begun); took < 5*time.Minute || took > 6*time.Minute {
			t.Errorf("it goes after %v, want its group's drain of 5m", took)
		}
	})
}

// until waits at most an hour for something and returns when it was so.
func (w *world) until(so func() bool) time.Time {
	w.t.Helper()
	for range 3600 {
		w.settle(time.Second)
		if so() {
			break
		}
	}
	return time.Now()
}
