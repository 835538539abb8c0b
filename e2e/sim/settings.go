package sim

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"nstance.dev/server/config"
)

// listInterval is how often a server lists the machines of its provider.
const listInterval = 30 * time.Second

// configuration is what stands in the shard's configuration file.
type configuration struct {
	plan  Plan
	parts map[string]string // what events have edited, by name
	last  config.Version
	edits []time.Time // when each version was written
}

func newConfiguration(p Plan) configuration {
	c := configuration{plan: p, parts: map[string]string{
		"jobs": p.setting("jobs"), "web": "", "eligible": p.setting("eligible"), "vars": "one", "files": "one", "infra": "one", "drain": p.setting("drain"),
	}}
	c.load()
	return c
}

// load parses the file anew.
func (c *configuration) load() {
	text := c.text()
	cfg, err := config.Load("sim.jsonc", []byte(text), config.LoadOptions{})
	if err != nil {
		panic(fmt.Sprintf("the simulator's own configuration: %v\n%s", err, text))
	}
	sum := sha256.Sum256([]byte(text))
	c.last = config.Version{Config: cfg, ETag: hex.EncodeToString(sum[:8]), Modified: time.Now(), Size: len(text)}
	c.edits = append(c.edits, c.last.Modified)
}

func (c *configuration) text() string {
	var static []string
	for _, g := range []string{"jobs", "web"} {
		if size := c.parts[g]; size != "" {
			static = append(static, fmt.Sprintf(`%q: {"template": %q, "size": %s}`, g, g, size))
		}
	}
	expiry := ""
	if age := c.parts["eligible"]; age != "" {
		expiry = fmt.Sprintf(`"expiry": {"eligible_age": %q},`, age)
	}
	return fmt.Sprintf(`{
		"server": {
			"cluster_id": %q, "shard": %q, %s
			"provider": {"kind": "local", "zone": "z1"},
			"secrets": {"provider": "object-storage"},
			"subnet_pools": {"p": ["net-1", "net-2", "net-3"]},
			"admin_tenants": ["default"],
			"health_check_interval": %q, "request_timeout": "5s", "drain_timeout": %q,
			"garbage_collection": {"interval": %q, "registration_timeout": %q, "deleted_record_retention": %q},
		},
		"tenants": {"b": {}},
		"templates": {%s},
		"groups": {"default": {%s}},
	}`, cluster, shardName, expiry, c.plan.setting("interval"), c.parts["drain"], listInterval, c.plan.setting("timeout"), retention,
		c.templates(), strings.Join(static, ", "))
}

// groupNames are the names of all groups. Each has a template of its own, with a
// kind of its own, so that the ids of one group do not depend on the others.
var groupNames = []string{"web", "db", "jobs", "api"}

func (c *configuration) templates() string {
	all := make([]string, len(groupNames))
	for i, name := range groupNames {
		all[i] = fmt.Sprintf(`%q: {
			"kind": "vm%c", "arch": "amd64", "instance_type": "small", "subnet_pool": "p", "tenants": ["default", "b"],
			"userdata": {"content": "{{ .Nonce }}"}, %s"args": {"image": %q}, "vars": {"colour": %q},
			"files": {"app.env": {"kind": "env", "template": {"COLOUR": "{{ .Vars.colour }}", "EDITION": %q}}},
		}`, name, name[0], c.machine(), c.parts["infra"], c.parts["vars"], c.parts["files"])
	}
	return strings.Join(all, ", ")
}

// machine is the block of templates with node machines.
func (c *configuration) machine() string {
	if c.plan.setting("hosts") != "yes" {
		return ""
	}
	return `"machine": {"enabled": true}, `
}

// static is the configuration file as it is now.
func (w *world) static() config.Version {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.config.last
}

// edit changes parts of the configuration file, given as name and value in turn.
// Every server that runs finds out within seconds.
func (w *world) edit(pairs []string) {
	w.mu.Lock()
	for i := 0; i+1 < len(pairs); i += 2 {
		value := pairs[i+1]
		if value == "-" {
			value = ""
		}
		w.config.parts[pairs[i]] = value
	}
	w.config.load()
	now := w.config.last
	w.mu.Unlock()
	w.logf("the configuration file is edited: %s", strings.Join(pairs, " "))
	w.truth.resize()
	for _, b := range w.inOrder {
		if p := b.running(); p != nil {
			w.calls.Go(func() { w.follow(p, now) })
		}
	}
}

// follow has a process take a version of the file, unless there is a newer one.
func (w *world) follow(p *process, static config.Version) {
	for n := 0; ; n++ {
		wait := w.dice.between(time.Second, 8*time.Second, p.box.name, static.ETag, n)
		if pause(w.ctx, wait) != nil || p.may(w.ctx) != nil || w.static().ETag != static.ETag {
			return
		}
		ctx, cancel := context.WithTimeout(w.ctx, callTime)
		err := p.shard.Apply(ctx, static)
		cancel()
		if err == nil {
			p.took(static)
			return
		}
	}
}

// parseGroup reads the name of a group: that of tenant b begins with "b.".
func parseGroup(text string) groupID {
	if name, ok := strings.CutPrefix(text, "b."); ok {
		return groupID{"b", name}
	}
	return groupID{"default", text}
}

// mustNumber reads a number of an event.
func mustNumber(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(fmt.Sprintf("event: %v", err))
	}
	return n
}

// mustDuration reads a duration of an event.
func mustDuration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(fmt.Sprintf("event: %v", err))
	}
	return d
}
