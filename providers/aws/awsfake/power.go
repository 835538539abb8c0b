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
	c.release(m.id)
	c.guests.stop(m.id)
}

// powerOff is what happens to a machine that turned itself off.
func (c *Cloud) powerOff(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, m := time.Now(), c.find(id)
	switch {
	case m == nil, !m.is(now, pending, running):
	case m.terminates:
		c.terminate(m, now, byMachine)
	default:
		c.halt(m, now, byMachine)
	}
}

func (c *Cloud) halt(m *machine, now time.Time, why stateReason) {
	m.life = m.life.then(now, why, stopping, c.opts.Stop, stopped)
	c.guests.stop(m.id)
}
