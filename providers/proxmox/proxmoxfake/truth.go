package proxmoxfake

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// Machine is a virtual machine as it is, whatever listings say.
type Machine struct {
	VMID    int
	Name    string // empty until a clone is done
	Node    string
	Running bool
	Config  map[string]string // "lock" included

	// Firewall is its firewall file. It holds for network devices with firewall=1 alone,
	// see Filtered.
	Firewall string
}

// Filtered reports whether the rules of the machine's firewall file hold for one of its
// network devices, such as net0.
func (m Machine) Filtered(device string) bool {
	on, _ := property(m.Config[device], "firewall")
	return m.Firewall != "" && on == "1"
}

// Machines returns all machines that are no templates, in order of number.
func (c *Cloud) Machines() []Machine {
	var list []Machine
	c.with(func(time.Time) {
		for _, id := range c.ids() {
			if m := c.machines[id]; !m.template() {
				list = append(list, Machine{m.id, m.config["name"], m.node, m.running, maps.Clone(m.config), m.fw})
			}
		}
	})
	return list
}

// Volumes returns the volumes of all storages, as storage:name, in order. Those of
// storages that are not shared have @ and their node's name behind them.
func (c *Cloud) Volumes() []string {
	var list []string
	c.with(func(time.Time) {
		for _, v := range c.volumes {
			if _, node, local := strings.Cut(v.place, "@"); local {
				list = append(list, v.id+"@"+node)
			} else {
				list = append(list, v.id)
			}
		}
	})
	slices.Sort(list)
	return list
}

// byName returns the machine of a name; nil if there is none.
func (c *Cloud) byName(name string) *machine {
	for _, m := range c.machines {
		if m.config["name"] == name {
			return m
		}
	}
	return nil
}

// Kill ends the process of the machine of a name, as a crash of its hypervisor
// process does. It reports whether there was one.
func (c *Cloud) Kill(name string) (found bool) {
	c.with(func(time.Time) {
		if m := c.byName(name); m != nil && m.running {
			m.halt(false)
			found = true
		}
	})
	return found
}

// Remove destroys the machine of a name with its disks, as a person does in the web
// interface. It reports whether there was one.
func (c *Cloud) Remove(name string) (found bool) {
	c.with(func(time.Time) {
		if m := c.byName(name); m != nil {
			m.halt(false)
			c.freeDisks(m.id)
			c.forget(m.id)
			found = true
		}
	})
	return found
}

// Move migrates the machine of a name to another node, with its disks. It reports
// whether there was one.
func (c *Cloud) Move(name, node string) (found bool) {
	c.with(func(time.Time) {
		m := c.byName(name)
		if m == nil || c.nodes[node] == nil {
			return
		}
		for id, v := range c.volumes {
			if s, from, local := strings.Cut(v.place, "@"); v.owner == m.id && local && from == m.node {
				delete(c.volumes, id)
				v.place = s + "@" + node
				c.volumes[key(v.place, v.id)] = v
			}
		}
		m.node, found = node, true
	})
	return found
}

// Plant makes a machine that nobody asked the API for. Its number must be free.
func (c *Cloud) Plant(m Machine) {
	c.with(func(now time.Time) {
		config := maps.Clone(m.Config)
		if config == nil {
			config = map[string]string{}
		}
		if m.Name != "" {
			config["name"] = m.Name
		}
		c.machines[m.VMID] = &machine{id: m.VMID, node: m.Node, config: config, running: m.Running, since: now}
	})
}

// SetDeaf makes the machine of a name ignore requests to shut down.
func (c *Cloud) SetDeaf(name string, deaf bool) {
	c.with(func(time.Time) {
		if m := c.byName(name); m != nil {
			m.deaf = deaf
		}
	})
}

// SetOnline takes a node away, or brings it back. Whatever ran there has ended; a
// task there is lost, and what it was making stays as it was. A machine that starts
// on boot runs again when its node is back. It reports whether there is such a node.
func (c *Cloud) SetOnline(name string, online bool) (found bool) {
	c.with(func(now time.Time) {
		n := c.nodes[name]
		found = n != nil
		if !found || n.online == online {
			return
		}
		n.online, n.since = online, now
		for _, t := range c.tasks {
			if t.node == name && !online {
				t.end(now, "unexpected status")
			}
		}
		for _, m := range c.machines {
			switch {
			case m.node != name:
			case !online:
				m.halt(false)
			case m.config["onboot"] == "1":
				_ = c.boot(m, now) // what does not start stays stopped
			}
		}
	})
	return found
}

// Hide has the cluster's resources show no machine, without an error, or ends that: so
// they look to somebody who has lost the privilege to see machines.
func (c *Cloud) Hide(hidden bool) { c.with(func(time.Time) { c.hidden = hidden }) }

// SetLag replaces [Options].Lag.
func (c *Cloud) SetLag(lag time.Duration) { c.with(func(time.Time) { c.opts.Lag = lag }) }

// SetDuration replaces one of [Options].Durations for tasks that begin from now on.
func (c *Cloud) SetDuration(kind string, takes time.Duration) {
	c.with(func(time.Time) { c.opts.Durations[kind] = takes })
}

// SetRivals has somebody else take the numbers of the next clones, that many, between the
// call and the work. The machines that they make of them stay.
func (c *Cloud) SetRivals(clones int) { c.with(func(time.Time) { c.rivals = clones }) }

// Rivals returns how many of the next clones will lose their number.
func (c *Cloud) Rivals() (left int) {
	c.with(func(time.Time) { left = c.rivals })
	return left
}

// SetRoom sets the bytes that a storage still takes; of one that is not shared, on
// the node. Negative: as many as its size allows.
func (c *Cloud) SetRoom(storage, node string, free int64) {
	c.with(func(time.Time) {
		s, err := c.store(storage, node)
		if err != nil {
			return
		}
		if free < 0 {
			delete(c.free, place(s, node))
			return
		}
		c.free[place(s, node)] = free
	})
}
