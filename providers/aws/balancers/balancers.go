// Package balancers puts machines behind load balancers. One is one or more target groups, of
// which machines are targets by their instance id.
package balancers

import (
	"context"
	"fmt"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"nstance.dev/providers/aws/api"
	"nstance.dev/providers/aws/instances"
	"nstance.dev/providers/aws/rules"
	"nstance.dev/server/driver"
)

// Balancers are the load balancers of one account in a region. Make it with [New]. Methods are
// safe for concurrent use.
type Balancers struct {
	api       *api.Client
	instances *instances.Instances
}

// New returns the load balancers behind a client, for the machines of instances. It asks
// nothing.
func New(client *api.Client, instances *instances.Instances) *Balancers {
	return &Balancers{api: client, instances: instances}
}

// LBRegister makes a machine a target of each target group.
func (b *Balancers) LBRegister(ctx context.Context, lb driver.LoadBalancer, ref driver.Ref) error {
	const op = "lb-register"
	id, err := b.target(ctx, op, lb, ref)
	if err != nil {
		return err
	}
	for _, group := range rules.TargetGroups(lb.Args) {
		_, err := b.api.ELB.RegisterTargets(ctx, &elasticloadbalancingv2.RegisterTargetsInput{
			TargetGroupArn: sdk.String(group.ARN), Targets: []types.TargetDescription{targetOf(id, group)},
		})
		if api.HasCode(err, "InvalidTarget") {
			return b.notATarget(ctx, op, ref, err)
		}
		if err != nil {
			return api.Fail(op, api.Changes, fmt.Errorf("target group %s: %w", group.ARN, err))
		}
	}
	return nil
}

// notATarget finds out why a machine was refused: it is gone, or does not run yet.
func (b *Balancers) notATarget(ctx context.Context, op string, ref driver.Ref, refused error) error {
	m, err := b.instances.Find(ctx, op, ref)
	switch {
	case err != nil:
		return err
	case m.Status == driver.Deleting, m.Status == driver.Deleted:
		return driver.Fail(driver.NotFound, op, refused)
	case m.Status == driver.Running:
		return driver.Fail(driver.Invalid, op, refused)
	default:
		return driver.Fail(driver.Transient, op, refused)
	}
}

// LBDeregister takes a machine out of each target group. From then on no new
// connection comes; the ones that are there may drain. A machine that does not
// exist is in none.
func (b *Balancers) LBDeregister(ctx context.Context, lb driver.LoadBalancer, ref driver.Ref) error {
	const op = "lb-deregister"
	id, err := b.target(ctx, op, lb, ref)
	if err != nil {
		return api.IgnoreNotFound(err)
	}
	for _, group := range rules.TargetGroups(lb.Args) {
		_, err := b.api.ELB.DeregisterTargets(ctx, &elasticloadbalancingv2.DeregisterTargetsInput{
			TargetGroupArn: sdk.String(group.ARN), Targets: []types.TargetDescription{targetOf(id, group)},
		})
		if err != nil && !api.HasCode(err, "InvalidTarget") { // which is that it is not there
			return api.Fail(op, api.Changes, fmt.Errorf("target group %s: %w", group.ARN, err))
		}
	}
	return nil
}

// LBList returns the targets of all target groups, but for those that have left
// and drain.
func (b *Balancers) LBList(ctx context.Context, lb driver.LoadBalancer) ([]driver.Ref, error) {
	const op = "lb-list"
	if err := reachable(ctx, op, lb); err != nil {
		return nil, err
	}
	var members []driver.Ref
	listed := map[string]bool{}
	for _, group := range rules.TargetGroups(lb.Args) {
		out, err := b.api.ELB.DescribeTargetHealth(ctx, &elasticloadbalancingv2.DescribeTargetHealthInput{TargetGroupArn: sdk.String(group.ARN)})
		if err != nil {
			return nil, api.Fail(op, api.Reads, fmt.Errorf("target group %s: %w", group.ARN, err))
		}
		for _, t := range out.TargetHealthDescriptions {
			if id := memberID(t); id != "" && !listed[id] {
				listed[id] = true
				members = append(members, driver.Ref{ProviderID: id})
			}
		}
	}
	return members, nil
}

// memberID is the id of a target; empty for one that is no member any more.
func memberID(t types.TargetHealthDescription) string {
	if t.Target == nil || t.TargetHealth != nil && t.TargetHealth.State == types.TargetHealthStateEnumDraining {
		return ""
	}
	return sdk.ToString(t.Target.Id)
}

func targetOf(providerID string, group rules.TargetGroup) types.TargetDescription {
	t := types.TargetDescription{Id: sdk.String(providerID)}
	if group.Port != 0 {
		t.Port = sdk.Int32(int32(group.Port)) //nolint:gosec // a port, as the configuration has made sure
	}
	return t
}

// target is the id of a machine as load balancers know it.
func (b *Balancers) target(ctx context.Context, op string, lb driver.LoadBalancer, ref driver.Ref) (string, error) {
	if err := reachable(ctx, op, lb); err != nil {
		return "", err
	}
	if ref.ProviderID != "" {
		return ref.ProviderID, nil
	}
	m, err := b.instances.Find(ctx, op, ref)
	if err == nil && m.Status == driver.Deleted {
		err = driver.Fail(driver.NotFound, op, fmt.Errorf("%s has ended", m.ProviderID))
	}
	return m.ProviderID, err
}

// reachable refuses a load balancer that names no target group.
func reachable(ctx context.Context, op string, lb driver.LoadBalancer) error {
	if err := api.Begin(ctx, op); err != nil {
		return err
	}
	if len(rules.TargetGroups(lb.Args)) == 0 {
		return driver.Fail(driver.MissingRef, op, fmt.Errorf("load balancer %q has no target groups", lb.Key))
	}
	return nil
}
