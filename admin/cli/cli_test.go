package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"nstance.dev/admin/cli"
	"nstance.dev/admin/output"
)

func TestEveryListInEveryFormat(t *testing.T) {
	for name, args := range map[string][]string{
		"group-list":        {"group", "list"},
		"group-list-shards": {"group", "list", "--all-shards"},
		"group-get":         {"group", "get", "web"},
		"instance-list":     {"instance", "list"},
		"config-status":     {"shard", "config", "status"},
	} {
		for _, format := range output.Formats() {
			t.Run(name+"/"+format, func(t *testing.T) {
				c := newConsole(t)
				golden(t, name+"."+format, c.ok(t, append(slices.Clone(args), "-o", format)...))
			})
		}
	}
}

func TestListsInJSONHaveTheFieldsThatScriptsUse(t *testing.T) {
	c := newConsole(t)
	for command, fields := range map[string][]string{
		"group":    {"key", "tenant", "size", "actual_size", "is_static"},
		"instance": {"instance_id", "group", "tenant", "status", "on_demand", "created_at"},
	} {
		var list []map[string]any
		if err := json.Unmarshal([]byte(c.ok(t, command, "list", "-o", "json")), &list); err != nil {
			t.Fatal(err)
		}
		if len(list) == 0 {
			t.Fatalf("%s: the list is empty", command)
		}
		for _, field := range fields {
			if _, ok := list[0][field]; !ok {
				t.Errorf("%s: %s is missing", command, field)
			}
		}
	}
}

func TestUsageErrorsHaveTheirOwnExitCode(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"an unknown command":      {[]string{"grup"}, "did you mean group?"},
		"an unknown subcommand":   {[]string{"group", "lst"}, "did you mean get or list?"},
		"an unknown flag":         {[]string{"group", "list", "--foo"}, "unknown flag: --foo"},
		"an unknown format":       {[]string{"group", "list", "-o", "xml"}, "must be one of table, wide, json, yaml, name"},
		"too few arguments":       {[]string{"group", "scale", "web"}, "SIZE is missing"},
		"a size that is none":     {[]string{"group", "scale", "web", "-1x"}, "shorthand"},
		"a size in words":         {[]string{"group", "scale", "web", "five"}, `size "five" must be a whole number`},
		"a missing flag":          {[]string{"group", "apply"}, `"file" not set`},
		"flags that exclude":      {[]string{"group", "list", "--shard", "a", "--all-shards"}, "shard"},
		"a variable without name": {[]string{"instance", "create", "-g", "web", "--var", "=x"}, "NAME=VALUE"},
		"an id that is none":      {[]string{"instance", "create", "-g", "web", "--id", "x"}, "--id: invalid id"},
		"no servers":              {[]string{"group", "list", "--shard", "x"}, `no servers of shard "x"`},
	} {
		t.Run(name, func(t *testing.T) {
			c := newConsole(t)
			got := c.fails(t, cli.ExitUsage, test.args...)
			if !strings.Contains(got, test.want) || !strings.Contains(got, "--help") {
				t.Errorf("errors are %q, want %q and a pointer to the help", got, test.want)
			}
			if calls := c.local.Calls(); len(calls) > 0 {
				t.Errorf("%q were called", calls)
			}
		})
	}
}

func TestErrorsSayWhatMayHelp(t *testing.T) {
	c := newConsole(t)
	for name, test := range map[string]struct {
		args []string
		want []string
	}{
		"a group that is not there": {[]string{"group", "get", "x"}, []string{`error: group "x" not found`, "hint: see what there is with"}},
		"an instance that is not there": {
			[]string{"instance", "get", "x"}, []string{`error: instance "x" not found`, "hint:"},
		},
		"what the server refuses": {
			[]string{"group", "scale", "new", "1", "--debug"},
			[]string{`error: group "new" is new: template is required`, "code: InvalidArgument, reason TEMPLATE_REQUIRED of nstance"},
		},
		"no server": {
			[]string{"group", "list", "--servers", "local=127.0.0.1:1", "--timeout", "10ms"},
			[]string{"error: no server of shard local answered: 127.0.0.1:1: ", "hint: check that a server of the shard is running"},
		},
		"one of several shards": {
			[]string{"group", "get", "db", "--all-shards"}, []string{`error: shard local: group "db" not found`},
		},
		"no identity": {[]string{"group", "list", "--identity-dir", "/nowhere"}, []string{"error: operator identity in /nowhere"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.fails(t, cli.ExitFailed, test.args...)
			for _, want := range test.want {
				if !strings.Contains(got, want) {
					t.Errorf("errors are %q, want %q", got, want)
				}
			}
			if strings.Contains(got, "rpc error") {
				t.Errorf("errors have the words of gRPC: %q", got)
			}
		})
	}
}

func TestAShardThatFailsDoesNotHideTheOthers(t *testing.T) {
	c := newConsole(t)
	c.env["NSTANCE_ADMIN_SERVERS"] += ",third=127.0.0.1:1"
	got := c.fails(t, cli.ExitFailed, "group", "list", "--all-shards", "--timeout", "500ms", "-o", "name")
	if out := c.out.String(); out != "web\ndb\n" {
		t.Errorf("output is %q", out)
	}
	if !strings.Contains(got, "error: shard third: no server of shard third answered") {
		t.Errorf("errors are %q", got)
	}
}

func TestVersion(t *testing.T) {
	c := newConsole(t)
	if got := c.ok(t, "version"); !strings.HasPrefix(got, "nstance-admin v1.2.3 (go1.") {
		t.Errorf("output is %q", got)
	}
}

func TestCompletionOfNames(t *testing.T) {
	c := newConsole(t)
	for _, test := range []struct{ args, want string }{
		{"group get ", "web\n"},
		{"group scale web ", ":4\n"},
		{"group delete web ", ":4\n"},
		{"instance delete ", "knc068a3cp3thz5z2mv1gejwfta01\tweb, running\n"},
		{"instance create --group ", "web\n"},
		{"group list -o ", "table\nwide\njson\nyaml\nname\n"},
	} {
		args := append([]string{cobra.ShellCompRequestCmd}, strings.Split(test.args, " ")...)
		if got := c.ok(t, args...); !strings.HasPrefix(got, test.want) {
			t.Errorf("after %q it offers %q, want %q", test.args, got, test.want)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if got := c.ok(t, "completion", shell); !strings.Contains(got, "nstance-admin") {
			t.Errorf("there is no completion for %s", shell)
		}
	}
}

func TestEveryCommandHasHelpWithAnExample(t *testing.T) {
	root := cli.NewRootCommand(&cli.Env{})
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		if cmd.Hidden { // an old name
			return
		}
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: the short help is %q", cmd.CommandPath(), cmd.Short)
		}
		if !cmd.HasSubCommands() && !strings.Contains(cmd.Example, cmd.CommandPath()) {
			t.Errorf("%s has no example", cmd.CommandPath())
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(root)
}

func TestConfigCommands(t *testing.T) {
	c := newConsole(t)
	if got := c.ok(t, "shard", "config", "refresh"); got != "local: updated (etag e2, before e1)\n" {
		t.Errorf("refresh printed %q", got)
	}
	if got := c.ok(t, "shard", "config", "refresh"); got != "local: unchanged (etag e2)\n" {
		t.Errorf("the second refresh printed %q", got)
	}
	c.local.Share()
	if got := c.fails(t, cli.ExitFailed, "shard", "config", "refresh"); !strings.Contains(got, "nothing was read") || !strings.Contains(got, "server.admin_tenants") {
		t.Errorf("to who does not administrate the shard refresh said %q", got)
	}
	var schema map[string]any
	if err := json.Unmarshal([]byte(c.ok(t, "shard", "config", "schema")), &schema); err != nil || schema["$schema"] == nil {
		t.Errorf("the schema is no JSON Schema: %v", err)
	}
}

func TestConfigValidate(t *testing.T) {
	c := newConsole(t)
	path := filepath.Join(t.TempDir(), "local.jsonc")
	if err := os.WriteFile(path, []byte("{\n  \"servr\": {},\n  \"groups\": 3\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := c.fails(t, cli.ExitFailed, "shard", "config", "validate", path)
	for _, want := range []string{path + ":2:3: servr: ", path + ":3:", "error: " + path + " is invalid"} {
		if !strings.Contains(got, want) {
			t.Errorf("errors are %q, want %q", got, want)
		}
	}
}

// A configuration is checked as a server of its provider would check it, whichever that is.
func TestF50_ConfigValidateKnowsEveryProvider(t *testing.T) {
	const document = `{ "server": { "cluster_id": "c", "shard": "s", "provider": { "kind": "%s", "zone": "z" }, "subnet_pools": { "p": ["%s"] } },
  "defaults": { "args": { "Imag": "x" } } }`
	c := newConsole(t)
	for kind, want := range map[string]struct{ subnet, problem string }{
		"aws":     {"subnet-1", "defaults.args.Imag: Imag: not a parameter of RunInstances"},
		"google":  {"net", "defaults.args.Imag: unknown argument; Google's are "},
		"gcp":     {"net", "defaults.args.Imag: unknown argument; Google's are "},
		"proxmox": {"vmbr0", "defaults.args.Imag: unknown argument; there are StoragePool"},
		"local":   {"net", "server.provider.options.dir: required"},
	} {
		path := filepath.Join(t.TempDir(), "c.jsonc")
		if err := os.WriteFile(path, fmt.Appendf(nil, document, kind, want.subnet), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := c.fails(t, cli.ExitFailed, "shard", "config", "validate", path); !strings.Contains(got, want.problem) {
			t.Errorf("%s: errors are %q, want %q", kind, got, want.problem)
		}
	}
}

func TestInterruption(t *testing.T) {
	c := newConsole(t)
	c.local.Frozen = true
	ctx, cancel := context.WithCancel(t.Context())
	c.err.wrote = make(chan struct{}, 100)
	done := make(chan int)
	go func() { done <- c.run(ctx, "group", "scale", "web", "3", "--wait") }()
	<-c.err.wrote
	cancel()
	if code := <-done; code != cli.ExitFailed || !strings.Contains(c.err.String(), "error: interrupted") {
		t.Errorf("exit code %d, errors %q", code, c.err.String())
	}
}

func TestTheDefaultIdentityMustBePrivate(t *testing.T) {
	c := newConsole(t)
	dir := c.env["NSTANCE_ADMIN_IDENTITY_DIR"]
	delete(c.env, "NSTANCE_ADMIN_IDENTITY_DIR")
	if got := c.fails(t, cli.ExitFailed, "group", "list"); !strings.Contains(got, "--identity-dir") {
		t.Errorf("errors are %q", got)
	}
	own := filepath.Join(c.tempDir, "cli-operator-identity")
	if err := os.CopyFS(own, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(own, 0o755); err != nil {
		t.Fatal(err)
	}
	if got := c.fails(t, cli.ExitFailed, "group", "list"); !strings.Contains(got, "has mode 0755") {
		t.Errorf("errors are %q", got)
	}
	if err := os.Chmod(own, 0o700); err != nil {
		t.Fatal(err)
	}
	c.ok(t, "group", "list")
}
