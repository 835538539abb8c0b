package awsfake

import (
	"maps"
	"net/netip"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// machine is one instance.
type machine struct {
	n           int // in order of creation
	id          string
	reservation string
	token       string
	born        time.Time
	order
	life    life
	tags    map[string]string
	ipv4    netip.Addr
	ipv6    netip.Addr
	nic     string                // its first network interface
	hangs   bool                  // its system does nothing any more
	stuck   map[int]*netInterface // taken away by force, by the index that it keeps blocked
	console []byte                // the end of what it has written
	notice  time.Time             // when a spot machine is to end; the zero value: it was not told
}

// Machine is the truth about an instance, whatever the API shows.
type Machine struct {
	ID         string
	Token      string // the client token it was launched with
	State      types.InstanceStateName
	LaunchedAt time.Time
	Type       string
	Image      string
	Subnet     string
	Zone       string
	IPv4, IPv6 netip.Addr
	Spot       bool
	Tags       map[string]string
	UserData   []byte
}

func (m *machine) truth(now time.Time) Machine {
	at, _ := m.life.at(now)
	return Machine{
		ID: m.id, Token: m.token, State: at.state, LaunchedAt: m.born,
		Type: m.kind.Name, Image: m.image.ID, Subnet: m.subnet.ID, Zone: m.subnet.Zone,
		IPv4: m.ipv4, IPv6: m.ipv6, Spot: m.spot, Tags: maps.Clone(m.tags), UserData: m.userData,
	}
}

// is reports whether a machine has the state at a time.
func (m *machine) is(when time.Time, states ...types.InstanceStateName) bool {
	at, born := m.life.at(when)
	for _, state := range states {
		if born && at.state == state {
			return true
		}
	}
	return false
}

const (
	pending    = types.InstanceStateNamePending
	running    = types.InstanceStateNameRunning
	ending     = types.InstanceStateNameShuttingDown
	terminated = types.InstanceStateNameTerminated
	stopping   = types.InstanceStateNameStopping
	stopped    = types.InstanceStateNameStopped
)

// shows reports whether a machine is described to somebody who sees the world as it
// was then.
func (m *machine) shows(then time.Time, linger time.Duration) bool {
	at, born := m.life.at(then)
	return born && (at.state != terminated || then.Sub(at.since) < linger)
}

// seen is the time in the past that describing calls show.
func (c *Cloud) seen() time.Time { return time.Now().Add(-c.opts.Lag) }

// known is the time in the past that other calls know of.
func (c *Cloud) known() time.Time {
	if c.opts.LagAll {
		return c.seen()
	}
	return time.Now()
}

// find returns the machine of an id, or nil.
func (c *Cloud) find(id string) *machine {
	for _, m := range c.machines {
		if m.id == id {
			return m
		}
	}
	return nil
}

// settle brings the account up to now: what has passed is over, and machines that
// nothing shows any more are dropped. Their client tokens stay used.
func (c *Cloud) settle() {
	c.letGo(time.Now())
	then := c.seen()
	kept := c.machines[:0]
	for _, m := range c.machines {
		if _, born := m.life.at(then); !born || m.shows(then, c.opts.Linger) {
			kept = append(kept, m)
		}
	}
	clear(c.machines[len(kept):])
	c.machines = kept
}

// free is how many addresses a subnet has left at a time.
func (c *Cloud) free(s Subnet, when time.Time) int {
	const kept = 5 // the first four and the last of each subnet
	return 1<<(32-s.IPv4.Bits()) - kept - len(c.taken(s, when))
}

// taken are the addresses of a subnet that are in use at a time.
func (c *Cloud) taken(s Subnet, when time.Time) map[netip.Addr]bool {
	used := map[netip.Addr]bool{}
	for _, i := range c.interfaces {
		if i.Subnet == s.ID {
			used[i.IPv4] = true
		}
	}
	for _, m := range c.machines {
		if at, born := m.life.at(when); born && at.state != terminated && m.subnet.ID == s.ID {
			used[m.ipv4] = true
		}
	}
	return used
}

// addresses gives a new machine its addresses: the lowest that is free, and the one
// of the same number for IPv6.
func addresses(s Subnet, used map[netip.Addr]bool) (v4, v6 netip.Addr) {
	v4, v6 = s.IPv4.Masked().Addr(), s.IPv6.Masked().Addr()
	for n := 0; n < 4 || used[v4]; n++ {
		v4 = v4.Next()
		if v6.IsValid() {
			v6 = v6.Next()
		}
	}
	return v4, v6
}
