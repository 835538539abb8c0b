package host

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// confirm writes down that a Node has joined: on the Node, in the status, and for the host. The status
// comes before the host is told, so that a Node which is deleted in between is missed.
func (r *Reconciler) confirm(ctx context.Context, p *pass) error {
	j := p.d.Joined
	if err := r.mark(ctx, p); err != nil {
		return err
	}
	if err := r.applied(ctx, p); err != nil {
		return err
	}
	// Once the host has been told nothing is left to be done for the Node, so what may fail comes before.
	p.memory.credential = nil
	if err := r.opts.Credentials.Revoke(ctx, p.m.Name); err != nil {
		return err
	}
	server, err := r.server(p.m)
	if err != nil {
		return err
	}
	if err := r.unhold(ctx, p, server); err != nil {
		return err
	}
	if j.BootID != "" {
		request := &nstancev1.ConfirmNodeRequest{InstanceId: string(p.m.Spec.Instance.ID), Epoch: j.Epoch, NodeUid: j.NodeUID, BootId: j.BootID}
		if err := server.ConfirmNode(ctx, request); err != nil {
			return fmt.Errorf("confirm epoch %d of HostMachine %s: %w", j.Epoch, p.m.Name, err)
		}
	}
	return r.remediation(ctx, p, false)
}

// applied writes what the Node was built from, and which Node it is, if the status does not say so.
func (r *Reconciler) applied(ctx context.Context, p *pass) error {
	j := p.d.Joined
	c := p.m.Status.Configuration
	if c != nil && c.Applied != nil && c.Applied.VersionReference == j.Version && nodeUID(p.m) == j.NodeUID {
		return r.write(ctx, p, nil)
	}
	now := metav1.NewTime(r.opts.Now().Truncate(time.Second))
	err := r.write(ctx, p, func(s *hostsv1.HostMachineStatus) {
		if s.Configuration == nil {
			s.Configuration = &hostsv1.ConfigurationStatus{}
		}
		s.Configuration.Applied = &hostsv1.AppliedVersion{VersionReference: j.Version, At: &now}
		s.NodeRef = &hostsv1.NodeReference{Name: p.m.NodeName(), UID: j.NodeUID}
		if s.Repave != nil && j.BootID != "" {
			s.Repave.Join = nil
		}
	})
	if err != nil {
		return err
	}
	r.brake.ended(p.m)
	p.log.InfoContext(ctx, "joined Node", "node", p.m.NodeName(), "node_uid", j.NodeUID, "configuration", string(j.Version.Name), "version", j.Version.Version)
	r.normal(p.m, hostsv1.EventNodeJoined, "Node %s runs version %d of %s", p.m.NodeName(), j.Version.Version, j.Version.Name)
	if s := p.m.Status.Repave; s != nil && j.BootID != "" {
		r.opts.Count.Repaved(s.Reason, "Joined")
		if s.Mode == hostsv1.ModeRepave && s.StartedAt != nil {
			r.opts.Count.Back(r.opts.Now().Sub(s.StartedAt.Time))
		}
	}
	return nil
}
