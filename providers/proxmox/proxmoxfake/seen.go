package proxmoxfake

import "time"

// staleAfter is how long the cluster remembers what a node said that says no more.
const staleAfter = 5 * time.Minute

// seen is the cluster as the status daemons reported it last. Names, statuses and
// loads in listings come from here; which machines there are, and their tags and
// locks, the cluster's file system knows at once.
type seen struct {
	round    time.Time
	nodes    map[string]nodeStats
	machines map[int]stats
}

type stats struct {
	at            time.Time
	name, status  string
	template      bool
	uptime        int64
	cores         int
	memory, inUse int64
	cpu           float64
	disk          int64
}

type nodeStats struct {
	cpu    float64
	memory int64 // in use
	uptime int64
}

// look lets the status daemons have their last round before, or at, a time, unless
// they have had it.
func (c *Cloud) look(now time.Time) {
	round := now
	if lag := c.opts.scaled(c.opts.Lag); lag > 0 {
		round = c.epoch.Add(now.Sub(c.epoch).Truncate(lag))
		if c.seen.nodes != nil && !round.After(c.seen.round) {
			return
		}
	}
	old := c.seen.machines
	c.seen = seen{round: round, nodes: map[string]nodeStats{}, machines: map[int]stats{}}
	for name, n := range c.nodes {
		if n.online {
			c.seen.nodes[name] = c.nodeStats(name, round)
		}
	}
	for id, m := range c.machines {
		if c.nodes[m.node].online {
			c.seen.machines[id] = c.stats(m, round)
		} else if s, known := old[id]; known && round.Sub(s.at) < c.opts.scaled(staleAfter) {
			c.seen.machines[id] = s
		}
	}
}

// idle divides the memory that a machine may take: what it has touched is less, and that is
// all that a node counts as used. A node takes machines whose memory together is more than
// its own; it dies of it when they want what is theirs.
const idle = 8

func (c *Cloud) stats(m *machine, now time.Time) stats {
	s := stats{
		at: now, name: m.name(), status: m.qmp(), template: m.template(),
		cores: m.cores(), memory: m.memory(), disk: c.diskSize(m),
	}
	if m.running {
		s.uptime, s.cpu, s.inUse = int64(now.Sub(m.since).Seconds()), 0.1, m.memory()/idle
	}
	return s
}

// nodeStats is the load of a node: the machine's own, and that of its guests.
func (c *Cloud) nodeStats(name string, now time.Time) nodeStats {
	n := c.nodes[name]
	s := nodeStats{cpu: 0.01, memory: 2 * GiB, uptime: int64(now.Sub(n.since).Seconds()) + 1}
	for _, m := range c.machines {
		if m.node == name && m.running {
			s.cpu += 0.1 * float64(m.cores()) / float64(n.Cores)
			s.memory += m.memory() / idle
		}
	}
	s.cpu = min(s.cpu, 1)
	return s
}

// diskSize is the size of the first disk.
func (c *Cloud) diskSize(m *machine) int64 {
	for _, option := range driveNames(m.config) {
		d := parseDrive(m.config[option])
		if v := c.find(d.volume, m.node); v != nil && !d.cdrom() {
			return v.size
		}
	}
	return 0
}
