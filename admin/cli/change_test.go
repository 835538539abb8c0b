package cli_test

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nstance.dev/admin/cli"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// statuses lists the managed instances of shard "local".
func (c *console) statuses(t *testing.T) []string {
	t.Helper()
	var list []struct {
		Status   string `json:"status"`
		OnDemand bool   `json:"on_demand"`
	}
	if err := json.Unmarshal([]byte(c.ok(t, "instance", "list", "-o", "json")), &list); err != nil {
		t.Fatal(err)
	}
	var statuses []string
	for _, in := range list {
		if !in.OnDemand {
			statuses = append(statuses, in.Status)
		}
	}
	return statuses
}

func TestGroupScaleWaits(t *testing.T) {
	for name, test := range map[string]struct {
		size string
		want []string
	}{
		"up":      {"5", []string{"running", "running", "running", "running", "running"}},
		"down":    {"1", []string{"running"}},
		"to none": {"0", nil},
	} {
		t.Run(name, func(t *testing.T) {
			c := newConsole(t)
			got := c.ok(t, "group", "scale", "web", test.size, "--wait", "--timeout", "60s")
			want := "group web: size set to " + test.size + "\ngroup web: " + test.size + " running\n"
			if got != want {
				t.Errorf("output is %q, want %q", got, want)
			}
			if got := c.statuses(t); !slices.Equal(got, test.want) {
				t.Errorf("instances are %q", got)
			}
		})
	}
}

func TestProgress(t *testing.T) {
	for name, test := range map[string]struct {
		terminal bool
		want     string
	}{
		"lines elsewhere":        {false, "group web: 2 of 3 running, 1 pending\n"},
		"in place on a terminal": {true, "\r\x1b[Kgroup web: 2 of 3 running, 1 pending\r\x1b[K"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newConsole(t)
			c.terminal = test.terminal
			c.ok(t, "group", "scale", "web", "3", "--wait")
			if got := c.err.String(); got != test.want {
				t.Errorf("progress is %q, want %q", got, test.want)
			}
		})
	}
}

func TestWaitingTooLongSaysWhatIsMissing(t *testing.T) {
	c := newConsole(t)
	c.local.Frozen = true
	got := c.fails(t, cli.ExitFailed, "group", "scale", "web", "3", "--wait", "--timeout", "300ms")
	if !strings.Contains(got, "error: not done after 300ms: group web: 2 of 3 running, 1 pending") {
		t.Errorf("errors are %q", got)
	}
}

func TestGroupScaleOnEachShard(t *testing.T) {
	c := newConsole(t)
	c.other.AddGroup(&nstancev1.GroupStatus{Key: "web", Size: 1})
	got := c.ok(t, "group", "scale", "web", "2", "--all-shards", "--wait")
	want := "local: group web: size set to 2\nlocal: group web: 2 running\nother: group web: size set to 2\nother: group web: 2 running\n"
	if got != want {
		t.Errorf("output is %q, want %q", got, want)
	}
}

func TestGroupApply(t *testing.T) {
	c := newConsole(t)
	c.in = "key: web\nconfig: {size: 3}\n---\nkey: batch\nconfig: {template: worker, size: 1, vars: {a: b}}\n"
	got := c.ok(t, "group", "apply", "-f", "-", "--wait")
	want := "group web: applied, size 3\ngroup batch: applied, size 1\ngroup web: 3 running\ngroup batch: 1 running\n"
	if got != want {
		t.Errorf("output is %q, want %q", got, want)
	}
	if got := c.ok(t, "group", "get", "batch", "-o", "json"); !strings.Contains(got, `"a": "b"`) {
		t.Errorf("the group is %s", got)
	}
}

func TestGroupApplySendsNothingOfABadFile(t *testing.T) {
	c := newConsole(t)
	path := filepath.Join(t.TempDir(), "g.yaml")
	if err := os.WriteFile(path, []byte("key: web\nconfig: {size: 3}\n---\nkey: b\nconfig: {siz: 1}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := c.fails(t, cli.ExitFailed, "group", "apply", "-f", path); !strings.Contains(got, path+": document 2: config.siz: unknown field") {
		t.Errorf("errors are %q", got)
	}
	if calls := c.local.Calls(); len(calls) > 0 {
		t.Errorf("%q were called", calls)
	}
}

func TestGroupApplyGoesOnAfterARefusal(t *testing.T) {
	c := newConsole(t)
	c.in = "key: new\nconfig: {size: 3}\n---\nkey: web\nconfig: {size: 3}\n"
	got := c.fails(t, cli.ExitFailed, "group", "apply", "-f", "-")
	if !strings.Contains(got, `error: group new: group "new" is new: template is required`) {
		t.Errorf("errors are %q", got)
	}
	if out := c.out.String(); out != "group web: applied, size 3\n" {
		t.Errorf("output is %q", out)
	}
}

func TestGroupDelete(t *testing.T) {
	c := newConsole(t)
	if got := c.ok(t, "group", "delete", "web", "nothing", "--wait"); got != "group web: is being deleted\ngroup web: deleted\ngroup nothing: there is none\n" {
		t.Errorf("output is %q", got)
	}
	if got := c.ok(t, "group", "list", "-o", "name"); got != "" {
		t.Errorf("groups are %q", got)
	}
	if got := c.ok(t, "group", "delete", "db", "--shard", "other", "--wait"); !strings.Contains(got, "again as the configuration says") {
		t.Errorf("output is %q", got)
	}
}

func TestInstanceCreateAndDelete(t *testing.T) {
	c := newConsole(t)
	got := c.ok(t, "instance", "create", "--group", "web", "--var", "a=b=c", "--wait")
	id, _, _ := strings.Cut(strings.TrimPrefix(got, "instance "), ":")
	if !strings.HasPrefix(id, "knc") || !strings.HasSuffix(got, "instance "+id+": running\n") {
		t.Errorf("output is %q", got)
	}
	if got := c.ok(t, "instance", "delete", id, "--wait"); got != "instance "+id+": deleting\ninstance "+id+": gone\n" {
		t.Errorf("output is %q", got)
	}
	if got := c.ok(t, "instance", "delete", id); got != "instance "+id+": unknown\n" {
		t.Errorf("a second time the output is %q", got)
	}
}

// TestInstanceDeleteSaysOfEachWhatBecameOfIt: an instance that stays takes nothing from the others, and what their group lacks
// is said once, with each instance that stays.
func TestInstanceDeleteSaysOfEachWhatBecameOfIt(t *testing.T) {
	c := newConsole(t)
	ids := strings.Fields(c.ok(t, "instance", "list", "-o", "name"))
	want := fmt.Sprintf("instance %[1]s: deleting\ninstance %[2]s: deleting\ninstance %[1]s: gone\ninstance %[2]s: gone\n", ids[0], ids[1])
	if got := c.ok(t, "instance", "delete", ids[0], ids[1], "--wait"); got != want {
		t.Errorf("output is %q, want %q", got, want)
	}

	ids = strings.Fields(c.ok(t, "instance", "list", "-o", "name"))
	c.local.Frozen = true
	const unknown = "knc00000000000000000000000000"
	got := c.fails(t, cli.ExitFailed, "instance", "delete", ids[0], unknown, ids[1], "--wait", "--timeout", "300ms")
	_, failure, _ := strings.Cut(got, "error: not done after 300ms: group web: ")
	for _, want := range []string{"instance " + ids[0] + " is ", "instance " + ids[1] + " is "} {
		if n := strings.Count(failure, want); n != 1 {
			t.Errorf("%q stands %d times, not once, in the error of %q", want, n, got)
		}
	}
	if n := strings.Count(got, "not done after"); n != 1 {
		t.Errorf("%d errors, want that of the group: %q", n, got)
	}
	out := c.out.String()
	if strings.Contains(out, ids[0]+": gone") || strings.Contains(out, ids[1]+": gone") || !strings.Contains(out, unknown+": gone") {
		t.Errorf("output is %q", out)
	}
}

func TestInstanceDeleteWaitsForTheReplacement(t *testing.T) {
	c := newConsole(t)
	ids := strings.Fields(c.ok(t, "instance", "list", "-o", "name"))
	c.ok(t, "instance", "delete", ids[0], "--wait")
	after := strings.Fields(c.ok(t, "instance", "list", "-o", "name"))
	if slices.Contains(after, ids[0]) || len(after) != 2 {
		t.Errorf("instances are %q, and were %q", after, ids)
	}
	c.ok(t, "instance", "delete", after[0], "--decrement-size", "--wait")
	if got := c.statuses(t); !slices.Equal(got, []string{"running"}) {
		t.Errorf("instances are %q", got)
	}
}

func TestInstanceDrainedEndsIt(t *testing.T) {
	c := newConsole(t)
	ids := strings.Fields(c.ok(t, "instance", "list", "-o", "name"))
	want := "instance " + ids[0] + ": drain acknowledged; if it still exists, it is being deleted"
	for _, name := range []string{"drained", "ack-drain"} {
		if got := c.ok(t, "instance", name, ids[0], "--forced"); !strings.Contains(got, want) {
			t.Errorf("output of %s is %q, want %q", name, got, want)
		}
	}
	if got := c.ok(t, "instance", "get", ids[0]); strings.Contains(got, "running") {
		t.Errorf("after the acknowledgement the instance is still running:\n%s", got)
	}
}

func TestClusterCommands(t *testing.T) {
	storage := newStorage(t)
	c := &console{tempDir: t.TempDir()}

	dir := filepath.Join(t.TempDir(), "identity")
	c.ok(t, append([]string{"cluster", "register-operator", "--cluster-id", "dev", "--output-dir", dir}, storage...)...)
	if _, err := tls.LoadX509KeyPair(filepath.Join(dir, "identity.crt"), filepath.Join(dir, "identity.key")); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"ca.crt", "identity.crt", "identity.key"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, %v", name, info.Mode(), err)
		}
	}
	again := append([]string{"cluster", "register-operator", "--cluster-id", "dev", "--output-dir", dir}, storage...)
	if got := c.fails(t, cli.ExitFailed, again...); !strings.Contains(got, "--force") {
		t.Errorf("errors are %q", got)
	}
	c.ok(t, append(again, "--force")...)
	if got := c.ok(t, append(again, "--force", "--role", "viewer")...); !strings.Contains(got, "identity of viewer opr") {
		t.Errorf("a viewer's identity is said to be %q", got)
	}
	if got := c.fails(t, cli.ExitUsage, append(again, "--role", "root")...); !strings.Contains(got, "operator, viewer") {
		t.Errorf("errors are %q", got)
	}

	c.ok(t, append([]string{"cluster", "nonce", "--cluster-id", "dev"}, storage...)...)
	token, err := os.ReadFile(filepath.Join(c.tempDir, "cli-operator-identity", "nonce.jwt"))
	if err != nil || strings.Count(string(token), ".") != 2 {
		t.Errorf("the nonce is %d bytes, %v", len(token), err)
	}
	if strings.Contains(c.out.String(), string(token)) {
		t.Error("the nonce was printed")
	}
	got := c.ok(t, append([]string{"cluster", "nonce", "--cluster-id", "dev", "--output", "-"}, storage...)...)
	if strings.Count(got, ".") != 2 {
		t.Errorf("with --output - the output is %q", got)
	}
	if got := c.fails(t, cli.ExitFailed, append([]string{"cluster", "nonce"}, storage...)...); !strings.Contains(got, "--cluster-id") {
		t.Errorf("without configurations the errors are %q", got)
	}
}
