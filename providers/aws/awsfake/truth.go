package awsfake

import (
	"maps"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// Machines returns the truth about all machines, in order of creation, and among
// them those that have ended for as long as they are still described.
func (c *Cloud) Machines() []Machine {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	now := time.Now()
	all := make([]Machine, 0, len(c.machines))
	for _, m := range c.machines {
		all = append(all, m.truth(now))
	}
	return all
}

// Alive returns those machines that have not been terminated and are not about to be.
func (c *Cloud) Alive() []Machine {
	var alive []Machine
	for _, m := range c.Machines() {
		if m.State != ending && m.State != terminated {
			alive = append(alive, m)
		}
	}
	return alive
}

// SetRoom sets how many machines still fit into a place. Those that end give nothing
// back; a negative number takes the limit away.
func (c *Cloud) SetRoom(p Place, machines int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if machines < 0 {
		delete(c.room, p)
		return
	}
	c.room[p] = machines
}

// SetQuota sets how many vCPUs may run at once; 0 takes the limit away.
func (c *Cloud) SetQuota(vCPUs int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.quota = vCPUs
}

// Doom has the next launches, that many, come to nothing: they succeed, and the machine
// is terminated when it should run, as EC2 does when it fails to bring it up.
func (c *Cloud) Doom(launches int) { c.DoomFor(launches, byFailure.Code, "Internal error on launch") }

// DoomFor is Doom with the reason that EC2 then tells, such as Client.InternalError where
// the launch may not use the key of an encrypted volume.
func (c *Cloud) DoomFor(launches int, code, message string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.doomed, c.doom = launches, stateReason{code, code + ": " + message}
}

// Hide has searches find no machine, without an error, or ends that. Who names machines
// by their ids still finds them.
func (c *Cloud) Hide(hidden bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hidden = hidden
}

// SetLag replaces [Options].Lag.
func (c *Cloud) SetLag(lag time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opts.Lag = lag
}

// SetEnd replaces [Options].End for machines that are terminated from now on.
func (c *Cloud) SetEnd(end time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opts.End = end
}

// Hang has a machine do nothing any more while EC2 goes on to say that it runs: it does
// not even let go of a network interface that is detached without force. It reports
// whether the machine was on.
func (c *Cloud) Hang(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.find(id)
	if m == nil || !m.is(time.Now(), pending, running) {
		return false
	}
	m.hangs = true
	c.guests.stop(id, 0)
	return true
}

// Kill has a machine power itself off, as one does whose kernel has had enough. It
// is stopped then, or terminated if it was launched so. It reports whether the machine
// was on.
func (c *Cloud) Kill(id string) bool { return c.powerOff(id) }

// Remove takes a machine out of the world without a trace, and reports whether there
// was one.
func (c *Cloud) Remove(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, m := range c.machines {
		if m.id == id {
			c.guests.stop(id, 0)
			c.machines = append(c.machines[:i:i], c.machines[i+1:]...)
			return true
		}
	}
	return false
}

// Copy launches a machine like another one, with its tags, as somebody does at the
// console, and returns its id.
func (c *Cloud) Copy(id string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.find(id)
	if of == nil {
		return ""
	}
	o := of.order
	o.tagsOf = map[types.ResourceType]map[string]string{types.ResourceTypeInstance: maps.Clone(of.tags)}
	now := time.Now()
	m := c.launch(o, c.nextID("r-"), "by-hand", now)
	m.life = life{{since: now, state: running}}
	return m.id
}

// Plant puts a running machine into the account that somebody else has launched, in
// the first subnet, and returns its id. Nothing runs in it.
func (c *Cloud) Plant(tags map[string]string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := order{
		subnet: c.account.Subnets[0], image: c.account.Images[0], groups: c.account.SecurityGroups[:1],
		tagsOf: map[types.ResourceType]map[string]string{types.ResourceTypeInstance: maps.Clone(tags)},
	}
	for _, t := range c.account.Types {
		if string(t.Architecture) == string(o.image.Architecture) {
			o.kind = t
		}
	}
	now := time.Now()
	m := c.launch(o, c.nextID("r-"), "", now)
	m.life = life{{since: now, state: running}}
	return m.id
}
