// Package cluster reads what a listing of the cluster's resources says: its nodes with what
// is free on them, its storages, its machines and templates. It is pure: it asks nothing.
package cluster

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"nstance.dev/protos/identity"
	"nstance.dev/providers/proxmox/api"
	"nstance.dev/providers/proxmox/metadata"
	"nstance.dev/providers/proxmox/placement"
	"nstance.dev/server/driver"
)

// State is what one listing of the cluster's resources says.
type State struct {
	Nodes    []placement.Node // that take machines, and show their figures
	names    []string         // of all nodes
	Online   map[string]bool  // nodes
	Blind    bool             // nodes are listed without figures: the token may not see them
	Machines []Machine
	storages map[string]map[string]storage // by name, then node
}

// Machine is a machine, or a template, in the cluster's list.
type Machine struct {
	api.VM
	Name     string // empty: not known at the moment
	Status   string
	Lock     string
	Tags     []string
	Template bool
}

type storage struct {
	kind   string // dir, lvmthin, rbd, …
	shared bool
}

// Of reads a listing, in any order.
func Of(list []api.Resource) State {
	c := State{Online: map[string]bool{}, storages: map[string]map[string]storage{}}
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
	c.Machines = machinesOf(list)
	c.commit(list)
	return c
}

// commit takes the memory of guests that run, containers too, from their nodes: all that
// they may use, whether they do or not.
func (c *State) commit(list []api.Resource) {
	for _, r := range list {
		if r.Type != "qemu" && r.Type != "lxc" || r.Status == "stopped" || r.Status == "unknown" {
			continue
		}
		if i := slices.IndexFunc(c.Nodes, func(n placement.Node) bool { return n.Name == r.Node }); i >= 0 {
			c.Nodes[i].Uncommitted -= int64(r.MaxMem)
		}
	}
}

func (c *State) addNode(r api.Resource) {
	c.names = append(c.names, r.Node)
	if r.Status != "online" {
		return
	}
	c.Online[r.Node] = true
	if r.HAstate == "maintenance" {
		return
	}
	if r.MaxMem == 0 {
		c.Blind = true
		return
	}
	c.Nodes = append(c.Nodes, placement.Node{
		Name:        r.Node,
		Memory:      int64(r.MaxMem) - int64(r.Mem),
		Uncommitted: int64(r.MaxMem),
		Cores:       float64(r.MaxCPU) * (1 - r.CPU),
	})
}

// machinesOf are the virtual machines of a listing, containers left out, in order of
// number.
func machinesOf(list []api.Resource) []Machine {
	var found []Machine
	for _, r := range list {
		if r.Type == "qemu" {
			found = append(found, Machine{
				VM:   api.VM{Node: r.Node, Number: int(r.VMID)},
				Name: nameOf(r), Status: r.Status, Lock: r.Lock, Tags: metadata.SplitTags(r.Tags), Template: r.Template != 0,
			})
		}
	}
	slices.SortFunc(found, func(a, b Machine) int { return a.Number - b.Number })
	return found
}

// UsedNumbers are the numbers that are taken, by whatever.
func UsedNumbers(list []api.Resource) []int {
	var used []int
	for _, r := range list {
		if r.VMID != 0 {
			used = append(used, int(r.VMID))
		}
	}
	return used
}

// Holds reports whether a node has a storage. Where no storage at all is shown, the
// token may not see them, and the API will say.
func (c State) Holds(storage, node string) bool {
	_, ok := c.storages[storage][node]
	return ok || len(c.storages) == 0
}

// Shares reports whether a storage is one and the same on all nodes.
func (c State) Shares(name string) bool {
	for _, s := range c.storages[name] {
		return s.shared
	}
	return false
}

// Places are nodes through which all of a storage can be reached, as far as it can: one
// where it is shared, else every node that is online and has it.
func (c State) Places(storage string) []string {
	has := slices.DeleteFunc(slices.Sorted(maps.Keys(c.storages[storage])), func(node string) bool { return !c.Online[node] })
	if c.Shares(storage) {
		return has[:min(len(has), 1)]
	}
	return has
}

// ID returns whose machine this is by what the list shows: by its name, or by its tag
// while there is no name. Empty: nobody's, or not known.
func (s Machine) ID() identity.ID {
	if s.Name == "" {
		return metadata.TaggedID(s.Tags)
	}
	id, err := identity.ParseID(s.Name)
	if err != nil {
		return ""
	}
	return id
}

// nameOf is the name of a machine in the list. Of a machine whose disks were being copied when
// it was looked at last the list shows its number instead.
func nameOf(r api.Resource) string {
	if r.Name == "VM "+strconv.FormatUint(r.VMID, 10) {
		return ""
	}
	return r.Name
}

// Storages that can hold a copy which refers to its template: those that the storage
// chapter of the administration guide lists with clones, and those of files.
var linking = []string{"btrfs", "cephfs", "cifs", "dir", "glusterfs", "lvmthin", "nfs", "rbd", "zfs", "zfspool"}

// Linked reports whether a template whose disks lie on the storages from can be cloned
// onto a storage without copying its disks.
func (c State) Linked(from []string, onto string) bool {
	for _, s := range c.storages[onto] {
		return slices.Contains(linking, s.kind) && !slices.ContainsFunc(from, func(name string) bool { return name != onto })
	}
	return false
}

// HasAny returns an error if the cluster has none of the nodes that a machine may be on.
func (c State) HasAny(nodes []string) error {
	if len(nodes) == 0 || slices.ContainsFunc(nodes, func(n string) bool { return slices.Contains(c.names, n) }) {
		return nil
	}
	return api.Errorf(driver.MissingRef, "Nodes: the cluster has none of %s; it has %s", strings.Join(nodes, ", "), strings.Join(c.names, ", "))
}

// Running are the numbers of machines that are listed as running.
func (c State) Running() map[int]bool {
	numbers := map[int]bool{}
	for _, s := range c.Machines {
		if s.Status == "running" {
			numbers[s.Number] = true
		}
	}
	return numbers
}

// GroupBy counts the machines of a group by node: those that the list shows, and those of
// creates under way that it does not.
func (c State) GroupBy(owner driver.Owner, group string, underway []api.VM) map[string]int {
	count, counted := map[string]int{}, map[int]bool{}
	for _, s := range c.Machines {
		if group != "" && !s.Template && slices.Contains(s.Tags, group) && metadata.OwnedBy(s.Tags, owner) {
			count[s.Node]++
			counted[s.Number] = true
		}
	}
	for _, m := range underway {
		if !counted[m.Number] {
			count[m.Node]++
		}
	}
	return count
}

// Numbered returns the machine that has a number.
func (c State) Numbered(vmid int) (Machine, bool) {
	for _, s := range c.Machines {
		if s.Number == vmid {
			return s, true
		}
	}
	return Machine{}, false
}
