package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nstance.dev/admin/cli"
)

// withContexts gives the console a configuration file with a context for each of
// its shards, instead of variables.
func (c *console) withContexts(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "admin.yaml")
	local, other, _ := strings.Cut(c.env["NSTANCE_ADMIN_SERVERS"], ",")
	text := "contexts:\n"
	for name, servers := range map[string]string{"here": local, "there": other} {
		shard, address, _ := strings.Cut(servers, "=")
		text += "  " + name + ": {cluster_id: test, identity_dir: " + c.env["NSTANCE_ADMIN_IDENTITY_DIR"] + ", servers: {" + shard + ": \"" + address + "\"}}\n"
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c.env = map[string]string{"NSTANCE_ADMIN_CONFIG": path}
	return path
}

func TestContextsByName(t *testing.T) {
	c := newConsole(t)
	path := c.withContexts(t)
	if got := c.fails(t, cli.ExitFailed, "config", "current-context"); !strings.Contains(got, "no context is current: choose one with") {
		t.Errorf("errors are %q", got)
	}
	if got := c.fails(t, cli.ExitUsage, "group", "list"); !strings.Contains(got, "config use-context") {
		t.Errorf("errors are %q", got)
	}
	if got := c.ok(t, "config", "use-context", "here"); got != "current context is here\n" {
		t.Errorf("it printed %q", got)
	}
	if got := c.ok(t, "config", "current-context"); got != "here\n" {
		t.Errorf("current is %q", got)
	}
	for _, test := range []struct {
		args []string
		want string
	}{
		{nil, "web\n"},
		{[]string{"--context", "there"}, "db\n"},
		{[]string{"--config", path, "--context", "there"}, "db\n"},
	} {
		if got := c.ok(t, append([]string{"group", "list", "-o", "name"}, test.args...)...); got != test.want {
			t.Errorf("%q: groups are %q, want %q", test.args, got, test.want)
		}
	}
	c.env["NSTANCE_ADMIN_CONTEXT"] = "there"
	if got := c.ok(t, "group", "list", "-o", "name"); got != "db\n" {
		t.Errorf("groups are %q", got)
	}
	if got := c.fails(t, cli.ExitUsage, "group", "list", "--context", "nope"); !strings.Contains(got, `context "nope" does not exist in `+path) {
		t.Errorf("errors are %q", got)
	}
	if got := c.ok(t, "config", "get-contexts"); !strings.Contains(got, "*         here    test      -        local    -\n") || !strings.Contains(got, "-         there") {
		t.Errorf("the list is\n%s", got)
	}
	if got := c.ok(t, "__complete", "config", "use-context", ""); !strings.HasPrefix(got, "here\tcluster test\nthere\tcluster test\n") {
		t.Errorf("completion offers %q", got)
	}
}

func TestConfigViewShowsPathsAsTheyAreUsed(t *testing.T) {
	c := newConsole(t)
	path := filepath.Join(t.TempDir(), "admin.json")
	if err := os.WriteFile(path, []byte(`{"cluster_id":"x","identity_dir":"id","servers":{"a":"h:1"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	var got struct {
		IdentityDir string `json:"identity_dir"`
	}
	if err := json.Unmarshal([]byte(c.ok(t, "config", "view", "--context", path, "-o", "json")), &got); err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(filepath.Dir(path), "id"); got.IdentityDir != want {
		t.Errorf("identity_dir is %q, want %q", got.IdentityDir, want)
	}
	c.withContexts(t)
	if got := c.ok(t, "config", "view"); !strings.Contains(got, "contexts:\n  here:\n    cluster_id: test\n") {
		t.Errorf("view is\n%s", got)
	}
}

func TestOldNamesOfConfigCommandsSayTheNewOnes(t *testing.T) {
	c := newConsole(t)
	old := c.ok(t, "config", "status")
	if got := c.err.String(); got != "note: 'nstance-admin config status' is now 'nstance-admin shard config status'\n" {
		t.Errorf("errors are %q", got)
	}
	if now := c.ok(t, "shard", "config", "status"); now != old {
		t.Errorf("the new name prints\n%s", now)
	}
	if help := c.ok(t, "config", "--help"); strings.Contains(help, "refresh") {
		t.Errorf("the help has the old names\n%s", help)
	}
}
