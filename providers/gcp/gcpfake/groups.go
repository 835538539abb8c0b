package gcpfake

import (
	"fmt"
	"slices"
	"strings"

	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/proto"
)

// group is an unmanaged instance group. A machine that is deleted leaves it.
// https://docs.cloud.google.com/compute/docs/reference/rest/v1/instanceGroups
type group struct {
	pb      *computepb.InstanceGroup
	zone    string
	members []*instance
}

func (g *group) below() string { return "zones/" + g.zone + "/instanceGroups/" + g.pb.GetName() }

// AddInstanceGroup makes an empty unmanaged instance group. A name that is taken is an
// error.
func (c *Cloud) AddInstanceGroup(zone, name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	_, err := c.newGroup(zone, &computepb.InstanceGroup{Name: &name})
	return err
}

func (c *Cloud) newGroup(zone string, pb *computepb.InstanceGroup) (*group, error) {
	name := pb.GetName()
	if !nameForm.MatchString(name) {
		return nil, invalidField("resource.name", name, "Must be a match of regex '%s'", "(?:[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?)")
	}
	g := &group{pb: proto.CloneOf(pb), zone: zone}
	if c.groups[place{zone, name}] != nil {
		return nil, alreadyExists(c.path(g.below()))
	}
	g.pb.Kind, g.pb.Id = new("compute#instanceGroup"), new(c.id())
	g.pb.CreationTimestamp, g.pb.Zone, g.pb.SelfLink = new(stamp(c.now)), new(c.link("zones/"+zone)), new(c.link(g.below()))
	c.groups[place{zone, name}] = g
	return g, nil
}

func (c *Cloud) insertGroup(_ call, in *computepb.InsertInstanceGroupRequest) (*computepb.Operation, error) {
	if err := c.inZone(in.GetProject(), in.GetZone()); err != nil {
		return nil, err
	}
	return c.once(in.GetRequestId(), func() (*operation, error) {
		g, err := c.newGroup(in.GetZone(), in.GetInstanceGroupResource())
		if err != nil {
			return nil, err
		}
		return c.quick(g.zone, "insert", g.below(), g.pb.GetId()), nil
	})
}

// quick is an operation whose effect is there already.
func (c *Cloud) quick(zone, kind, below string, id uint64) *operation {
	op := c.begin("zones/"+zone, kind, below, id)
	c.complete(op, nil)
	return op
}

func (c *Cloud) groupOf(project, zone, name string) (*group, error) {
	if err := c.inZone(project, zone); err != nil {
		return nil, err
	}
	if g := c.groups[place{zone, name}]; g != nil {
		return g, nil
	}
	return nil, notFound(c.path("zones/" + zone + "/instanceGroups/" + name))
}

func (g *group) message() *computepb.InstanceGroup {
	pb := proto.CloneOf(g.pb)
	pb.Size = proto.Int32(int32(len(g.members))) //nolint:gosec // there are few
	return pb
}

func (c *Cloud) getGroup(_ call, in *computepb.GetInstanceGroupRequest) (*computepb.InstanceGroup, error) {
	g, err := c.groupOf(in.GetProject(), in.GetZone(), in.GetInstanceGroup())
	if err != nil {
		return nil, err
	}
	return g.message(), nil
}

func (c *Cloud) listGroups(_ call, in *computepb.ListInstanceGroupsRequest) (*computepb.InstanceGroupList, error) {
	if err := c.inZone(in.GetProject(), in.GetZone()); err != nil {
		return nil, err
	}
	var all []*computepb.InstanceGroup
	for _, g := range c.groups {
		if g.zone == in.GetZone() {
			all = append(all, g.message())
		}
	}
	items, next, err := paged(c, all, in)
	return &computepb.InstanceGroupList{Kind: new("compute#instanceGroupList"), Items: items, NextPageToken: next}, err
}

// named finds the machines of a zone that references name.
func (c *Cloud) named(zone string, refs []*computepb.InstanceReference) ([]*instance, error) {
	var all []*instance
	for n, ref := range refs {
		_, path := c.below(ref.GetInstance())
		name, ok := strings.CutPrefix(path, "zones/"+zone+"/instances/")
		if !ok {
			return nil, invalidField(fmt.Sprintf("resource.instances[%d].instance", n), ref.GetInstance(), "The URL is malformed, or names another zone than '%s'.", zone)
		}
		i := c.instances[place{zone, name}]
		if i == nil {
			return nil, notFound(c.path(path))
		}
		all = append(all, i)
	}
	return all, nil
}

func (c *Cloud) addInstances(_ call, in *computepb.AddInstancesInstanceGroupRequest) (*computepb.Operation, error) {
	return c.once(in.GetRequestId(), func() (*operation, error) {
		g, err := c.groupOf(in.GetProject(), in.GetZone(), in.GetInstanceGroup())
		if err != nil {
			return nil, err
		}
		more, err := c.named(g.zone, in.GetInstanceGroupsAddInstancesRequestResource().GetInstances())
		if err != nil {
			return nil, err
		}
		for _, i := range more {
			if slices.Contains(g.members, i) {
				return nil, &apiError{400, "memberAlreadyExists", fmt.Sprintf("Resource '%s' is already a member of '%s'.", c.path(i.below()), c.path(g.below())), ""}
			}
		}
		g.members = append(g.members, more...)
		return c.quick(g.zone, "addInstances", g.below(), g.pb.GetId()), nil
	})
}

// removeInstances refuses a machine that is no member.
func (c *Cloud) removeInstances(_ call, in *computepb.RemoveInstancesInstanceGroupRequest) (*computepb.Operation, error) {
	return c.once(in.GetRequestId(), func() (*operation, error) {
		g, err := c.groupOf(in.GetProject(), in.GetZone(), in.GetInstanceGroup())
		if err != nil {
			return nil, err
		}
		fewer, err := c.named(g.zone, in.GetInstanceGroupsRemoveInstancesRequestResource().GetInstances())
		if err != nil {
			return nil, err
		}
		for _, i := range fewer {
			if !slices.Contains(g.members, i) {
				return nil, &apiError{400, "memberNotFound", fmt.Sprintf("Resource '%s' is not a member of '%s'.", c.path(i.below()), c.path(g.below())), ""}
			}
		}
		g.members = slices.DeleteFunc(g.members, func(i *instance) bool { return slices.Contains(fewer, i) })
		return c.quick(g.zone, "removeInstances", g.below(), g.pb.GetId()), nil
	})
}

func (c *Cloud) listMembers(_ call, in *computepb.ListInstancesInstanceGroupsRequest) (*computepb.InstanceGroupsListInstances, error) {
	g, err := c.groupOf(in.GetProject(), in.GetZone(), in.GetInstanceGroup())
	if err != nil {
		return nil, err
	}
	state := in.GetInstanceGroupsListInstancesRequestResource().GetInstanceState()
	if state != "" && state != "ALL" && state != "RUNNING" {
		return nil, invalidField("resource.instanceState", state, "The value is not one of ALL, RUNNING.")
	}
	var all []*computepb.InstanceWithNamedPorts
	for _, i := range g.members {
		if state != "RUNNING" || i.is(running) {
			all = append(all, &computepb.InstanceWithNamedPorts{Instance: i.pb.SelfLink, Status: i.pb.Status})
		}
	}
	items, next, err := pagedBy(c, all, in, func(m *computepb.InstanceWithNamedPorts) cursor { return cursor{Name: m.GetInstance()} })
	return &computepb.InstanceGroupsListInstances{Kind: new("compute#instanceGroupsListInstances"), Items: items, NextPageToken: next}, err
}

// Behind returns the names of the machines of a zone's instance group or network
// endpoint group, in order of name and each once.
func (c *Cloud) Behind(zone, group string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	var names []string
	if g := c.groups[place{zone, group}]; g != nil {
		for _, i := range g.members {
			names = append(names, i.pb.GetName())
		}
	}
	if g := c.endpoints[place{zone, group}]; g != nil {
		for _, e := range g.members {
			names = append(names, e.of.pb.GetName())
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// leaveBalancers takes a machine that is gone out of all groups.
func (c *Cloud) leaveBalancers(gone *instance) {
	for _, g := range c.groups {
		g.members = slices.DeleteFunc(g.members, func(i *instance) bool { return i == gone })
	}
	for _, g := range c.endpoints {
		g.members = slices.DeleteFunc(g.members, func(e endpoint) bool { return e.of == gone })
	}
}
