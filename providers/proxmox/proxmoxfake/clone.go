package proxmoxfake

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

var cloneSchema = schema{
	"newid":       {kind: "integer", min: vmidParam.min, max: vmidParam.max, required: true},
	"name":        {format: dnsName, like: "DNS name"},
	"description": {length: 8192},
	"pool":        {},
	"snapname":    {length: 40},
	"storage":     {},
	"format":      {enum: []string{"raw", "qcow2", "vmdk"}},
	"full":        {kind: "boolean"},
	"target":      {},
	"bwlimit":     {kind: "integer"},
}

// cloning is a clone that was found possible.
type cloning struct {
	from, to    int
	node        string // the template's: the worker runs there
	target      string // the new machine's
	storage     string // of the copies; empty: the template's
	full        bool
	name, notes string
	pool        string
}

func (c *Cloud) clone(r *request) (any, error) {
	to, _ := strconv.Atoi(r.params["newid"])
	job := cloning{
		from: r.vmid, to: to, node: r.node, target: r.params["target"], storage: r.params["storage"],
		name: r.params["name"], notes: r.params["description"], pool: r.params["pool"],
	}
	where, _, _ := strings.Cut(c.allocatesOn(job), "@")
	for _, grant := range []struct{ path, privilege string }{
		{fmt.Sprintf("/vms/%d", to), "VM.Allocate"},
		{"/storage/" + where, "Datastore.AllocateSpace"},
	} {
		if err := r.need(grant.path, grant.privilege); err != nil {
			return nil, err
		}
	}
	if m := c.machines[r.vmid]; m != nil {
		if err := r.mayBridges(m.config); err != nil {
			return nil, err
		}
	}
	if job.target == "" {
		job.target = r.node
	}
	full, given := truth(r.params["full"])
	job.full = full
	if m := c.machines[r.vmid]; !given && m != nil {
		job.full = !m.template()
	}
	if err := c.checkClone(job, r.params); err != nil {
		return nil, err
	}
	worker := func(t *task, now time.Time) { c.beginClone(t, now, job, r.params) }
	return c.fork(r, "qmclone", strconv.Itoa(r.vmid), job.name, worker), nil
}

// checkClone is done when the call arrives, and again when the worker begins.
func (c *Cloud) checkClone(job cloning, params map[string]string) error {
	if _, exists := c.pools[job.pool]; job.pool != "" && !exists {
		return die("pool '%s' does not exist", job.pool)
	}
	if c.nodes[job.target] == nil {
		return die("no such cluster node '%s'", job.target)
	}
	if err := c.checkTarget(job); err != nil {
		return err
	}
	m := c.machines[job.from]
	if m == nil || m.node != job.node {
		return noConfig(job.node, job.from)
	}
	if err := m.locked(); err != nil {
		return err
	}
	for _, option := range []string{"storage", "format"} {
		if params[option] != "" && !job.full {
			return die("parameter '%s' not allowed for linked clones", option)
		}
	}
	for _, option := range driveNames(m.config) {
		d := parseDrive(m.config[option])
		name, _, _ := strings.Cut(d.volume, ":")
		s, err := c.store(name, job.node)
		if err != nil {
			continue // an empty drive
		}
		if !s.Shared && job.target != job.node {
			return die("can't clone VM to node '%s' (VM uses local storage)", job.target)
		}
		if !job.full && !m.template() && !d.cdrom() {
			return die("Linked clone feature is not supported for '%s' (%s)", d.volume, option)
		}
	}
	if other := c.machines[job.to]; other != nil && other.node == job.node {
		return die("unable to create VM %d: config file already exists", job.to)
	}
	return nil
}

// checkTarget checks that copies may lie where they shall.
func (c *Cloud) checkTarget(job cloning) error {
	if job.storage == "" {
		return nil
	}
	s, err := c.store(job.storage, job.target)
	if err != nil {
		return err
	}
	if !s.holds("images") {
		return badParam("storage", "storage '%s' does not support vm images", s.Name)
	}
	if job.target != job.node && !s.Shared {
		return die("can't clone to non-shared storage '%s'", s.Name)
	}
	return nil
}

// beginClone is the worker: it checks again, takes the number, and waits for the
// storage. A number that another worker has taken meanwhile ends it.
func (c *Cloud) beginClone(t *task, now time.Time, job cloning, params map[string]string) {
	if c.rivals > 0 && c.machines[job.to] == nil {
		c.rivals--
		c.machines[job.to] = &machine{id: job.to, node: job.node, config: map[string]string{"name": fmt.Sprint("rival-", job.to)}, since: now}
	}
	if m := c.machines[job.to]; m != nil && m.node == job.node && m.config["lock"] == "clone" {
		c.later(t, now, c.opts.scaled(numberPatience), func(now time.Time) { t.fail(now, lockTimeout(job.to)) })
		return
	}
	if err := c.checkClone(job, params); err != nil {
		t.fail(now, err)
		return
	}
	if c.machines[job.to] != nil { // on another node: the cluster's file system refuses
		t.fail(now, die("unable to open file '/etc/pve/nodes/%s/qemu-server/%d.conf.tmp.%d' - File exists", job.node, job.to, t.pid))
		return
	}
	c.machines[job.to] = &machine{id: job.to, node: job.node, config: map[string]string{"lock": "clone"}, since: now}
	t.undo = func() { c.undoClone(job.to) }
	takes := c.opts.takes("qmclone")
	if job.full {
		takes = c.opts.takes("qmclone:full")
	}
	where := c.allocatesOn(job)
	from, ok := c.storage.take(where, now, c.opts.scaled(storagePatience), c.opts.takes("qmclone"))
	if !ok {
		name, _, _ := strings.Cut(where, "@")
		c.later(t, from, 0, func(now time.Time) {
			c.undoClone(job.to)
			t.fail(now, die("clone failed: cfs-lock 'storage-%s' error: got lock request timeout", name))
		})
		return
	}
	c.later(t, from, takes, func(now time.Time) { c.endClone(t, now, job) })
}

// allocatesOn is the place whose lock a clone holds while it allocates.
func (c *Cloud) allocatesOn(job cloning) string {
	name := job.storage
	if m := c.machines[job.from]; name == "" && m != nil {
		for _, option := range driveNames(m.config) {
			if d := parseDrive(m.config[option]); !d.cdrom() {
				name, _, _ = strings.Cut(d.volume, ":")
				break
			}
		}
	}
	s, err := c.store(name, job.node)
	if err != nil {
		return name
	}
	return place(s, job.node)
}

// endClone makes the disks and the configuration, and hands the machine over to its
// node.
func (c *Cloud) endClone(t *task, now time.Time, job cloning) {
	from, to := c.machines[job.from], c.machines[job.to]
	if from == nil || to == nil {
		t.end(now, "clone failed: unexpected state change")
		return
	}
	config := map[string]string{}
	for option, value := range from.config {
		switch {
		case option == "template" || option == "lock" || strings.HasPrefix(option, "unused"):
		case driveName.MatchString(option) && (!parseDrive(value).cdrom() || parseDrive(value).cloudinit()):
			copied, err := c.copyDrive(value, job, now)
			if err != nil {
				c.undoClone(job.to)
				t.end(now, "clone failed: "+err.Error())
				return
			}
			config[option] = copied
		case strings.HasPrefix(option, "net"):
			config[option] = newAddress(value, job.to)
		default:
			config[option] = value
		}
	}
	config["name"] = job.name
	if job.name == "" {
		config["name"] = "Copy-of-VM-" + from.name()
	}
	if job.notes != "" {
		config["description"] = strings.TrimRightFunc(job.notes, unicode.IsSpace)
	}
	to.config, to.node, to.fw = config, job.target, from.fw
	if job.pool != "" {
		c.pools[job.pool] = append(c.pools[job.pool], job.to)
	}
	t.end(now, "OK")
}

// copyDrive makes the copy of a disk; of a cloud-init drive, which is never linked, one of
// the machine's own.
func (c *Cloud) copyDrive(value string, job cloning, now time.Time) (string, error) {
	d := parseDrive(value)
	if !d.cloudinit() {
		return c.copyDisk(value, job, now)
	}
	storage, _, _ := strings.Cut(d.volume, ":")
	if job.storage != "" {
		storage = job.storage
	}
	return c.allocateCloudinit(storage, job.node, job.to, now)
}

// copyDisk makes the copy of a disk, whole or linked, and returns its option.
func (c *Cloud) copyDisk(value string, job cloning, now time.Time) (string, error) {
	d := parseDrive(value)
	source := c.find(d.volume, job.node)
	if source == nil {
		return "", die("volume '%s' does not exist", d.volume)
	}
	name, base, _ := strings.Cut(d.volume, ":")
	disk := fmt.Sprintf("vm-%d-disk-%d", job.to, c.diskCount(job.to))
	v := volume{owner: job.to, format: "raw", size: source.size, made: now}
	switch {
	case !job.full:
		disk = base + "/" + disk
	case job.storage != "":
		name = job.storage
	}
	s, err := c.store(name, job.node)
	if err != nil {
		return "", err
	}
	v.place, v.id = place(s, job.node), name+":"+disk
	if c.room(s, job.node) < v.size {
		return "", noSpace(s, v)
	}
	c.allocate(v)
	d.volume = v.id
	return d.sized(v.size), nil
}

// undoClone removes what a failed clone made.
func (c *Cloud) undoClone(vmid int) {
	c.freeDisks(vmid)
	delete(c.machines, vmid)
}

func (c *Cloud) freeDisks(vmid int) {
	for _, v := range c.volumes {
		if v.owner == vmid {
			c.release(v)
		}
	}
}

// newAddress gives a network device a hardware address of its own, and the form in which
// the configuration's file has it: the model first.
func newAddress(value string, vmid int) string {
	parts := strings.Split(value, ",")
	model, _, _ := strings.Cut(parts[0], "=")
	if long, ok := property(value, "model"); ok {
		model = long
		parts = slices.DeleteFunc(parts, func(p string) bool { return strings.HasPrefix(p, "model=") || strings.HasPrefix(p, "macaddr=") })
		parts = append([]string{""}, parts...)
	}
	parts[0] = fmt.Sprintf("%s=BC:24:11:%02X:%02X:%02X", model, vmid>>16&0xff, vmid>>8&0xff, vmid&0xff)
	return strings.Join(parts, ",")
}
