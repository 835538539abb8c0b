package proxmoxfake

import (
	"crypto/sha1" //nolint:gosec // the digest of a configuration is one by definition
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

type node struct {
	Node
	online bool
	since  time.Time
}

// machine is a virtual machine. Its configuration is what its file says, the option
// "lock" included.
type machine struct {
	id      int
	node    string
	config  map[string]string
	running bool
	paused  bool
	deaf    bool // does not listen to a request to shut down
	since   time.Time
	pid     int
	guest   Running // what it runs; may be nil
	fw      string  // its firewall file
}

func (m *machine) template() bool { return m.config["template"] == "1" }

// status is its state in the words of status/current.
func (m *machine) status() string {
	if m.running {
		return "running"
	}
	return "stopped"
}

// qmp is its state as the hypervisor process says it.
func (m *machine) qmp() string {
	if m.running && m.paused {
		return "paused"
	}
	return m.status()
}

// name is what listings call it.
func (m *machine) name() string {
	if name := m.config["name"]; name != "" {
		return name
	}
	return fmt.Sprintf("VM %d", m.id)
}

// halt ends what it runs, politely if it listens.
func (m *machine) halt(politely bool) {
	switch {
	case m.guest == nil:
	case politely:
		m.guest.Stop()
	default:
		m.guest.Kill()
	}
	m.running, m.paused, m.guest, m.pid = false, false, nil, 0
}

// locked returns the error of a machine that is locked.
func (m *machine) locked() error {
	if lock := m.config["lock"]; lock != "" {
		return die("VM is locked (%s)", lock)
	}
	return nil
}

func (m *machine) number(option string, otherwise int) int {
	if n, err := strconv.Atoi(m.config[option]); err == nil {
		return n
	}
	return otherwise
}

func (m *machine) cores() int    { return m.number("cores", 1) * m.number("sockets", 1) }
func (m *machine) memory() int64 { return int64(m.number("memory", 512)) * MiB }

// digest is the checksum of the configuration.
func (m *machine) digest() string {
	var file strings.Builder
	for _, option := range slices.Sorted(maps.Keys(m.config)) {
		fmt.Fprintf(&file, "%s: %s\n", option, m.config[option])
	}
	sum := sha1.Sum([]byte(file.String())) //nolint:gosec // see above
	return hex.EncodeToString(sum[:])
}

// volume is a disk or a file of a storage.
type volume struct {
	place  string // where it is: the storage, and the node if it is not shared
	id     string // storage:name
	owner  int    // the machine whose disk it is; 0: none
	format string
	size   int64
	data   []byte // of an uploaded file
	made   time.Time
}

// place is where the volumes of a storage lie.
func place(s Storage, node string) string {
	if s.Shared {
		return s.Name
	}
	return s.Name + "@" + node
}

func key(place, id string) string { return place + " " + id }

// find returns a volume as seen from a node; nil if it does not exist there.
func (c *Cloud) find(id, node string) *volume {
	name, _, _ := strings.Cut(id, ":")
	s, err := c.store(name, node)
	if err != nil {
		return nil
	}
	return c.volumes[key(place(s, node), id)]
}

// allocate makes a volume.
func (c *Cloud) allocate(v volume) {
	c.fill(v.place, v.size)
	c.volumes[key(v.place, v.id)] = &v
}

// release removes a volume.
func (c *Cloud) release(v *volume) {
	c.fill(v.place, -v.size)
	delete(c.volumes, key(v.place, v.id))
}

// plantTemplate makes a template with its disk.
func (c *Cloud) plantTemplate(t Template) {
	size := t.Disk
	if size == 0 {
		size = 2 * GiB
	}
	s, err := c.store(t.Storage, t.Node)
	if err != nil {
		panic(fmt.Sprintf("template %d: %v", t.VMID, err))
	}
	disk := fmt.Sprintf("%s:base-%d-disk-0", t.Storage, t.VMID)
	c.allocate(volume{place: place(s, t.Node), id: disk, owner: t.VMID, format: "raw", size: size, made: c.epoch})
	config := map[string]string{
		"name": t.Name, "template": "1", "cores": "1", "memory": "1024", "ostype": "l26", "scsihw": "virtio-scsi-pci",
		"scsi0": fmt.Sprintf("%s,size=%s", disk, sizeText(size)), "net0": "virtio=BC:24:11:00:00:01,bridge=vmbr0", "boot": "order=scsi0",
	}
	maps.Copy(config, t.Config)
	for _, option := range driveNames(config) {
		storage, ok := strings.CutSuffix(parseDrive(config[option]).volume, ":cloudinit")
		if !ok {
			continue
		}
		if config[option], err = c.allocateCloudinit(storage, t.Node, t.VMID, c.epoch); err != nil {
			panic(fmt.Sprintf("template %d: %v", t.VMID, err))
		}
	}
	c.machines[t.VMID] = &machine{id: t.VMID, node: t.Node, config: config, since: c.epoch, fw: t.Firewall}
}

// sizeText is a size as a disk's option says it.
func sizeText(n int64) string {
	switch {
	case n%GiB == 0:
		return fmt.Sprintf("%dG", n/GiB)
	case n%MiB == 0:
		return fmt.Sprintf("%dM", n/MiB)
	}
	return fmt.Sprintf("%dK", n/1024)
}
