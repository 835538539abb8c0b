package gcpfake

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/proto"
)

// instance is a machine. Its message is what callers see.
type instance struct {
	pb     *computepb.Instance
	zone   string
	kind   MachineType
	subnet *subnet

	shows time.Time // in get and list, from then on
	gone  time.Time // zero while it exists

	change    int        // counts what was begun with it; see lifecycle.go
	op        *operation // what goes on with it; nil: nothing
	console   string     // what it has written to its serial port
	preempted bool       // what its metadata server says
	stop      func()     // ends what Options.Run started; nil: nothing runs
}

func (i *instance) place() place { return place{i.zone, i.pb.GetName()} }

// below is the instance's path below its project.
func (i *instance) below() string { return "zones/" + i.zone + "/instances/" + i.pb.GetName() }

func (c *Cloud) insertInstance(about call, in *computepb.InsertInstanceRequest) (*computepb.Operation, error) {
	if err := c.inZone(in.GetProject(), in.GetZone()); err != nil {
		return nil, err
	}
	if in.GetSourceInstanceTemplate() != "" || in.GetSourceMachineImage() != "" {
		return nil, badRequest("This fake has neither instance templates nor machine images")
	}
	return c.once(in.GetRequestId(), func() (*operation, error) {
		if c.constraint != "" {
			return nil, &apiError{http.StatusPreconditionFailed, "conditionNotMet",
				"Constraint " + c.constraint + " violated for project " + c.opts.Project + ".", ""}
		}
		i, err := c.checked(in.GetZone(), in.GetInstanceResource())
		if err != nil {
			return nil, err
		}
		if c.instances[i.place()] != nil {
			return nil, alreadyExists(c.path(i.below()))
		}
		op := c.begin("zones/"+i.zone, "insert", i.below(), i.pb.GetId())
		c.settleIn(i, op, about.full)
		return op, nil
	})
}

// settleIn boots a new machine, or ends the operation for want of room.
func (c *Cloud) settleIn(i *instance, op *operation, full bool) {
	if failed := c.place(i, full); failed != nil {
		c.complete(op, failed)
		return
	}
	c.instances[i.place()] = i
	i.shows = c.now.Add(c.conditions.Lag)
	c.boot(i, op)
}

// place finds room for a machine: in its zone, in the quota and in its subnet, in this
// order. What it lacks shows when the operation ends.
func (c *Cloud) place(i *instance, full bool) *failure {
	if code := c.failing; code != "" {
		c.failing = ""
		return &failure{http.StatusTooManyRequests, code, "Quota exceeded for quota metric 'Queries' and limit 'Queries per minute'."}
	}
	if full || c.isFull(i) {
		return c.outOfRoom(i.zone)
	}
	if failed := c.overQuota(i.kind.CPUs); failed != nil {
		return failed
	}
	return c.addresses(i)
}

// addresses gives a machine the addresses of its interface.
func (c *Cloud) addresses(i *instance) *failure {
	nic, s := i.pb.GetNetworkInterfaces()[0], i.subnet
	addr, ok := s.free()
	if wanted := nic.GetNetworkIP(); wanted != "" {
		addr = netip.MustParseAddr(wanted)
		if s.holder(single(addr)) != nil {
			return inUse(wanted)
		}
	} else if !ok {
		return &failure{400, noAddresses, fmt.Sprintf("IP space of '%s' is exhausted.", c.path(s.path(c)))}
	}
	s.used[single(addr)] = i
	nic.NetworkIP = new(addr.String())
	for _, alias := range nic.GetAliasIpRanges() {
		of := aliasPrefix(alias)
		if s.holder(of) != nil {
			s.release(i)
			return inUse(alias.GetIpCidrRange())
		}
		s.used[of] = i
	}
	return nil
}

// overQuota is the failure of a machine that needs more than the region's quota of
// virtual CPUs leaves; nil if it does not. Stopped machines do not count.
func (c *Cloud) overQuota(more int) *failure {
	for _, i := range c.instances {
		if status(i.pb.GetStatus()) != terminated {
			more += i.kind.CPUs
		}
	}
	if c.opts.CPUs == 0 || more <= c.opts.CPUs {
		return nil
	}
	return &failure{403, overQuota, fmt.Sprintf("Quota 'CPUS' exceeded.  Limit: %d.0 in region %s.", c.opts.CPUs, c.opts.Region)}
}

func (c *Cloud) getInstance(_ call, in *computepb.GetInstanceRequest) (*computepb.Instance, error) {
	if err := c.inZone(in.GetProject(), in.GetZone()); err != nil {
		return nil, err
	}
	for _, i := range c.shown(in.GetZone()) {
		if i.GetName() == in.GetInstance() || fmt.Sprint(i.GetId()) == in.GetInstance() {
			return proto.CloneOf(i), nil
		}
	}
	return nil, notFound(c.path("zones/" + in.GetZone() + "/instances/" + in.GetInstance()))
}

func (c *Cloud) listInstances(_ call, in *computepb.ListInstancesRequest) (*computepb.InstanceList, error) {
	if err := c.inZone(in.GetProject(), in.GetZone()); err != nil {
		return nil, err
	}
	shown := c.shown(in.GetZone())
	if c.hidden {
		shown = nil
	}
	items, next, err := paged(c, shown, in)
	return &computepb.InstanceList{Kind: new("compute#instanceList"), Id: new(c.path("zones/" + in.GetZone() + "/instances")),
		SelfLink: new(c.link("zones/" + in.GetZone() + "/instances")), Items: items, NextPageToken: next}, err
}

// shown are the machines of a zone that get and list know of: those that are gone for
// less than the lag, and not those that were made within it.
func (c *Cloud) shown(zone string) []*computepb.Instance {
	var all []*computepb.Instance
	names := map[string]bool{}
	for _, i := range c.instances {
		if i.zone == zone && !i.shows.After(c.now) {
			all, names[i.pb.GetName()] = append(all, i.pb), true
		}
	}
	for _, i := range c.ghosts {
		if i.zone == zone && !names[i.pb.GetName()] && !i.shows.After(c.now) {
			all, names[i.pb.GetName()] = append(all, i.pb), true
		}
	}
	return all
}

// exists finds a machine that is there, whether it shows or not, by name or id.
func (c *Cloud) exists(project, zone, name string) (*instance, error) {
	if err := c.inZone(project, zone); err != nil {
		return nil, err
	}
	if i := c.instances[place{zone, name}]; i != nil {
		return i, nil
	}
	for _, i := range c.instances {
		if i.zone == zone && fmt.Sprint(i.pb.GetId()) == name {
			return i, nil
		}
	}
	return nil, notFound(c.path("zones/" + zone + "/instances/" + name))
}

// deleteInstance ends a machine in whatever state it is. It is STOPPING until it is
// gone; a second delete meanwhile is refused, as every change is.
func (c *Cloud) deleteInstance(_ call, in *computepb.DeleteInstanceRequest) (*computepb.Operation, error) {
	return c.once(in.GetRequestId(), func() (*operation, error) {
		i, err := c.exists(in.GetProject(), in.GetZone(), in.GetInstance())
		switch {
		case err != nil:
			return nil, err
		case i.leaving():
			return nil, notReady(c.path(i.below()))
		case i.pb.GetDeletionProtection():
			return nil, &apiError{400, "invalidResourceUsage", "Invalid resource usage: 'Resource cannot be deleted if it's protected against deletion.'.", ""}
		}
		op := c.begin("zones/"+i.zone, "delete", i.below(), i.pb.GetId())
		c.remove(i, op)
		return op, nil
	})
}

// fingerprint is a value that differs when what it is made of differs.
func fingerprint(of ...string) string {
	sum := sha256.Sum256(fmt.Append(nil, of))
	return base64.StdEncoding.EncodeToString(sum[:8])
}
