package awsfake

import (
	"cmp"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
)

// member is a target of a target group.
type member struct {
	machine string
	port    int
	drains  time.Time // when it will be no target any more; the zero value: it stays
}

// members is the answer's list of Elastic Load Balancing.
type members[T any] struct {
	Members []T `xml:"member"`
}

// empty is the answer of an action that has nothing to say.
type empty struct{}

func (c *Cloud) targetGroup(arn *string) (TargetGroup, error) {
	for _, g := range c.account.TargetGroups {
		if g.ARN == aws.ToString(arn) {
			return g, nil
		}
	}
	if aws.ToString(arn) == "" {
		return TargetGroup{}, refuse("ValidationError", "A target group ARN must be specified")
	}
	return TargetGroup{}, refuse("TargetGroupNotFound", "One or more target groups not found")
}

// port is the port of a target, by default that of its group.
func (g TargetGroup) port(t types.TargetDescription) int {
	return int(cmp.Or(aws.ToInt32(t.Port), int32(g.Port)))
}

// registerTargets makes running machines targets. One that is a target already
// stays so.
func (c *Cloud) registerTargets(in *elb.RegisterTargetsInput) (any, error) {
	group, err := c.targetGroup(in.TargetGroupArn)
	if err != nil {
		return nil, err
	}
	if len(in.Targets) == 0 {
		return nil, refuse("ValidationError", "Targets must be specified")
	}
	now := time.Now()
	for _, t := range in.Targets {
		m := c.find(aws.ToString(t.Id))
		switch {
		case m == nil:
			return nil, refuse("InvalidTarget", "The following targets are not valid instances: '%s'", aws.ToString(t.Id))
		case !m.is(now, running):
			return nil, refuse("InvalidTarget", "The following targets are not in a running state and cannot be registered: '%s'", m.id)
		}
	}
	for _, t := range in.Targets {
		c.members[group.ARN] = append(c.without(group, t), &member{machine: aws.ToString(t.Id), port: group.port(t)})
	}
	return empty{}, nil
}

// without is a group's targets but for one.
func (c *Cloud) without(group TargetGroup, t types.TargetDescription) []*member {
	return slices.DeleteFunc(c.members[group.ARN], func(m *member) bool {
		return m.machine == aws.ToString(t.Id) && m.port == group.port(t)
	})
}

// deregisterTargets begins the end of targets. One that does not exist is no error;
// without a port, a machine leaves with all of its ports.
func (c *Cloud) deregisterTargets(in *elb.DeregisterTargetsInput) (any, error) {
	group, err := c.targetGroup(in.TargetGroupArn)
	if err != nil {
		return nil, err
	}
	until := time.Now().Add(c.opts.Drain)
	for _, t := range in.Targets {
		for _, m := range c.members[group.ARN] {
			if m.machine == aws.ToString(t.Id) && (t.Port == nil || m.port == int(*t.Port)) && m.drains.IsZero() {
				m.drains = until
			}
		}
	}
	return empty{}, nil
}

type healthResult struct {
	Health members[healthItem] `xml:"TargetHealthDescriptions"`
}

type healthItem struct {
	Target          targetItem
	HealthCheckPort int
	TargetHealth    targetHealth
}

type targetItem struct {
	ID   string `xml:"Id"`
	Port int
}

type targetHealth struct {
	State  types.TargetHealthStateEnum
	Reason types.TargetHealthReasonEnum `xml:",omitempty"`
}

// describeTargetHealth shows the targets of a group: all, or those that are named.
func (c *Cloud) describeTargetHealth(in *elb.DescribeTargetHealthInput) (any, error) {
	group, err := c.targetGroup(in.TargetGroupArn)
	if err != nil {
		return nil, err
	}
	var all []healthItem
	for _, m := range c.targets(group) {
		health := targetHealth{State: types.TargetHealthStateEnumHealthy}
		if !m.drains.IsZero() {
			health = targetHealth{types.TargetHealthStateEnumDraining, types.TargetHealthReasonEnumDeregistrationInProgress}
		}
		all = append(all, healthItem{targetItem{m.machine, m.port}, m.port, health})
	}
	if len(in.Targets) == 0 {
		return healthResult{members[healthItem]{all}}, nil
	}
	var asked []healthItem
	for _, t := range in.Targets {
		at := slices.IndexFunc(all, func(h healthItem) bool {
			return h.Target == targetItem{aws.ToString(t.Id), group.port(t)}
		})
		if at < 0 {
			asked = append(asked, healthItem{targetItem{aws.ToString(t.Id), group.port(t)}, group.port(t),
				targetHealth{types.TargetHealthStateEnumUnused, types.TargetHealthReasonEnumNotRegistered}})
			continue
		}
		asked = append(asked, all[at])
	}
	return healthResult{members[healthItem]{asked}}, nil
}

// targets are a group's targets by now: a machine that has ended is none.
func (c *Cloud) targets(group TargetGroup) []*member {
	now := time.Now()
	c.members[group.ARN] = slices.DeleteFunc(c.members[group.ARN], func(t *member) bool {
		m := c.find(t.machine)
		return m == nil || m.is(now, terminated) || !t.drains.IsZero() && !now.Before(t.drains)
	})
	return c.members[group.ARN]
}

type groupsResult struct {
	Groups members[targetGroupItem] `xml:"TargetGroups"`
}

type targetGroupItem struct {
	ARN        string `xml:"TargetGroupArn"`
	Protocol   string
	Port       int
	VpcID      string `xml:"VpcId"`
	TargetType string
}

func (c *Cloud) describeTargetGroups(in *elb.DescribeTargetGroupsInput) (any, error) {
	var r groupsResult
	for _, arn := range in.TargetGroupArns {
		if _, err := c.targetGroup(&arn); err != nil {
			return nil, err
		}
	}
	for _, g := range c.account.TargetGroups {
		if len(in.TargetGroupArns) == 0 || slices.Contains(in.TargetGroupArns, g.ARN) {
			r.Groups.Members = append(r.Groups.Members, targetGroupItem{g.ARN, "TCP", g.Port, c.account.VPC, "instance"})
		}
	}
	return r, nil
}
