package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"nstance.dev/admin/cli"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func TestPauseAndResume(t *testing.T) {
	c := newConsole(t)
	if got := c.ok(t, "pause", "group", "web", "--reason", "moving house"); got != "group web: paused until it is resumed\n" {
		t.Errorf("pause printed %q", got)
	}
	if got := c.ok(t, "group", "list", "-o", "wide"); !strings.Contains(got, "paused until it is resumed: moving house") {
		t.Errorf("the list does not show the pause:\n%s", got)
	}
	if got := c.ok(t, "resume", "group", "web"); got != "group web: resumed\n" {
		t.Errorf("resume printed %q", got)
	}
	if got := c.ok(t, "pause", "shard", "--reason", "r", "--for", "2h"); !strings.HasPrefix(got, "shard: paused until 2026-05-06T07:") {
		t.Errorf("pause printed %q", got)
	}
	if got := c.fails(t, cli.ExitFailed, "pause", "group", "nope", "--reason", "r"); !strings.Contains(got, `group "nope" not found`) {
		t.Errorf("unknown group: %q", got)
	}
	for _, args := range [][]string{
		{"pause"}, {"pause", "group", "--reason", "r"}, {"pause", "world", "--reason", "r"}, {"pause", "tenant", "web", "--reason", "r"},
		{"pause", "tenant"}, {"pause", "tenant", "--reason", "r", "--for", "-1s"}, {"resume", "shard", "web"},
	} {
		c.fails(t, cli.ExitUsage, args...)
	}
}

func TestGroupConfirm(t *testing.T) {
	c := newConsole(t)
	if got := c.ok(t, "group", "confirm"); got != "no group waits to be confirmed\n" {
		t.Errorf("confirm printed %q", got)
	}
	for _, key := range []string{"lost-a", "lost-b"} {
		c.local.AddGroup(&nstancev1.GroupStatus{Key: key, Rebuilt: true})
	}
	if got := c.ok(t, "group", "list", "-o", "wide"); strings.Count(got, "waits to be confirmed") != 2 {
		t.Errorf("the list does not show which groups wait:\n%s", got)
	}
	if got := c.ok(t, "group", "confirm", "lost-b"); got != "confirmed: lost-b\n" {
		t.Errorf("confirm printed %q", got)
	}
	if got := c.ok(t, "group", "confirm", "--tenant", "other"); got != "no group waits to be confirmed\n" {
		t.Errorf("for another tenant confirm printed %q", got)
	}
	if got := c.ok(t, "group", "confirm"); got != "confirmed: lost-a\n" {
		t.Errorf("confirm printed %q", got)
	}
}

func TestExplainAndDescribe(t *testing.T) {
	c := newConsole(t)
	id := strings.Fields(c.ok(t, "instance", "list", "-o", "name"))[0]
	for name, args := range map[string][]string{
		"explain-group.txt":    {"explain", "group", "web"},
		"explain-group.json":   {"explain", "group", "web", "-o", "json"},
		"explain-instance.txt": {"explain", "instance", id, "--last", "1"},
		"describe.txt":         {"describe"},

		"describe-instance.txt": {"instance", "describe", id},
		"describe-shard.txt":    {"shard", "describe"},
	} {
		c := newConsole(t)
		golden(t, name, regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllString(c.ok(t, args...), "127.0.0.1:8993"))
	}
	if got := c.fails(t, cli.ExitFailed, "describe", "nope", "web"); !strings.Contains(got, "not found") || !strings.Contains(c.out.String(), "group web:") {
		t.Errorf("one group is unknown: errors %q, output %q", got, c.out.String())
	}
}

func TestPlan(t *testing.T) {
	c := newConsole(t)
	good := filepath.Join(t.TempDir(), "good.jsonc")
	if err := os.WriteFile(good, []byte(shardConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	golden(t, "plan.txt", c.ok(t, "plan", good))
	if got := c.err.String(); !strings.Contains(got, "warning: server.provider differs") {
		t.Errorf("remarks: %q", got)
	}
	c.in = "{\n  \"servre\": {}\n}"
	if got := c.fails(t, cli.ExitFailed, "plan", "-"); !strings.Contains(got, "standard input:2:3: ") {
		t.Errorf("a bad file: %q", got)
	}
	if calls := c.local.Calls(); strings.Count(strings.Join(calls, " "), "PlanConfig") != 1 {
		t.Errorf("a bad file was sent: %q", calls)
	}
}

func TestEvents(t *testing.T) {
	c := newConsole(t)
	w := c.watch(t, "events", "-o", "json")
	w.await(t, 1)
	c.local.AddGroup(&nstancev1.GroupStatus{Key: "db", Kind: "dbx", Size: 1})
	lines := w.await(t, 2)
	w.stop(t)
	var first struct {
		Time  time.Time
		Kind  string
		Event struct{ Group struct{ Key string } }
	}
	if err := json.Unmarshal([]byte(lines[0]), &first); err != nil || first.Kind != "group" || first.Event.Group.Key != "web" || first.Time.IsZero() {
		t.Errorf("first line %q: %v", lines[0], err)
	}
	c.fails(t, cli.ExitUsage, "events", "-o", "yaml")
}

func TestTop(t *testing.T) {
	c := newConsole(t)
	_, table, _ := strings.Cut(c.ok(t, "top", "--rounds", "2", "--interval", "100ms"), "\n")
	golden(t, "top.txt", table)
	c.fails(t, cli.ExitUsage, "top", "--interval", "1ms")
}

// TestGroupsOfModeDemandHaveNoSize: none is printed, and none is missing.
func TestGroupsOfModeDemandHaveNoSize(t *testing.T) {
	c := newConsole(t)
	c.local.AddGroup(&nstancev1.GroupStatus{Key: "pods", Tenant: "default", Template: "worker", Kind: "knc", Mode: "demand"})
	if got := c.ok(t, "group", "list"); !regexp.MustCompile(`(?m)^pods +worker +demand +`).MatchString(got) {
		t.Errorf("the list is\n%s", got)
	}
	if got := c.ok(t, "top", "--rounds", "1"); !regexp.MustCompile(`(?m)^pods +demand +`).MatchString(got) {
		t.Errorf("top is\n%s", got)
	}
	if got := c.ok(t, "describe", "pods"); !strings.Contains(got, "group pods: template worker, size demand, ") {
		t.Errorf("the description is\n%s", got)
	}
}

func TestReplaceIsDeleteWithTheReplacementFirst(t *testing.T) {
	c := newConsole(t)
	id := strings.Fields(c.ok(t, "instance", "list", "-o", "name"))[0]
	if got := c.ok(t, "instance", "replace", id); got != "instance "+id+": being replaced\n" {
		t.Errorf("replace printed %q", got)
	}
}
