package host

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/shards"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// longestBuild is how long an instance is on hold for one assignment at most: what has not joined by then is
// judged as any other.
const longestBuild = 45 * time.Minute

// reasonOnHold is the server's word for a hold that a weaker one doesn't replace.
const reasonOnHold = "ON_HOLD"

// holdWhileBuilt puts the instance of a machine on hold while its node machine is built (M84): the host is not
// replaced meanwhile, nor the next one of its group. It is asked for before the host is told, and for as long as
// the assignment is young: one that is published again for a new credential isn't on hold for ever. A hold
// for power protects as much.
func (r *Reconciler) holdWhileBuilt(ctx context.Context, p *pass, server Server) error {
	a := p.m.Status.Configuration.Assigned
	if a.At == nil {
		return nil // it was recovered, and whoever assigned it has asked
	}
	until := a.At.Add(longestBuild)
	if !r.opts.Now().Before(until) {
		return nil
	}
	_, err := server.SetHold(ctx, &nstancev1.SetHoldRequest{InstanceId: string(p.m.Spec.Instance.ID), Reason: hostsv1.HoldRepave, Until: timestamppb.New(until)})
	switch {
	case shards.ReasonOf(err) == reasonOnHold:
		return nil
	case err != nil:
		return fmt.Errorf("put HostMachine %s on hold for epoch %d: %w", p.m.Name, a.Epoch, err)
	}
	return nil
}

// unhold ends the hold under which a node machine was built.
func (r *Reconciler) unhold(ctx context.Context, p *pass, server Server) error {
	err := server.ClearHold(ctx, &nstancev1.ClearHoldRequest{InstanceId: string(p.m.Spec.Instance.ID), Reason: hostsv1.HoldRepave})
	if err != nil {
		return fmt.Errorf("end the hold of HostMachine %s: %w", p.m.Name, err)
	}
	return nil
}
