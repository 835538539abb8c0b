package awsfake

import (
	"net/http"
	"reflect"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// Place is where room can be short: a subnet and a type, of which either may be
// empty for all of them.
type Place struct{ Subnet, Type string }

// launched is what came of a launch with a client token.
type launched struct {
	input       *ec2.RunInstancesInput
	reservation string
	machines    []*machine
}

// runInstances launches machines, or says again what an equal call with the same
// client token has launched ("Ensuring idempotency in Amazon EC2 API requests").
func (c *Cloud) runInstances(in *ec2.RunInstancesInput) (any, error) {
	now, token := time.Now(), aws.ToString(in.ClientToken)
	if before := c.byToken[token]; before != nil {
		switch {
		case !reflect.DeepEqual(before.input, in):
			return nil, refuse("IdempotentParameterMismatch",
				"Arguments on this idempotent request are inconsistent with arguments used in previous request(s).")
		case before.machines[0].is(now, terminated): // one that is shutting down is still the answer
			return nil, refuse("IdempotentInstanceTerminated",
				"The request to launch an instance uses the same client token as a previous request for which the instance has been terminated.")
		}
		return before.answer(c, now), nil
	}
	o, err := c.account.check(in)
	if err != nil {
		return nil, err
	}
	count, err := c.fitting(o, now)
	if err != nil {
		return nil, err
	}
	l := &launched{input: in, reservation: c.nextID("r-")}
	for range count {
		m := c.launch(o, l.reservation, token, now)
		if c.doomed > 0 {
			c.doomed--
			m.life = life(nil).then(now, c.doom, pending, c.opts.Boot, terminated)
		} else {
			c.boot(m)
		}
		l.machines = append(l.machines, m)
	}
	if token != "" {
		c.byToken[token] = l
	}
	return l.answer(c, now), nil
}

// fitting is how many machines of an order there is room for: as many as it asks
// for at most, or the error of what is short.
func (c *Cloud) fitting(o order, now time.Time) (int, error) {
	count := o.most
	var short error
	limit := func(n int, err error) {
		if n < count {
			count, short = n, err
		}
	}
	for _, p := range []Place{{o.subnet.ID, o.kind.Name}, {o.subnet.ID, ""}, {"", o.kind.Name}, {}} {
		if room, limited := c.room[p]; limited {
			limit(room, noRoom(o))
		}
	}
	limit(c.free(o.subnet, now), refuse("InsufficientFreeAddressesInSubnet",
		"There are not enough free addresses in subnet '%s' to satisfy the requested number of instances.", o.subnet.ID))
	if c.quota > 0 {
		limit((c.quota-c.vCPUs(now))/o.kind.VCPUs, refuse("VcpuLimitExceeded",
			"You have requested more vCPU capacity than your current vCPU limit of %d allows for the instance bucket "+
				"that the specified instance type belongs to. Please visit http://aws.amazon.com/contact-us/ec2-request to request an adjustment to this limit.", c.quota))
	}
	if count < o.least {
		return 0, short
	}
	return count, nil
}

func noRoom(o order) error {
	return &apiError{http.StatusInternalServerError, "InsufficientInstanceCapacity",
		"We currently do not have sufficient " + o.kind.Name + " capacity in the Availability Zone you requested (" + o.subnet.Zone +
			"). Our system will be working on provisioning additional capacity."}
}

// vCPUs counts what runs against the quota.
func (c *Cloud) vCPUs(now time.Time) int {
	n := 0
	for _, m := range c.machines {
		if m.is(now, pending, running) {
			n += m.kind.VCPUs
		}
	}
	return n
}

// launch makes one machine, without what it is made of.
func (c *Cloud) launch(o order, reservation, token string, now time.Time) *machine {
	for p, room := range c.room {
		if (p.Subnet == "" || p.Subnet == o.subnet.ID) && (p.Type == "" || p.Type == o.kind.Name) {
			c.room[p] = room - 1
		}
	}
	m := &machine{
		n: c.made, id: c.nextID("i-"), reservation: reservation, token: token, born: now, order: o,
		life: life(nil).then(now, stateReason{}, pending, c.opts.Boot, running),
		tags: o.tagsOf[types.ResourceTypeInstance], nic: c.nextID("eni-"),
	}
	m.ipv4, m.ipv6 = addresses(o.subnet, c.taken(o.subnet, now))
	c.machines = append(c.machines, m)
	return m
}

// boot starts what the machine is made of when its time has come.
func (c *Cloud) boot(m *machine) {
	if c.opts.Run == nil {
		return
	}
	is := m.truth(time.Now())
	c.guests.start(m.id, c.opts.Boot, func() (func(), error) { return c.opts.Run(is) }, func() { c.powerOff(m.id) })
}

func (l *launched) answer(c *Cloud, now time.Time) any {
	r := &reservationReply{reservationItem: reservationItem{ReservationID: l.reservation, OwnerID: c.account.ID}}
	for _, m := range l.machines {
		item := m.describe(c, now)
		if now.Equal(m.born) && m.is(now, pending, running) {
			item.State = stateOf(pending) // a launch never waits for more
		}
		r.Instances.Items = append(r.Instances.Items, item)
	}
	return r
}
