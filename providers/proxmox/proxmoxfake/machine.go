package proxmoxfake

import (
	"strconv"
	"time"
)

var machineRoutes = []route{
	{op: "GET /nodes/{node}/qemu", schema: schema{"full": {kind: "boolean"}}, do: (*Cloud).listMachines},
	{op: "GET /nodes/{node}/qemu/{vmid}/config", schema: schema{"current": {kind: "boolean"}, "snapshot": {}}, grants: []string{"VM.Audit"}, do: (*Cloud).getConfig},
	{op: "POST /nodes/{node}/qemu/{vmid}/config", schema: configSchema, grants: configGrants, forks: "qmconfig", do: setConfig(true)},
	{op: "PUT /nodes/{node}/qemu/{vmid}/config", schema: configSchema, grants: configGrants, do: setConfig(false)},
	{op: "GET /nodes/{node}/qemu/{vmid}/status/current", grants: []string{"VM.Audit"}, do: (*Cloud).current},
	{op: "POST /nodes/{node}/qemu/{vmid}/clone", schema: cloneSchema, grants: []string{"VM.Clone"}, forks: "qmclone", do: (*Cloud).clone},
	{op: "PUT /nodes/{node}/qemu/{vmid}/resize", grants: []string{"VM.Config.Disk"}, forks: "resize", do: (*Cloud).resize, schema: schema{
		"disk": {required: true, format: driveName, like: "disk"}, "size": {required: true, format: sizeForm, like: "size"},
		"digest": {length: 40}, "skiplock": {kind: "boolean"},
	}},
	{op: "DELETE /nodes/{node}/qemu/{vmid}", grants: []string{"VM.Allocate"}, do: (*Cloud).destroy, schema: schema{
		"purge": {kind: "boolean"}, "destroy-unreferenced-disks": {kind: "boolean"}, "skiplock": {kind: "boolean"},
	}},
}

var configGrants = []string{
	"VM.Config.Disk", "VM.Config.CDROM", "VM.Config.CPU", "VM.Config.Memory",
	"VM.Config.Network", "VM.Config.HWType", "VM.Config.Options", "VM.Config.Cloudinit",
}

// machine returns the machine that a call is about, if it is on that node.
func (c *Cloud) machine(r *request) (*machine, error) {
	m := c.machines[r.vmid]
	if m == nil || m.node != r.node {
		return nil, noConfig(r.node, r.vmid)
	}
	return m, nil
}

func (c *Cloud) listMachines(r *request) (any, error) {
	list := []map[string]any{}
	for _, id := range c.ids() {
		if m := c.machines[id]; m.node == r.node && r.may("VM.Audit") {
			list = append(list, c.currentOf(m, r.now))
		}
	}
	return list, nil
}

func (c *Cloud) current(r *request) (any, error) {
	m, err := c.machine(r)
	if err != nil {
		return nil, err
	}
	return c.currentOf(m, r.now), nil
}

// currentOf is the state of a machine as its node says it, which is never old.
func (c *Cloud) currentOf(m *machine, now time.Time) map[string]any {
	s := c.stats(m, now)
	entry := map[string]any{
		"vmid": m.id, "name": m.name(), "status": m.status(), "qmpstatus": m.qmp(), "ha": map[string]any{"managed": 0},
		"cpus": s.cores, "cpu": s.cpu, "maxmem": s.memory, "mem": s.inUse, "maxdisk": s.disk, "disk": 0, "uptime": s.uptime,
		"netin": 0, "netout": 0, "diskread": 0, "diskwrite": 0,
	}
	if m.running {
		entry["pid"] = m.pid
	}
	if m.template() {
		entry["template"] = 1
	}
	for _, option := range []string{"tags", "lock"} {
		if value := m.config[option]; value != "" {
			entry[option] = value
		}
	}
	return entry
}

func (c *Cloud) resize(r *request) (any, error) {
	m, err := c.machine(r)
	if err != nil {
		return nil, err
	}
	disk := r.params["disk"]
	do := func(now time.Time) error {
		value, exists := m.config[disk]
		if !exists {
			return die("disk '%s' does not exist", disk)
		}
		d := parseDrive(value)
		v := c.find(d.volume, m.node)
		if v == nil || d.cdrom() {
			return die("you can't resize a cdrom")
		}
		if err := m.locked(); err != nil {
			return err
		}
		size, err := grow(v.size, r.params["size"])
		if err != nil {
			return err
		}
		c.fill(v.place, size-v.size)
		v.size = size
		m.config[disk] = d.sized(size)
		return nil
	}
	return c.fork(r, "resize", strconv.Itoa(m.id), m.name(), func(t *task, now time.Time) {
		c.holding(t, now, m.id, c.opts.takes("resize"), func(now time.Time) { t.done(now, do(now)) })
	}), nil
}

func (c *Cloud) destroy(r *request) (any, error) {
	m, err := c.machine(r)
	if err != nil {
		return nil, err
	}
	if r.params["skiplock"] != "" {
		return nil, badParam("skiplock", "Only root may use this option.")
	}
	if err := checkDestroy(m); err != nil {
		return nil, err
	}
	return c.fork(r, "qmdestroy", strconv.Itoa(m.id), m.name(), func(t *task, now time.Time) {
		c.holding(t, now, m.id, c.opts.takes("qmdestroy"), func(now time.Time) { t.done(now, c.remove(m)) })
	}), nil
}

func checkDestroy(m *machine) error {
	if m.config["protection"] == "1" {
		return die("can't remove VM %d - protection mode enabled", m.id)
	}
	if m.running {
		return die("VM %d is running - destroy failed", m.id)
	}
	return nil
}

// remove destroys a machine and its disks. ISO images are nobody's: they stay.
func (c *Cloud) remove(m *machine) error {
	if c.machines[m.id] != m {
		return noConfig(m.node, m.id)
	}
	if err := checkDestroy(m); err != nil {
		return err
	}
	if err := m.locked(); err != nil {
		return err
	}
	if c.cloned(m) {
		return die("base volume of VM %d is still in use by linked cloned", m.id)
	}
	c.freeDisks(m.id)
	c.forget(m.id)
	return nil
}

// cloned reports whether linked clones need a template's disks.
func (c *Cloud) cloned(m *machine) bool {
	for _, option := range driveNames(m.config) {
		base := parseDrive(m.config[option]).volume
		for _, v := range c.volumes {
			if v.owner != m.id && len(v.id) > len(base) && v.id[:len(base)+1] == base+"/" {
				return true
			}
		}
	}
	return false
}

// forget removes a machine from the cluster's lists.
func (c *Cloud) forget(vmid int) {
	delete(c.machines, vmid)
	for pool, members := range c.pools {
		kept := []int{}
		for _, id := range members {
			if id != vmid {
				kept = append(kept, id)
			}
		}
		c.pools[pool] = kept
	}
}
