package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nstance.dev/admin/cli"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func TestListsAreChosenAndSorted(t *testing.T) {
	c := newConsole(t)
	c.local.AddGroup(&nstancev1.GroupStatus{Key: "api", Template: "small", Size: 5, Vars: map[string]string{"region": "eu"}})
	for command, want := range map[string]string{
		"group list -o name":                                       "api\nweb\n",
		"group list -o name --selector template=worker":            "web\n",
		"g ls -o name -l vars.region=eu":                           "api\n",
		"groups list -o name --sort-by size":                       "web\napi\n",
		"group list -o name --status ok":                           "api\nweb\n",
		"group list -o name --status paused":                       "",
		"group list -o custom-columns=G:.key,N:.size --no-headers": "api   5\nweb   2\n",
		"instance list -g web -o jsonpath={.items[0].group}":       "web\n",
		"instance list -o name --status pending":                   "",
		"group get web -o jsonpath={.template}":                    "worker\n",
	} {
		if got := c.ok(t, strings.Fields(command)...); got != want {
			t.Errorf("%s printed %q, want %q", command, got, want)
		}
	}
	if got := c.ok(t, "instance", "list", "-g", "web", "--status", "running", "-o", "go-template={{len .items}}"); got != "2\n" {
		t.Errorf("a template printed %q", got)
	}
	if got := c.fails(t, cli.ExitFailed, "group", "list", "--sort-by", "AGE"); !strings.Contains(got, "nothing in the list has this field; the fields are actual_size") {
		t.Errorf("errors are %q", got)
	}
	if got := c.fails(t, cli.ExitUsage, "group", "list", "-l", "a=b=c"); !strings.Contains(got, "--selector") {
		t.Errorf("errors are %q", got)
	}
}

func TestOldNamesGoOnWorking(t *testing.T) {
	c := newConsole(t)
	id := strings.Fields(c.ok(t, "instance", "list", "-o", "name"))[0]
	for old, now := range map[string]string{
		"explain group web":           "group explain web",
		"explain instance " + id:      "instance explain " + id,
		"describe web":                "group describe web",
		"plan ../cli/testdata/c.json": "shard config plan ../cli/testdata/c.json",
	} {
		if strings.HasPrefix(old, "plan") {
			path := filepath.Join(t.TempDir(), "c.json")
			if err := os.WriteFile(path, []byte(shardConfig), 0o600); err != nil {
				t.Fatal(err)
			}
			old, now = "plan "+path, "shard config plan "+path
		}
		if was, is := c.ok(t, strings.Fields(old)...), c.ok(t, strings.Fields(now)...); was != is || is == "" {
			t.Errorf("%s printed\n%s\n%s printed\n%s", old, was, now, is)
		}
	}
	help := c.ok(t, "--help")
	for _, old := range []string{"\n  explain ", "\n  watch ", "\n  describe ", "\n  pause ", "\n  resume ", "\n  plan "} {
		if strings.Contains(help, old) {
			t.Errorf("the help lists%q", old)
		}
	}
}

func TestDryRunsChangeNothing(t *testing.T) {
	c := newConsole(t)
	id := strings.Fields(c.ok(t, "instance", "list", "-o", "name"))[0]
	c.in = "key: web\nconfig: {size: 3}\n---\nkey: batch\nconfig: {template: worker, size: 1}\n"
	for command, want := range map[string]string{
		"group scale web 5":          "group web: size would be set to 5, from 2\n",
		"group delete web":           "group web: would be deleted with 2 machines\n",
		"group apply -f -":           "group web: changes\n config:\n   instance_type: t4g.medium\n-  size: 2\n+  size: 3\n",
		"group pause web --reason x": "group web: would be paused until it is resumed\n",
		"group resume web":           "group web: would be resumed\n",
		"tenant pause --reason x":    "tenant: would be paused",
		"shard pause --reason x":     "shard: would be paused",
		"instance delete " + id:      "instance " + id + ": running in group web, would be deleted, and replaced",
		"instance replace " + id:     "instance " + id + ": running in group web, would be deleted once its replacement is ready\n",
		"instance drained " + id:     "instance " + id + ": running in group web, would be deleted now\n",
		"instance create -g web":     "group web: an on-demand instance of template worker would be started\n",
		"shard config refresh":       "local: etag e1 is in force",
	} {
		got := c.ok(t, append(strings.Fields(command), "--dry-run")...)
		if !strings.Contains(got, want) {
			t.Errorf("%s printed %q, want %q", command, got, want)
		}
	}
	for _, call := range c.local.Calls() {
		switch name := call[strings.LastIndex(call, "/")+1:]; name {
		case "ListGroups", "ListInstances", "GetInstanceStatus", "GetConfigStatus":
		default:
			t.Errorf("%s was called", name)
		}
	}
}

func TestWhatEndsMachinesIsAskedOnATerminalAlone(t *testing.T) {
	for name, test := range map[string]struct {
		prompt bool
		in     string
		args   []string
		asks   string
		done   bool
	}{
		"no terminal":         {false, "", []string{"group", "scale", "web", "1"}, "", true},
		"yes":                 {true, "y\n", []string{"group", "scale", "web", "1"}, "group web: size 1 instead of 2 deletes 1 machine. Go on? [y/N] ", true},
		"no":                  {true, "n\n", []string{"group", "scale", "web", "1"}, "Go on? [y/N] error: not confirmed: nothing was changed", false},
		"nothing":             {true, "", []string{"group", "delete", "web"}, "group web: the group is deleted with 2 machines. Go on?", false},
		"the flag":            {true, "", []string{"group", "delete", "web", "--yes"}, "", true},
		"nothing ends":        {true, "", []string{"group", "scale", "web", "3"}, "", true},
		"a file that shrinks": {true, "n\n", []string{"group", "apply", "-f", "FILE"}, "group web: size 0 instead of 2 deletes 2 machines.", false},
	} {
		t.Run(name, func(t *testing.T) {
			c := newConsole(t)
			c.prompt, c.in = test.prompt, test.in
			for i, arg := range test.args {
				if arg == "FILE" {
					test.args[i] = filepath.Join(t.TempDir(), "g.yaml")
					if err := os.WriteFile(test.args[i], []byte("key: web\nconfig: {size: 0}\n"), 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			code := c.run(t.Context(), test.args...)
			if (code == cli.ExitOK) != test.done || !strings.Contains(c.err.String(), test.asks) || test.asks == "" && c.err.String() != "" {
				t.Errorf("exit code %d, errors %q, want %q", code, c.err.String(), test.asks)
			}
			changed := strings.Contains(strings.Join(c.local.Calls(), " "), "UpsertGroup") || strings.Contains(strings.Join(c.local.Calls(), " "), "DeleteGroup")
			if changed != test.done {
				t.Errorf("calls are %q", c.local.Calls())
			}
		})
	}
}

// editor returns a program that replaces one text of a file by another.
func editor(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "edit.sh")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	return path
}

func TestGroupEditSendsWhatHasChanged(t *testing.T) {
	c := newConsole(t)
	c.env["EDITOR"] = editor(t, `sed -i 's/size: 2/size: 3/' "$1"`)
	if got := c.ok(t, "group", "edit", "web"); got != "group web: applied, size 3\n" {
		t.Errorf("it printed %q", got)
	}
	c.env["EDITOR"] = "true"
	if got := c.ok(t, "group", "edit", "web"); got != "group web: not changed\n" {
		t.Errorf("it printed %q", got)
	}
	c.env["EDITOR"] = editor(t, `sed -i '/template/d' "$1"`)
	if got := c.fails(t, cli.ExitFailed, "group", "edit", "web"); !strings.Contains(got, "config.template: it cannot be removed") {
		t.Errorf("errors are %q", got)
	}
	c.env["EDITOR"] = "false"
	if got := c.fails(t, cli.ExitFailed, "group", "edit", "web"); !strings.Contains(got, "editor false: exit status 1; set EDITOR to another") {
		t.Errorf("errors are %q", got)
	}
}

func TestShardListAndLeader(t *testing.T) {
	c := newConsole(t)
	if got := c.ok(t, "shard", "list", "--no-headers"); !strings.HasPrefix(got, "local   test") || !strings.Contains(got, "\nother") {
		t.Errorf("the list is\n%s", got)
	}
	if got := c.ok(t, "shards", "ls", "-o", "jsonpath={.items[*].running}"); got != "2 1\n" {
		t.Errorf("running are %q", got)
	}
	c.env["NSTANCE_ADMIN_SERVERS"] += ",third=127.0.0.1:1"
	if got := c.ok(t, "shard", "leader", "-o", "jsonpath={.items[*].role}"); got != "leader\n" {
		t.Errorf("roles are %q", got)
	}
	if got := c.fails(t, cli.ExitFailed, "shard", "leader", "--shard", "third"); !strings.Contains(got, "no server of shard third answered: 127.0.0.1:1: ") {
		t.Errorf("errors are %q", got)
	}
}
