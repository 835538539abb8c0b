package gcpfake

import (
	"slices"

	"cloud.google.com/go/compute/apiv1/computepb"
)

// change begins something with a machine, if it is in one of the states that this can
// begin in; in one of those in which there is nothing to do the operation is done.
type change struct {
	kind string   // stop
	from []status // it begins in
	at   []status // there is nothing to do
	do   func(*Cloud, *instance, *operation)
}

// The changes of a machine's power. What the reference pages do not say: a stop of what
// is stopped and a start of what runs end well, all else that does not fit is refused
// as not ready.
var (
	stop = change{"stop", []status{running, provisioning, staging}, []status{terminated}, func(c *Cloud, i *instance, op *operation) {
		c.shutdown(i, op, stopping, terminated)
	}}
	start = change{"start", []status{terminated}, []status{running, provisioning, staging}, (*Cloud).boot}
	reset = change{"reset", []status{running}, nil, func(c *Cloud, i *instance, op *operation) {
		c.turn(i, op)
		c.halt(i)
		c.run(i)
		c.then(i, c.conditions.Work, func() { c.done(i) })
	}}
	suspend = change{"suspend", []status{running}, []status{suspended}, func(c *Cloud, i *instance, op *operation) {
		c.shutdown(i, op, suspending, suspended)
	}}
	resume = change{"resume", []status{suspended}, []status{running}, (*Cloud).boot}
)

// stopInstance stops a machine. One with a local SSD is not, unless the call says what becomes of what is on it.
func (c *Cloud) stopInstance(_ call, in *computepb.StopInstanceRequest) (*computepb.Operation, error) {
	i, err := c.exists(in.GetProject(), in.GetZone(), in.GetInstance())
	if err != nil {
		return nil, err
	}
	scratch := func(d *computepb.AttachedDisk) bool { return d.GetType() == "SCRATCH" }
	if in.DiscardLocalSsd == nil && slices.ContainsFunc(i.pb.GetDisks(), scratch) {
		return nil, badRequest("VM has a Local SSD attached but an undefined value for `discard-local-ssd`.")
	}
	return c.power(stop, false, in)
}

func (c *Cloud) startInstance(about call, in *computepb.StartInstanceRequest) (*computepb.Operation, error) {
	return c.power(start, about.full, in)
}

func (c *Cloud) resetInstance(_ call, in *computepb.ResetInstanceRequest) (*computepb.Operation, error) {
	return c.power(reset, false, in)
}

func (c *Cloud) suspendInstance(_ call, in *computepb.SuspendInstanceRequest) (*computepb.Operation, error) {
	return c.power(suspend, false, in)
}

func (c *Cloud) resumeInstance(about call, in *computepb.ResumeInstanceRequest) (*computepb.Operation, error) {
	return c.power(resume, about.full, in)
}

// ofInstance is a request for a change of one machine.
type ofInstance interface {
	GetProject() string
	GetZone() string
	GetInstance() string
	GetRequestId() string
}

// power begins a change. A start needs a machine of the zone, as an insert does; for
// want of one its operation fails and the machine stays as it is.
func (c *Cloud) power(what change, full bool, in ofInstance) (*computepb.Operation, error) {
	return c.once(in.GetRequestId(), func() (*operation, error) {
		i, err := c.exists(in.GetProject(), in.GetZone(), in.GetInstance())
		if err != nil {
			return nil, err
		}
		idle := i.is(what.at...)
		if i.leaving() || !idle && !i.is(what.from...) {
			return nil, notReady(c.path(i.below()))
		}
		op := c.begin("zones/"+i.zone, what.kind, i.below(), i.pb.GetId())
		switch needs := bootingOps["instances."+what.kind]; {
		case idle:
			c.complete(op, nil)
		case needs && (full || c.isFull(i)):
			c.complete(op, c.outOfRoom(i.zone))
		default:
			what.do(c, i, op)
		}
		return op, nil
	})
}

// complete ends an operation that changes no machine's state, after the time that
// such things take.
func (c *Cloud) complete(op *operation, failed *failure) {
	c.after(c.conditions.Work, func() { c.finish(op, failed) })
}

// isFull reports whether the zone has no more machine of the type.
func (c *Cloud) isFull(i *instance) bool {
	room, limited := c.room[place{i.zone, i.kind.Name}]
	return limited && room <= 0
}

// simulateMaintenance moves a machine to another host, of which nothing shows here, or
// takes one away that can be taken away: it is how people try that out.
// https://docs.cloud.google.com/compute/docs/instances/simulating-host-maintenance
func (c *Cloud) simulateMaintenance(_ call, in *computepb.SimulateMaintenanceEventInstanceRequest) (*computepb.Operation, error) {
	return c.once(in.GetRequestId(), func() (*operation, error) {
		i, err := c.exists(in.GetProject(), in.GetZone(), in.GetInstance())
		if err != nil {
			return nil, err
		}
		if !i.is(running) {
			return nil, notReady(c.path(i.below()))
		}
		if i.pb.GetScheduling().GetPreemptible() {
			c.preempt(i)
		}
		return c.quick(i.zone, "simulateMaintenanceEvent", i.below(), i.pb.GetId()), nil
	})
}
