//go:build tofu

package tofu_test

import (
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"nstance.dev/e2e/env/box"
)

const (
	lease     = 5 * time.Second
	groups    = "nstance_group"
	instances = "nstance_instance"
)

// up returns a shard with one group of the configuration and a provider for it.
func up(t *testing.T) (*box.Box, *engine) {
	t.Helper()
	b := box.New(t)
	b.Configure(1, lease)
	b.Dev(1)
	b.Await("the cluster is up", func() error { return b.Settled("web", 1, time.Time{}) })
	return b, use(t, object{"context": b.ContextPath()})
}

// template is that of the shard's own group.
func template(t *testing.T, e *engine) string {
	t.Helper()
	v, text := e.look(groups, object{"key": "web"})
	if text != "" {
		t.Fatal(text)
	}
	return text1(t, v, "template")
}

// text1 is an attribute that is a text.
func text1(t *testing.T, v tftypes.Value, name string) string {
	t.Helper()
	var s string
	if err := attributes(t, v)[name].As(&s); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return s
}

// TestGroup: a group is made, changed in place, imported and deleted; what another client changes
// is seen and set right.
func TestGroup(t *testing.T) {
	b, e := up(t)
	config := object{"key": "app", "template": template(t, e), "size": 2, "vars": object{"region": "eu"}}
	state := e.make(groups, e.none(groups), config)
	if id := text1(t, state, "id"); id != box.Shard+"/app" {
		t.Errorf("the id is %s", id)
	}
	if v, text := e.look(groups, object{"key": "app"}); text != "" || !attributes(t, v)["actual_size"].Equal(tftypes.NewValue(tftypes.Number, 2)) {
		t.Errorf("the apply has ended, and the group is %v %s", v, text)
	}
	e.settled(groups, state, config)

	before := b.RecordIDs()
	config["size"], config["vars"] = 1, object{"region": "us"}
	p, text := e.plan(groups, state, config)
	if text != "" || p.replaces {
		t.Fatalf("plan of a change in place: %s, replaces %v", text, p.replaces)
	}
	if state, text = e.apply(groups, p); text != "" {
		t.Fatal(text)
	}
	if now := b.RecordIDs(); len(now) > len(before) {
		t.Errorf("the change made machines: %v, before %v", now, before)
	}
	e.settled(groups, state, config)

	b.AdminOK("group", "scale", "app", "2", "--yes")
	drifted := e.refresh(groups, state)
	if p, text = e.plan(groups, drifted, config); text != "" || !p.changes {
		t.Fatalf("plan after another client's change: %s, changes %v", text, p.changes)
	}
	if state, text = e.apply(groups, p); text != "" {
		t.Fatal(text)
	}
	if g := attributes(t, e.refresh(groups, state)); !g["size"].Equal(tftypes.NewValue(tftypes.Number, 1)) {
		t.Errorf("the size after the repair is %v", g["size"])
	}

	imported := e.adopt(groups, box.Shard+"/app")
	if p, text = e.plan(groups, imported, config); text != "" || p.changes {
		difference, _ := p.after.Diff(imported)
		t.Errorf("plan after the import: %s, changes %v", text, difference)
	}

	if _, text = e.plan(groups, e.none(groups), config); !strings.Contains(text, "tofu import") || !strings.Contains(text, `"key"`) {
		t.Errorf("a group that exists already: %s", text)
	}

	end, text := e.plan(groups, state, nil)
	if text != "" {
		t.Fatal(text)
	}
	if _, text = e.apply(groups, end); text != "" {
		t.Fatal(text)
	}
	if _, text = e.look(groups, object{"key": "app"}); !strings.Contains(text, `group "app" does not exist`) {
		t.Errorf("after the delete: %q", text)
	}
}

// TestGroupThatIsGone: a group that another client has deleted is missing for a plan.
func TestGroupThatIsGone(t *testing.T) {
	b, e := up(t)
	config := object{"key": "app", "template": template(t, e), "size": 0}
	state := e.make(groups, e.none(groups), config)
	b.AdminOK("group", "delete", "app", "--yes", "--wait")
	if gone := e.refresh(groups, state); !gone.IsNull() {
		t.Fatalf("a group that is gone is read as %v", gone)
	}
	e.settled(groups, e.make(groups, e.none(groups), config), config)
}

// TestArgsAfterAnImport: a server does not tell the args of a group. The first plan after an import shows those of the
// configuration as added, and nothing else; the plan after its apply is empty. The group has no machines: those of the
// local provider take no args.
func TestArgsAfterAnImport(t *testing.T) {
	_, e := up(t)
	config := object{"key": "app", "template": template(t, e), "size": 0, "args": object{"Tier": "gold"}}
	e.make(groups, e.none(groups), config)

	imported := e.adopt(groups, box.Shard+"/app")
	if args := attributes(t, imported)["args"]; !args.IsNull() {
		t.Errorf("after the import the args are %v", args)
	}
	p, text := e.plan(groups, imported, config)
	if text != "" || !p.changes || p.replaces {
		t.Fatalf("plan after the import: %s, changes %v, replaces %v", text, p.changes, p.replaces)
	}
	differences, err := p.after.Diff(imported)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range differences {
		if !strings.HasPrefix(d.Path.String(), `AttributeName("args")`) {
			t.Errorf("the plan after the import changes %v", d)
		}
	}
	state, text := e.apply(groups, p)
	if text != "" {
		t.Fatal(text)
	}
	e.settled(groups, state, config)
}

// TestSizeOfOthers: a size that the configuration leaves out belongs to whoever sets it.
func TestSizeOfOthers(t *testing.T) {
	b, e := up(t)
	config := object{"key": "app", "template": template(t, e), "wait": false}
	state := e.make(groups, e.none(groups), config)
	b.AdminOK("group", "scale", "app", "1", "--yes")
	e.settled(groups, e.refresh(groups, state), config)
}

// TestInvalidInput: what the server would refuse shows in the plan, at its attribute.
func TestInvalidInput(t *testing.T) {
	_, e := up(t)
	base := template(t, e)
	for _, c := range []struct {
		name      string
		config    object
		attribute string
		text      string
	}{
		{"a template that does not exist", object{"key": "app", "template": "none"}, `"template"`, "none"},
		{"a size that is too large", object{"key": "app", "template": base, "size": 100000}, `"size"`, "100000"},
		{"a size below zero", object{"key": "app", "template": base, "size": -1}, `"size"`, "-1"},
		{"a subnet pool that does not exist", object{"key": "app", "template": base, "subnet_pool": "none"}, `"subnet_pool"`, "none"},
		{"a load balancer that does not exist", object{"key": "app", "template": base, "load_balancers": []any{"none"}}, `"load_balancers"`, "none"},
		{"a mode that does not exist", object{"key": "app", "template": base, "mode": "none"}, `"mode"`, "fixed, demand"},
		{"a size with mode demand", object{"key": "app", "template": base, "mode": "demand", "size": 1}, `"size"`, "no size"},
		{"demand without its mode", object{"key": "app", "template": base, "demand": object{"max": 1}}, `"demand"`, "mode"},
		{"a span that is none", object{"key": "app", "template": base, "mode": "demand", "demand": object{"release_hold": "soon"}}, `"release_hold"`, "soon"},
		{"a time-out that is none", object{"key": "app", "template": base, "timeout": "soon"}, `"timeout"`, "soon"},
	} {
		_, text := e.plan(groups, e.none(groups), c.config)
		if !strings.Contains(text, c.attribute) || !strings.Contains(text, c.text) {
			t.Errorf("%s: %q, want %s about %s", c.name, text, c.text, c.attribute)
		}
	}
	if v, text := e.look("nstance_groups", nil); text != "" || strings.Contains(v.String(), "app") {
		t.Errorf("after plans alone there are the groups %v %s", v, text)
	}
}

// TestDemandGroup: a group of mode demand with its settings, changed and imported.
func TestDemandGroup(t *testing.T) {
	_, e := up(t)
	config := object{
		"key": "app", "template": template(t, e), "mode": "demand",
		"demand": object{"max": 3, "release_hold": "90s", "capacity_types": []any{"on-demand"}},
		"node":   object{"labels": object{"pool": "app"}, "taints": []any{object{"key": "dedicated", "value": "", "effect": "NoSchedule"}}},
	}
	state := e.make(groups, e.none(groups), config)
	e.settled(groups, state, config)
	config["demand"] = object{"max": 2}
	delete(config, "node")
	state = e.make(groups, state, config)
	e.settled(groups, state, config)
	if p, text := e.plan(groups, e.adopt(groups, "app"), config); text != "" || p.changes {
		t.Errorf("plan after the import: %s, changes %v", text, p.changes)
	}
	config["mode"], config["size"] = "fixed", 0
	delete(config, "demand")
	e.settled(groups, e.make(groups, state, config), config)
}

// TestInstance: an on-demand instance is made, imported and deleted; one that another client
// deletes is missing for a plan.
func TestInstance(t *testing.T) {
	b, e := up(t)
	config := object{"group": "web", "vars": object{"role": "canary"}, "skip_drain": true}
	state := e.make(instances, e.none(instances), config)
	id := text1(t, state, "id")
	if p, text := e.plan(instances, e.refresh(instances, state), config); text != "" || p.changes {
		t.Errorf("another plan: %s, changes %v", text, p.changes)
	}
	if imported := e.adopt(instances, box.Shard+"/"+id); text1(t, imported, "group") != "web" {
		t.Errorf("imported: %v", imported)
	}
	config["vars"] = object{"role": "other"}
	if p, text := e.plan(instances, state, config); text != "" || !p.replaces {
		t.Errorf("plan with other vars: %s, replaces %v", text, p.replaces)
	}
	v, text := e.look("nstance_instances", object{"group": "web"})
	if text != "" || !strings.Contains(v.String(), id) {
		t.Errorf("the data source lacks %s: %v %s", id, v, text)
	}

	b.AdminOK("instance", "delete", id, "--yes", "--wait")
	if gone := e.refresh(instances, state); !gone.IsNull() {
		t.Errorf("an instance that is gone is read as %v", gone)
	}
	state = e.make(instances, e.none(instances), config)
	end, text := e.plan(instances, state, nil)
	if text != "" {
		t.Fatal(text)
	}
	if _, text = e.apply(instances, end); text != "" {
		t.Fatal(text)
	}
	if _, text := e.plan(instances, e.none(instances), object{"group": "none", "timeout": "x"}); !strings.Contains(text, `"timeout"`) {
		t.Errorf("a time-out that is none: %s", text)
	}
	p, _ := e.plan(instances, e.none(instances), object{"group": "none"})
	if _, text := e.apply(instances, p); !strings.Contains(text, `"group"`) || !strings.Contains(text, "does not exist") {
		t.Errorf("a group that does not exist: %s", text)
	}
}

// TestStaticGroup: of a group of the configuration the API's part alone is the resource's.
func TestStaticGroup(t *testing.T) {
	b, e := up(t)
	config := object{"key": "web", "template": template(t, e), "size": 2}
	state := e.make(groups, e.adopt(groups, "web"), config)
	e.settled(groups, state, config)
	end, text := e.plan(groups, state, nil)
	if text != "" {
		t.Fatal(text)
	}
	if _, text = e.apply(groups, end); text != "" {
		t.Fatal(text)
	}
	b.Await("the group is again as the configuration says", func() error { return b.Settled("web", 1, time.Time{}) })
}

// TestShard: the data source says who leads.
func TestShard(t *testing.T) {
	_, e := up(t)
	v, text := e.look("nstance_shard", nil)
	if text != "" || text1(t, v, "cluster_id") != box.Cluster || text1(t, v, "shard") != box.Shard || !strings.Contains(v.String(), "check-group") {
		t.Errorf("%v %s", v, text)
	}
}
