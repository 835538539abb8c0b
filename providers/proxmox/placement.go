package proxmox

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"nstance.dev/providers/proxmox/rules"
	"nstance.dev/server/driver"
)

// place chooses where the machine will be, and its number.
func (d *Driver) place(ctx context.Context, j *job) error {
	list, err := d.api.resources(ctx)
	if err != nil {
		return err
	}
	c := clusterOf(list)
	if err := c.hasAny(j.want.Nodes); err != nil {
		return err
	}
	from, first, err := d.templates(ctx, c, j.want)
	if err != nil {
		return err
	}
	s := search{nodes: c.nodes, from: from, need: first.needs(j.want), only: j.want.Nodes, spread: j.want.Spread}
	shown := map[int]bool{}
	if d.opts.PlacementMemory != rules.MemoryUsed {
		s.nodes, shown = careful(c.nodes), c.running()
	}
	chosen, ok := d.reg.reserve(j, s.need, shown, func(k claims) (string, bool) {
		s.taken, s.group = k.taken, c.groupBy(j.request.Owner, j.group(), k.group)
		return s.choose(append(k.failed, j.avoid...), j.avoid)
	})
	if !ok {
		return s.noRoom(c, j.avoid)
	}
	d.opts.Log.Info("placing a machine", "instance", j.request.InstanceID, "node", chosen, "of_its_group_there", s.group[chosen], "memory_mib", s.need.memory>>20)
	j.template = first
	if t := from[chosen]; t != first.at {
		config, err := d.api.config(ctx, t)
		if err != nil {
			return err
		}
		j.template = templateOf(t, config)
	}
	j.shared, j.full = c.shares(j.want.Storage), !c.linked(j.template.storages, j.want.Storage)
	number, err := d.numbers.take(usedNumbers(list))
	d.reg.update(j, func(p *progress) { p.at.vmid = number })
	return err
}

// templates says what a machine can be cloned from on each node. first is one of the
// templates; they count as equal but for where they are.
func (d *Driver) templates(ctx context.Context, c cluster, want rules.Settings) (from map[string]at, first template, err error) {
	own, err := c.templates(want)
	if err != nil {
		return nil, first, err
	}
	t := own[sortedKeys(own)[0]]
	config, err := d.api.config(ctx, t)
	if err != nil {
		return nil, first, err
	}
	first = templateOf(t, config)
	from = c.sources(own, first, want, d.opts.ISOStorage)
	if len(from) == 0 {
		return nil, first, be(driver.MissingRef,
			"no node that is online has the template, the storage %q for its disks and the storage %q for its CD", want.Storage, d.opts.ISOStorage)
	}
	return from, first, nil
}

// search is everything that the choice of a node depends on.
type search struct {
	nodes  []node
	from   map[string]at   // what a machine can be cloned from, by node
	taken  map[string]need // by creates under way
	group  map[string]int  // machines of the same group, by node
	need   need
	only   []string // nodes; empty: all
	spread string   // empty: rules.SpreadPrefer
}

// choose returns a node. Those to pass over are taken if there is no other one, unless
// they are out altogether.
func (s search) choose(passOver, out []string) (string, bool) {
	for _, not := range [][]string{passOver, out} {
		left := slices.DeleteFunc(slices.Clone(s.nodes), func(n node) bool {
			_, has := s.from[n.name]
			return !has || slices.Contains(not, n.name) || !s.allows(n.name)
		})
		for _, tier := range s.tiers(left) {
			if chosen, ok := choose(tier, s.taken, s.need); ok {
				return chosen, true
			}
		}
	}
	return "", false
}

func (s search) allows(node string) bool { return len(s.only) == 0 || slices.Contains(s.only, node) }

// tiers are nodes in the order in which they are tried: those first with the fewest
// machines of the group.
func (s search) tiers(nodes []node) [][]node {
	if s.spread == rules.SpreadOff {
		return [][]node{nodes}
	}
	byCount := map[int][]node{}
	for _, n := range nodes {
		byCount[s.group[n.name]] = append(byCount[s.group[n.name]], n)
	}
	if s.spread == rules.SpreadRequire {
		return [][]node{byCount[0]}
	}
	var tiers [][]node
	for _, count := range slices.Sorted(maps.Keys(byCount)) {
		tiers = append(tiers, byCount[count])
	}
	return tiers
}

// noRoom is the error of a machine that no node takes.
func (s search) noRoom(c cluster, avoid []string) error {
	if c.blind && len(c.nodes) == 0 {
		return be(driver.Auth, "the nodes are listed without their memory; the token needs Sys.Audit on /")
	}
	var says []string
	for _, n := range s.nodes {
		_, has := s.from[n.name]
		switch {
		case !s.allows(n.name):
			says = append(says, n.name+" is not in Nodes")
		case slices.Contains(avoid, n.name):
			says = append(says, n.name+" has failed")
		case !has:
			says = append(says, n.name+" lacks template or storage")
		case s.spread == rules.SpreadRequire && s.group[n.name] > 0:
			says = append(says, n.name+" has a machine of the group, and Spread is require")
		default:
			says = append(says, fmt.Sprintf("%s has %d MiB, less %d MiB of creates under way", n.name, n.memory>>20, s.taken[n.name].memory>>20))
		}
	}
	return be(driver.Capacity, "no node has %d MiB of memory free: %s", s.need.memory>>20, strings.Join(says, "; "))
}

// careful returns nodes with no more free memory than is left if every guest takes all
// that it may.
func careful(nodes []node) []node {
	list := slices.Clone(nodes)
	for i := range list {
		list[i].memory = min(list[i].memory, list[i].uncommitted)
	}
	return list
}

// hasAny returns an error if the cluster has none of the nodes that a machine may be on.
func (c cluster) hasAny(nodes []string) error {
	if len(nodes) == 0 || slices.ContainsFunc(nodes, func(n string) bool { return slices.Contains(c.names, n) }) {
		return nil
	}
	return be(driver.MissingRef, "Nodes: the cluster has none of %s; it has %s", strings.Join(nodes, ", "), strings.Join(c.names, ", "))
}

// running are the numbers of machines that are listed as running.
func (c cluster) running() map[int]bool {
	numbers := map[int]bool{}
	for _, s := range c.machines {
		if s.status == "running" {
			numbers[s.vmid] = true
		}
	}
	return numbers
}

// groupBy counts the machines of a group by node: those that the list shows, and those of
// creates under way that it does not.
func (c cluster) groupBy(owner driver.Owner, group string, underway []at) map[string]int {
	count, counted := map[string]int{}, map[int]bool{}
	for _, s := range c.machines {
		if group != "" && !s.template && slices.Contains(s.tags, group) && ownedBy(s.tags, owner) {
			count[s.node]++
			counted[s.vmid] = true
		}
	}
	for _, m := range underway {
		if !counted[m.vmid] {
			count[m.node]++
		}
	}
	return count
}
