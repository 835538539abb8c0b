package proxmox

import (
	"slices"
	"strconv"
	"strings"

	"nstance.dev/protos/identity"
)

// cluster is what one listing of its resources says.
type cluster struct {
	nodes    []node          // that take machines, and show their figures
	names    []string        // of all nodes
	online   map[string]bool // nodes
	blind    bool            // nodes are listed without figures: the token may not see them
	machines []sighting
	storages map[string]map[string]storage // by name, then node
}

// sighting is a machine, or a template, in the cluster's list.
type sighting struct {
	at
	name     string // empty: not known at the moment
	status   string
	lock     string
	tags     []string
	template bool
}

type storage struct {
	kind   string // dir, lvmthin, rbd, …
	shared bool
}

func clusterOf(list []resource) cluster {
	c := cluster{online: map[string]bool{}, storages: map[string]map[string]storage{}}
	for _, r := range list {
		switch r.Type {
		case "node":
			c.addNode(r)
		case "storage":
			if c.storages[r.Storage] == nil {
				c.storages[r.Storage] = map[string]storage{}
			}
			c.storages[r.Storage][r.Node] = storage{r.PluginType, r.Shared != 0}
		}
	}
	c.machines = sightingsOf(list)
	c.commit(list)
	return c
}

// commit takes the memory of guests that run, containers too, from their nodes: all that
// they may use, whether they do or not.
func (c *cluster) commit(list []resource) {
	for _, r := range list {
		if r.Type != "qemu" && r.Type != "lxc" || r.Status == "stopped" || r.Status == "unknown" {
			continue
		}
		if i := slices.IndexFunc(c.nodes, func(n node) bool { return n.name == r.Node }); i >= 0 {
			c.nodes[i].uncommitted -= int64(r.MaxMem)
		}
	}
}

func (c *cluster) addNode(r resource) {
	c.names = append(c.names, r.Node)
	if r.Status != "online" {
		return
	}
	c.online[r.Node] = true
	if r.HAstate == "maintenance" {
		return
	}
	if r.MaxMem == 0 {
		c.blind = true
		return
	}
	c.nodes = append(c.nodes, node{
		name:        r.Node,
		memory:      int64(r.MaxMem) - int64(r.Mem),
		uncommitted: int64(r.MaxMem),
		cores:       float64(r.MaxCPU) * (1 - r.CPU),
	})
}

// sightingsOf are the virtual machines of a listing, containers left out, in order of
// number.
func sightingsOf(list []resource) []sighting {
	var found []sighting
	for _, r := range list {
		if r.Type == "qemu" {
			found = append(found, sighting{
				at:   at{r.Node, int(r.VMID)},
				name: r.name(), status: r.Status, lock: r.Lock, tags: splitTags(r.Tags), template: r.Template != 0,
			})
		}
	}
	slices.SortFunc(found, func(a, b sighting) int { return a.vmid - b.vmid })
	return found
}

// usedNumbers are the numbers that are taken, by whatever.
func usedNumbers(list []resource) []int {
	var used []int
	for _, r := range list {
		if r.VMID != 0 {
			used = append(used, int(r.VMID))
		}
	}
	return used
}

// holds reports whether a node has a storage. Where no storage at all is shown, the
// token may not see them, and the API will say.
func (c cluster) holds(storage, node string) bool {
	_, ok := c.storages[storage][node]
	return ok || len(c.storages) == 0
}

// shares reports whether a storage is one and the same on all nodes.
func (c cluster) shares(name string) bool {
	for _, s := range c.storages[name] {
		return s.shared
	}
	return false
}

// places are nodes through which all of a storage can be reached, as far as it can: one
// where it is shared, else every node that is online and has it.
func (c cluster) places(storage string) []string {
	has := slices.DeleteFunc(sortedKeys(c.storages[storage]), func(node string) bool { return !c.online[node] })
	if c.shares(storage) {
		return has[:min(len(has), 1)]
	}
	return has
}

// id returns whose machine this is by what the list shows: by its name, or by its tag
// while there is no name. Empty: nobody's, or not known.
func (s sighting) id() identity.ID {
	if s.name == "" {
		return taggedID(s.tags)
	}
	id, err := identity.ParseID(s.name)
	if err != nil {
		return ""
	}
	return id
}

// name is the name in a resource. Of a machine whose disks were being copied when
// it was looked at last the list shows its number instead.
func (r resource) name() string {
	if r.Name == "VM "+strconv.FormatUint(r.VMID, 10) {
		return ""
	}
	return r.Name
}

// Storages that can hold a copy which refers to its template: those that the storage
// chapter of the administration guide lists with clones, and those of files.
var linking = []string{"btrfs", "cephfs", "cifs", "dir", "glusterfs", "lvmthin", "nfs", "rbd", "zfs", "zfspool"}

// linked reports whether a template whose disks lie on the storages from can be cloned
// onto a storage without copying its disks.
func (c cluster) linked(from []string, onto string) bool {
	for _, s := range c.storages[onto] {
		return slices.Contains(linking, s.kind) && !slices.ContainsFunc(from, func(name string) bool { return name != onto })
	}
	return false
}

// storageOf is the storage of a volume.
func storageOf(volume string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(volume, "file="), ":")
	return name
}
