package processes_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"nstance.dev/e2e/env/box"
)

// commander is somebody of one tenant at the command line, and all that it was shown.
type commander struct {
	b       *box.Box
	tenant  string
	context string
	watches []*box.Process
	shown   strings.Builder
	ids     []string // of its machines, the provider's too
}

func (c *commander) group() string { return "group-" + c.tenant }

// file describes the tenant's group, and one that is refused.
func (c *commander) file() string { return c.b.Path("of-" + c.tenant + ".yaml") }

// marks are what stands for the tenant wherever it shows.
func (c *commander) marks() []string {
	return append([]string{c.group(), "variable-" + c.tenant}, c.ids...)
}

// threeTenants brings up a cluster with the tenants default, acme and zeta, each
// with a group of one machine, and somebody who works for each.
func threeTenants(t *testing.T) []*commander {
	t.Helper()
	b, _ := up(t, 1)
	group := func(tenant string) string {
		return fmt.Sprintf(`"group-%s": { "template": "dev", "size": 1, "vars": { "mark": "variable-%s" } }`, tenant, tenant)
	}
	text := strings.Replace(b.Config(), `"templates": {`, `"tenants": { "acme": {}, "zeta": {} }, "templates": {`, 1)
	text = strings.Replace(text, `"server": {`, `"server": { "admin_tenants": ["default"],`, 1)
	text = strings.Replace(text, `"groups": {`, `"groups": { "acme": { `+group("acme")+` }, "zeta": { `+group("zeta")+` },`, 1)
	text = strings.Replace(text, `"default": {`, `"default": { `+group("default")+`, `, 1)
	b.SetConfig(text)
	b.AdminOK("config", "refresh")

	var all []*commander
	for _, tenant := range []string{"default", "acme", "zeta"} {
		b.Cluster("register-operator", "--tenant", tenant, "--output-dir", b.Path("of-"+tenant))
		c := &commander{b: b, tenant: tenant, context: b.Path("of-" + tenant + ".json")}
		settings, err := json.Marshal(map[string]any{
			"tenant": tenant, "identity_dir": "of-" + tenant, "shard": box.Shard, "servers": map[string]string{box.Shard: mustLead(t, b).Operator},
		})
		if err == nil {
			err = os.WriteFile(c.context, settings, 0o600)
		}
		if err == nil {
			err = os.WriteFile(c.file(), []byte("{key: "+c.group()+", config: {size: 1}}\n---\n{key: another, config: {template: none}}\n"), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	return all
}

// settle waits for the tenant's machine and remembers what it is called.
func (c *commander) settle(t *testing.T) {
	t.Helper()
	client, err := c.b.Operator(mustLead(t, c.b).Operator, c.b.Path("of-"+c.tenant))
	if err != nil {
		t.Fatal(err)
	}
	c.b.Await("the machine of "+c.tenant+" runs", func() error {
		list, err := listInstances(t, client)
		if err != nil {
			return err
		}
		c.ids = nil
		for _, in := range list {
			if in.Group == c.group() && in.Status == "running" {
				c.ids = append(c.ids, in.InstanceId, in.ProviderInstanceId)
			}
		}
		if len(c.ids) == 0 {
			return fmt.Errorf("it is not among %v", list)
		}
		return nil
	})
}

// watch follows everything that can be watched.
func (c *commander) watch() {
	for _, args := range [][]string{
		{"group", "watch"}, {"instance", "watch", "-o", "json"}, {"shard", "errors"}, {"group", "list", "--watch"}, {"instance", "list", "--watch"}, {"events"},
	} {
		c.watches = append(c.watches, c.b.Start("nstance-admin", append(args, "--context", c.context)...))
	}
}

// run makes one command and keeps what it shows.
func (c *commander) run(args ...string) box.Result {
	r := c.b.Admin(args...)
	fmt.Fprintf(&c.shown, "\n$ nstance-admin %v\n%s%s", args, r.Out, r.Err)
	return r
}

// leaves are the commands below one, as its help names them.
func (c *commander) leaves(path ...string) (all [][]string) {
	_, list, below := strings.Cut(c.b.Admin(append(path, "--help")...).Out, "\nAvailable Commands:\n")
	if !below {
		return [][]string{path}
	}
	list, _, _ = strings.Cut(list, "\n\n")
	for line := range strings.Lines(list) {
		if name := strings.Fields(line)[0]; name != "help" && name != "completion" {
			all = append(all, c.leaves(slices.Concat(path, []string{name})...)...)
		}
	}
	return all
}

// beside are commands that do not speak for a tenant, or never end by themselves.
var beside = []string{"cluster", "group watch", "instance watch", "shard errors", "group edit", "events", "serve", "console", "token", "version", "shard config validate", "shard config schema", "config"}

// work makes all the commands: those known here with sense, those that came
// later with the names of a group and of a machine of the tenant's own and of
// nobody's.
func (c *commander) work(commands [][]string) {
	sensible := map[string][][]string{
		"group list":           {{"-o", "json"}, {"-o", "wide"}},
		"group get":            {{c.group(), "-o", "yaml"}, {"nobodys"}},
		"group scale":          {{c.group(), "2"}, {"nobodys", "1"}},
		"group apply":          {{"-f", c.file()}},
		"group delete":         {{"nobodys"}},
		"instance list":        {{"-o", "json"}, {"-o", "wide"}, {"--unmanaged"}},
		"instance get":         {{c.ids[0], "-o", "json"}, {"dev00000000000000000000000000"}},
		"instance create":      {{"-g", c.group(), "-o", "json"}, {"-g", "nobodys"}},
		"instance delete":      {{"dev00000000000000000000000000"}},
		"instance adopt":       {{"nobodys"}},
		"instance logs":        {{c.ids[0]}, {c.ids[0], "--tail", "3", "-o", "json"}, {"dev00000000000000000000000000"}},
		"instance console":     {{c.ids[0]}},
		"shard config status":  {{"-o", "json"}},
		"shard config refresh": {{}},
		"instance replace":     {{"dev00000000000000000000000000"}},
		"instance drained":     {{"dev00000000000000000000000000"}},
		"top":                  {{"--rounds", "1"}},
		"support-bundle":       {{"--output", c.b.Path("bundle-of-" + c.tenant + ".tar.gz")}},
		"__complete group":     {{"get", ""}},
		"__complete config":    {{"use-context", ""}},
	}
	for _, command := range commands {
		name := strings.Join(command, " ")
		if slices.ContainsFunc(beside, func(b string) bool { return name == b || strings.HasPrefix(name, b+" ") }) {
			continue
		}
		rows := sensible[name]
		if rows == nil {
			rows = [][]string{{}, {c.group()}, {c.ids[0]}, {"nobodys"}}
		}
		for _, args := range rows {
			flags := []string{"--context", c.context}
			if command[0] == "__complete" { // the word to be completed comes last
				c.run(slices.Concat([]string{"__complete"}, command[1:], args[:1], flags, args[1:])...)
				continue
			}
			c.run(slices.Concat(command, args, flags)...)
		}
	}
}

// TestS12_ThreeTenantsAtTheCommandLine: each of three tenants makes every command,
// watches and completes names, and nothing that it is shown has a trace of another.
func TestS12_ThreeTenantsAtTheCommandLine(t *testing.T) {
	t.Parallel()
	tenants := threeTenants(t)
	for _, c := range tenants {
		c.watch()
	}
	for _, c := range tenants {
		c.settle(t)
	}
	// Hundreds of short processes, one after another: what of them may race is in the watches, which have the
	// race detector, as the server has. With it each would take a second to start.
	tenants[0].b.From(filepath.Dir(box.Binary(t, "nstance-admin")))
	commands := append(tenants[0].leaves(), []string{"__complete", "group"}, []string{"__complete", "config"}) // the same for all
	for _, c := range tenants {
		c.work(commands)
	}
	for _, c := range tenants {
		for i, w := range c.watches {
			if i != 2 { // nothing goes wrong for anybody, so there need not be errors
				c.b.Await("a watch shows something", func() error {
					if !strings.Contains(w.Output(), c.group()) && !strings.Contains(w.Output(), c.ids[0]) {
						return fmt.Errorf("watch %d of %s shows %q", i, c.tenant, w.Output())
					}
					return nil
				})
			}
			w.Signal(syscall.SIGINT)
			w.Exit(t)
			c.shown.WriteString("\n" + w.Output())
		}
	}
	for _, c := range tenants {
		for _, other := range tenants {
			for _, mark := range other.marks() {
				switch shown := strings.Contains(c.shown.String(), mark); {
				case c == other && !shown:
					t.Errorf("%s was not shown its own %q: the test shows nothing", c.tenant, mark)
				case c != other && shown:
					t.Errorf("%s was shown %q of %s:\n%s", c.tenant, mark, other.tenant, c.shown.String())
				}
			}
		}
	}
}
