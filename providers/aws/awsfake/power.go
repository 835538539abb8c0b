package awsfake

import (
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// changesReply is the answer of calls that change the state of machines.
type changesReply struct {
	reply
	Changes set[changeItem] `xml:"instancesSet"`
}

type changeItem struct {
	InstanceID string    `xml:"instanceId"`
	Current    stateItem `xml:"currentState"`
	Previous   stateItem `xml:"previousState"`
}

// change turns the machines of ids to what step makes of them, which returns the
// state that this begins with; all of them or none.
func (c *Cloud) change(ids []string, step func(m *machine, now time.Time) (types.InstanceStateName, error)) (any, error) {
	if len(ids) == 0 {
		return nil, missing("InstanceId")
	}
	now := time.Now()
	machines, err := c.named(ids, c.known())
	if err != nil {
		return nil, err
	}
	r := &changesReply{}
	for _, m := range machines {
		before, _ := m.life.at(now)
		state, err := step(m, now)
		if err != nil {
			return nil, err
		}
		r.Changes.Items = append(r.Changes.Items, changeItem{m.id, stateOf(state), stateOf(before.state)})
	}
	return r, nil
}

// terminateInstances ends machines. One that has ended already stays so, and that
// is no error.
func (c *Cloud) terminateInstances(in *ec2.TerminateInstancesInput) (any, error) {
	return c.change(in.InstanceIds, func(m *machine, now time.Time) (types.InstanceStateName, error) {
		if at, _ := m.life.at(now); at.state == terminated {
			return terminated, nil
		}
		c.terminate(m, now, byUser)
		return ending, nil
	})
}

func (c *Cloud) terminate(m *machine, now time.Time, why stateReason) {
	if m.is(now, ending, terminated) {
		return
	}
	m.life = m.life.then(now, why, ending, c.opts.End, terminated)
	c.guests.stop(m.id, 0)
}

// powerOff is what happens to a machine that turned itself off; false if it was not on.
func (c *Cloud) powerOff(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, m := time.Now(), c.find(id)
	switch {
	case m == nil, !m.is(now, pending, running):
		return false
	case m.terminates:
		c.terminate(m, now, byMachine)
	default:
		c.halt(m, now, byMachine)
	}
	return true
}

func (c *Cloud) halt(m *machine, now time.Time, why stateReason) {
	m.life = m.life.then(now, why, stopping, c.opts.Stop, stopped)
	m.hangs, m.stuck = false, nil
	c.guests.stop(m.id, 0)
}

// stopInstances turns machines off. They keep what they are, but for their guests.
func (c *Cloud) stopInstances(in *ec2.StopInstancesInput) (any, error) {
	return c.change(in.InstanceIds, func(m *machine, now time.Time) (types.InstanceStateName, error) {
		at, _ := m.life.at(now)
		switch {
		case m.spot:
			return "", refuse("UnsupportedOperation", "You can't stop the Spot Instance '%s' because it is associated with a one-time Spot Instance request.", m.id)
		case at.state == stopping, at.state == stopped:
			return at.state, nil
		case at.state != running && at.state != pending:
			return "", m.wrongState("stopped", at.state)
		}
		c.halt(m, now, byUser)
		return stopping, nil
	})
}

// startInstances turns stopped machines on again, if there is room for them.
func (c *Cloud) startInstances(in *ec2.StartInstancesInput) (any, error) {
	return c.change(in.InstanceIds, func(m *machine, now time.Time) (types.InstanceStateName, error) {
		at, _ := m.life.at(now)
		switch at.state {
		case pending, running:
			return at.state, nil
		case stopped:
		default:
			return "", m.wrongState("started", at.state)
		}
		if room, limited := c.room[Place{m.subnet.ID, m.kind.Name}]; limited && room < 1 {
			return "", noRoom(m.order)
		}
		m.life = m.life.then(now, stateReason{}, pending, c.opts.Boot, running)
		c.boot(m)
		return pending, nil
	})
}

func (m *machine) wrongState(verb string, state types.InstanceStateName) error {
	return refuse("IncorrectInstanceState", "The instance '%s' is not in a state from which it can be %s: %s", m.id, verb, state)
}

// rebootInstances restarts what runs in machines. They stay running meanwhile.
func (c *Cloud) rebootInstances(in *ec2.RebootInstancesInput) (any, error) {
	_, err := c.change(in.InstanceIds, func(m *machine, now time.Time) (types.InstanceStateName, error) {
		at, _ := m.life.at(now)
		if at.state != running {
			return "", m.wrongState("rebooted", at.state)
		}
		m.hangs = false
		c.boot(m)
		return running, nil
	})
	if err != nil {
		return nil, err
	}
	return &doneReply{Return: true}, nil
}

// createTags adds tags to machines, or changes those that they have.
func (c *Cloud) createTags(in *ec2.CreateTagsInput) (any, error) {
	switch {
	case len(in.Resources) == 0:
		return nil, missing("resourceIdSet")
	case len(in.Tags) == 0:
		return nil, missing("tagSet")
	}
	machines, err := c.named(in.Resources, c.known())
	if err != nil {
		return nil, err
	}
	for _, m := range machines {
		tags, err := tagged(m.tags, in.Tags)
		if err != nil {
			return nil, err
		}
		m.tags = tags
	}
	return &doneReply{Return: true}, nil
}
