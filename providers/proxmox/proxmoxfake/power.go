package proxmoxfake

import (
	"strconv"
	"strings"
	"time"
)

var powerGrants = []string{"VM.PowerMgmt"}

var powerRoutes = []route{
	{op: "POST /nodes/{node}/qemu/{vmid}/status/start", grants: powerGrants, forks: "qmstart", do: (*Cloud).start, schema: schema{
		"skiplock": {kind: "boolean"}, "timeout": {kind: "integer"}, "force-cpu": {}, "machine": {},
	}},
	{op: "POST /nodes/{node}/qemu/{vmid}/status/stop", grants: powerGrants, do: (*Cloud).stop, schema: schema{
		"skiplock": {kind: "boolean"}, "timeout": {kind: "integer"}, "keepActive": {kind: "boolean"}, "overrule-shutdown": {kind: "boolean"},
	}},
	{op: "POST /nodes/{node}/qemu/{vmid}/status/shutdown", grants: powerGrants, do: (*Cloud).shutdown, schema: schema{
		"skiplock": {kind: "boolean"}, "timeout": {kind: "integer"}, "forceStop": {kind: "boolean"}, "keepActive": {kind: "boolean"},
	}},
	{op: "POST /nodes/{node}/qemu/{vmid}/status/reboot", grants: powerGrants, do: (*Cloud).reboot, schema: schema{"timeout": {kind: "integer"}}},
	{op: "POST /nodes/{node}/qemu/{vmid}/status/reset", grants: powerGrants, do: (*Cloud).reset, schema: schema{"skiplock": {kind: "boolean"}}},
	{op: "POST /nodes/{node}/qemu/{vmid}/status/suspend", grants: powerGrants, do: (*Cloud).suspend, schema: schema{
		"skiplock": {kind: "boolean"}, "todisk": {kind: "boolean"}, "statestorage": {},
	}},
	{op: "POST /nodes/{node}/qemu/{vmid}/status/resume", grants: powerGrants, do: (*Cloud).resume, schema: schema{
		"skiplock": {kind: "boolean"}, "nocheck": {kind: "boolean"},
	}},
}

// onMachine makes a task that does one thing to a machine under its lock.
func (c *Cloud) onMachine(r *request, kind string, m *machine, takes time.Duration, do func(now time.Time) error) (any, error) {
	if r.params["skiplock"] != "" {
		return nil, badParam("skiplock", "Only root may use this option.")
	}
	return c.fork(r, kind, strconv.Itoa(m.id), m.name(), func(t *task, now time.Time) {
		c.holding(t, now, m.id, takes, func(now time.Time) {
			if c.machines[m.id] != m {
				t.fail(now, noConfig(r.node, m.id))
				return
			}
			t.done(now, do(now))
		})
	}), nil
}

func (c *Cloud) start(r *request) (any, error) {
	m, err := c.machine(r)
	if err != nil {
		return nil, err
	}
	return c.onMachine(r, "qmstart", m, c.opts.takes("qmstart"), func(now time.Time) error { return c.boot(m, now) })
}

// boot starts a machine's process, if its devices and its memory can be had.
func (c *Cloud) boot(m *machine, now time.Time) error {
	if err := m.locked(); err != nil {
		return err
	}
	switch {
	case m.template():
		return die("you can't start a vm if it's a template")
	case m.running:
		return die("VM %d already running", m.id)
	}
	for _, option := range driveNames(m.config) {
		d := parseDrive(m.config[option])
		if d.volume != "none" && d.volume != "cdrom" && c.find(d.volume, m.node) == nil {
			return die("volume '%s' does not exist", d.volume)
		}
	}
	for option, value := range m.config {
		if strings.HasPrefix(option, "net") && !c.bridged(value) {
			return die("start failed: QEMU exited with code 1") // the task's log says that the bridge does not exist
		}
	}
	if c.nodeStats(m.node, now).memory+m.memory() > c.nodes[m.node].Memory {
		return die("start failed: QEMU exited with code 1") // cannot set up guest memory
	}
	c.pids++
	m.pid = c.pids
	m.running, m.paused, m.since = true, false, now
	return c.run(m)
}

// bridged reports whether a network device's bridge exists.
func (c *Cloud) bridged(value string) bool {
	for part := range strings.SplitSeq(value, ",") {
		if name, ok := strings.CutPrefix(part, "bridge="); ok {
			for _, b := range c.opts.Bridges {
				if b == name {
					return true
				}
			}
			return false
		}
	}
	return true
}

func (c *Cloud) stop(r *request) (any, error) {
	m, err := c.machine(r)
	if err != nil {
		return nil, err
	}
	return c.onMachine(r, "qmstop", m, c.opts.takes("qmstop"), func(time.Time) error {
		if !m.running {
			return nil
		}
		if err := m.locked(); err != nil {
			return err
		}
		m.halt(false)
		return nil
	})
}

// shutdown asks the guest to end. One that does not listen is waited for, and then
// ended if the call says so.
func (c *Cloud) shutdown(r *request) (any, error) {
	m, err := c.running(r)
	if err != nil {
		return nil, err
	}
	takes := c.opts.takes("qmshutdown")
	timeout := 60 * time.Second
	if given, err := strconv.Atoi(r.params["timeout"]); err == nil {
		timeout = time.Duration(given) * time.Second
	}
	deaf := m.deaf || takes > c.opts.scaled(timeout)
	if deaf {
		takes = c.opts.scaled(timeout)
	}
	return c.onMachine(r, "qmshutdown", m, takes, func(time.Time) error {
		if deaf && m.running && !r.flag("forceStop") {
			return die("VM quit/powerdown failed - got timeout")
		}
		m.halt(!deaf)
		return nil
	})
}

// running returns the machine that a call is about if it runs.
func (c *Cloud) running(r *request) (*machine, error) {
	m, err := c.machine(r)
	if err != nil {
		return nil, err
	}
	if !m.running {
		return nil, die("VM %d not running", m.id)
	}
	return m, nil
}

func (c *Cloud) reboot(r *request) (any, error) {
	m, err := c.running(r)
	if err != nil {
		return nil, err
	}
	return c.onMachine(r, "qmreboot", m, c.opts.takes("qmreboot"), func(now time.Time) error {
		if m.deaf {
			return die("VM quit/powerdown failed - got timeout")
		}
		m.halt(true)
		return c.boot(m, now)
	})
}

func (c *Cloud) reset(r *request) (any, error) {
	m, err := c.running(r)
	if err != nil {
		return nil, err
	}
	return c.onMachine(r, "qmreset", m, c.opts.takes("qmreset"), func(now time.Time) error {
		m.halt(false)
		return c.boot(m, now)
	})
}

func (c *Cloud) suspend(r *request) (any, error) {
	m, err := c.running(r)
	if err != nil {
		return nil, err
	}
	if r.flag("todisk") {
		return nil, badParam("todisk", "this cluster cannot suspend to disk")
	}
	return c.onMachine(r, "qmsuspend", m, c.opts.takes("qmsuspend"), func(time.Time) error {
		m.paused = true
		return nil
	})
}

func (c *Cloud) resume(r *request) (any, error) {
	m, err := c.running(r)
	if err != nil {
		return nil, err
	}
	return c.onMachine(r, "qmresume", m, c.opts.takes("qmresume"), func(time.Time) error {
		m.paused = false
		return nil
	})
}
