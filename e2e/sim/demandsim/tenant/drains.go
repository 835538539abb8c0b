package tenant

import (
	"errors"
	"slices"
	"time"

	"nstance.dev/e2e/sim/demandsim/cluster"
)

// retryEviction is how long a drain waits after a budget said no, and evictions how many it asks
// for at a time.
const (
	retryEviction = 2 * time.Second
	evictions     = 16
)

// drain is that of one Node for one instruction.
type drain struct {
	Instruction

	node     string
	deadline time.Time
	next     time.Time // of the next evictions
	answer   Report    // what came of it; Machine is empty while it runs
}

// Instruct takes an instruction, and returns the answer to it. One that is known is answered as
// before and begins nothing.
func (o *Operator) Instruct(i Instruction, now time.Time) Ack {
	ack := Ack{Instruction: i.ID, Machine: i.Machine}
	known := o.drainOf(i.ID)
	switch {
	case i.Cancel:
		o.cancel(known)
		ack.Started = true
		return ack
	case known != nil:
		if known.answer.Machine != "" {
			o.reports = append(o.reports, known.answer)
		}
		ack.Started = true
		return ack
	}
	node := o.nodeOf(i.Machine)
	if node == nil {
		return ack // it has no Node: nothing was started, and the shard goes on without
	}
	name := node.Object.Name
	if i.Voluntary && o.opts.Refuse != nil {
		if ack.Refused = o.opts.Refuse(o, name); ack.Refused != "" {
			return ack
		}
	}
	_ = o.Cluster.Cordon(name, true) // it exists
	grace := i.Grace
	if grace == 0 {
		grace = 30 * time.Second
	}
	o.drains = append(o.drains, &drain{Instruction: i, node: name, deadline: now.Add(grace), next: now})
	ack.Started = true
	return ack
}

// Draining says whether the operator drains a Node for an instruction.
func (o *Operator) Draining(node string) bool {
	return slices.ContainsFunc(o.drains, func(d *drain) bool { return d.node == node && d.answer.Machine == "" })
}

func (o *Operator) drainOf(instruction string) *drain {
	for _, d := range o.drains {
		if d.ID == instruction {
			return d
		}
	}
	return nil
}

// cancel gives the Node of a drain back to the scheduler.
func (o *Operator) cancel(d *drain) {
	if d == nil {
		return
	}
	_ = o.Cluster.Cordon(d.node, false) // it may be gone
	o.forget(d)
}

func (o *Operator) forget(d *drain) {
	o.drains = slices.DeleteFunc(o.drains, func(other *drain) bool { return other == d })
}

// drainOn goes on with all drains.
func (o *Operator) drainOn(now time.Time) {
	for _, d := range o.drains {
		if d.answer.Machine != "" {
			continue
		}
		left := o.Cluster.Evictable(d.node)
		late := !now.Before(d.deadline)
		switch {
		case len(left) == 0 || o.Cluster.Node(d.node) == nil:
			o.finish(d, Report{Drained: true}, now)
		case late && d.Voluntary:
			o.finish(d, Report{Error: "the Pods did not end in time", Remaining: len(left)}, now)
		case late:
			for _, p := range left {
				o.Cluster.Delete(p, now)
			}
		case !now.Before(d.next):
			if o.evict(left, now) {
				d.next = now.Add(retryEviction)
			}
		}
	}
}

// evict asks for the end of Pods, and says whether a budget has refused one.
func (o *Operator) evict(pods []*cluster.Pod, now time.Time) (refused bool) {
	asked := 0
	for _, p := range pods {
		if p.Object.DeletionTimestamp != nil {
			continue
		}
		if asked++; asked > evictions {
			break
		}
		if err := o.Cluster.Evict(p, now); errors.Is(err, cluster.ErrBudget) {
			refused, asked = true, asked-1
		}
	}
	return refused
}

func (o *Operator) finish(d *drain, r Report, now time.Time) {
	r.Machine, r.Node, r.Instruction, r.At = d.Machine, d.node, d.ID, now
	d.answer = r
	o.reports = append(o.reports, r)
}
