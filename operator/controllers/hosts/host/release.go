package host

import (
	"context"
	"fmt"
	"slices"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/nodes"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// release lets a HostMachine go: its Node, what its shard keeps for its host, its credential, and last the
// finalizer. Each step may be repeated.
func (r *Reconciler) release(ctx context.Context, p *pass) error {
	if err := r.write(ctx, p, nil); err != nil {
		return err
	}
	if p.ours() {
		n := nodes.Instanceless{
			NodeProviderID: p.node.Spec.ProviderID, HostMachine: true, HostReleased: true, Exists: !p.in.Instance.Gone, Deleted: p.in.Instance.Gone,
		}
		if err := r.deleteNode(ctx, p, n); err != nil {
			return err
		}
	}
	if !p.in.Instance.Gone && !p.d.ResetKept { // what is kept for an instance goes with it
		server, err := r.server(p.m)
		if err != nil {
			return err
		}
		if err := server.DeleteAssignment(ctx, &nstancev1.DeleteAssignmentRequest{InstanceId: string(p.m.Spec.Instance.ID)}); err != nil {
			return fmt.Errorf("delete the assignment of HostMachine %s: %w", p.m.Name, err)
		}
	}
	if err := r.opts.Credentials.Revoke(ctx, p.m.Name); err != nil {
		return err
	}
	if err := r.remediation(ctx, p, false); err != nil {
		return err
	}
	switch {
	case p.d.ResetKept:
		r.warn(p.m, hostsv1.EventResetSkipped, "%s; what was built is left on it until its agent is connected: its shard has it reset then", p.d.Skipped)
	case p.d.Skipped != "":
		r.warn(p.m, hostsv1.EventResetSkipped, "%s; what was built is left on it", p.d.Skipped)
	}
	// The status was written, so the machine is another one than was read.
	m := &hostsv1.HostMachine{}
	if err := r.opts.Client.Get(ctx, keyOf(p.m), m); err != nil {
		return fmt.Errorf("read HostMachine %s: %w", p.m.Name, err)
	}
	if m.UID != p.m.UID {
		return nil
	}
	left := slices.DeleteFunc(m.DeepCopy().Finalizers, func(f string) bool { return f == hostsv1.Finalizer })
	if err := r.finalizers(ctx, m, left); err != nil {
		return err
	}
	p.log.InfoContext(ctx, "released HostMachine", "skipped", p.d.Skipped)
	return nil
}
