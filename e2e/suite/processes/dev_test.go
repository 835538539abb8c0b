package processes_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"nstance.dev/e2e/env/box"
)

// The whole of what a user sees first: one command, three machines.
func TestDev_ThreeMachinesRun(t *testing.T) {
	b := box.New(t)
	p := b.Dev(3)
	b.Await("three machines run", func() error { return b.Settled("web", 3, time.Time{}) })

	for _, m := range b.Machines() {
		if pid := b.PID(m.ID); pid != m.PID {
			t.Errorf("the pid file of %s says %d", m, pid)
		}
	}
	if !strings.Contains(p.Output(), "export NSTANCE_ADMIN_CONTEXT="+b.Path("admin.json")) {
		t.Errorf("dev does not say how to use the command line:\n%s", p.Output())
	}
	checkInstances(t, b)
	checkGroups(t, b)
	if code := p.Stop(t); code != 0 {
		t.Errorf("SIGTERM: exit code %d", code)
	}
	if left := b.Machines(); len(left) > 0 {
		t.Errorf("machines run on after SIGTERM: %v", left)
	}
	if ids := b.RecordIDs(); len(ids) != 3 {
		t.Errorf("%d records after SIGTERM, not 3", len(ids))
	}
	if _, err := os.Stat(b.Path("admin.json")); err == nil {
		t.Error("admin.json stays when the shard is not served any more")
	}
}

func checkInstances(t *testing.T, b *box.Box) {
	t.Helper()
	list := b.AdminList("instance", "list")
	if len(list) != 3 {
		t.Fatalf("instance list: %d elements, not 3", len(list))
	}
	ids := b.RecordIDs()
	for _, i := range list {
		id, _ := i["instance_id"].(string)
		if !slices.Contains(ids, id) || i["group"] != "web" || i["tenant"] != "default" || i["status"] != "running" || i["on_demand"] != false {
			t.Errorf("instance list: %v", i)
		}
		created, _ := i["created_at"].(string)
		if at, err := time.Parse(time.RFC3339, created); err != nil || time.Since(at) > time.Hour {
			t.Errorf("instance list: created_at is %q", created)
		}
	}
	for name, want := range map[string]int{"table": 4, "wide": 4, "name": 3, "yaml": 0} {
		lines := strings.Split(strings.TrimSpace(b.AdminOK("instance", "list", "-o", name).Out), "\n")
		if want > 0 && len(lines) != want {
			t.Errorf("instance list -o %s: %d lines, not %d", name, len(lines), want)
		}
	}
}

func checkGroups(t *testing.T, b *box.Box) {
	t.Helper()
	list := b.AdminList("group", "list")
	want := map[string]any{"key": "web", "tenant": "default", "size": 3.0, "actual_size": 3.0, "is_static": true}
	if len(list) != 1 {
		t.Fatalf("group list: %d elements, not 1", len(list))
	}
	for field, value := range want {
		if list[0][field] != value {
			t.Errorf("group list: %s is %v, not %v", field, list[0][field], value)
		}
	}
}

func TestDev_SecondStartGoesOnWithTheSameMachines(t *testing.T) {
	b, p := up(t, 3)
	ids := b.RecordIDs()
	p.Signal(syscall.SIGINT) // Ctrl-C
	if code := p.Exit(t); code != 0 {
		t.Errorf("SIGINT: exit code %d", code)
	}
	if left := b.Machines(); len(left) > 0 {
		t.Errorf("machines run on after SIGINT: %v", left)
	}

	// --size counts only while the directory is new.
	seen := b.Watch()
	again := b.Dev(5)
	b.Await("the same three machines run", func() error { return b.Settled("web", 3, again.Started) })
	b.Audited(2)
	if changes := seen().Changes; len(changes) > 0 {
		t.Errorf("machines came or went: %v", changes)
	}
	if now := b.RecordIDs(); !slices.Equal(now, ids) {
		t.Errorf("machines are %v, were %v", now, ids)
	}
}

func TestDev_KeepLeavesTheMachinesRunning(t *testing.T) {
	b, p := up(t, 2, "--keep")
	before := b.Machines()
	if code := p.Stop(t); code != 0 {
		t.Errorf("SIGTERM: exit code %d", code)
	}
	if left := b.Machines(); !slices.Equal(left, before) {
		t.Errorf("machines are %v, were %v", left, before)
	}
	again := b.Dev(0)
	b.Await("the agents are back", func() error { return b.Settled("web", 2, again.Started) })
	if now := b.Machines(); !slices.Equal(now, before) {
		t.Errorf("machines are %v, were %v", now, before)
	}
}

func TestF18_SecondDevOnTheSameDirectoryRefuses(t *testing.T) {
	b, p := up(t, 1)
	second := b.Dev(1)
	if code := second.Exit(t); code != 1 {
		t.Errorf("exit code %d, not 1", code)
	}
	if out := second.Output(); !strings.Contains(out, b.Dir) || !strings.Contains(out, "in use by another process") {
		t.Errorf("the message does not say what is wrong: %s", out)
	}
	if p.Ended() {
		t.Error("the first one has ended")
	}
	if err := b.Settled("web", 1, time.Time{}); err != nil {
		t.Errorf("the first one is not what it was: %v", err)
	}
}

// A context file must be whole whenever it is there.
func TestDev_ContextIsValidFromTheFirstMoment(t *testing.T) {
	b := box.New(t)
	b.Dev(0)
	b.Await("admin.json is there", func() error {
		_, err := os.Stat(b.Path("admin.json"))
		return err
	})
	data, err := os.ReadFile(b.Path("admin.json"))
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(data) {
		t.Errorf("admin.json is no JSON: %s", data)
	}
	b.AdminOK("group", "list") // at once: the shard serves before the file appears
}
