package host

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/lifecycle"
	"nstance.dev/operator/status"
)

// assign writes the next assignment into the status: the epoch grows and the Node that was there is
// forgotten in one write, which is refused if the machine has changed since it was read. A crash before
// it decides anew, one after it publishes what was written.
func (r *Reconciler) assign(ctx context.Context, p *pass) error {
	a := p.d.Assignment
	version := a.Version
	if a.Mode != hostsv1.ModeReset {
		locked, err := r.opts.Lock(ctx, string(a.Version.Name), a.Version.Version, p.m.Name)
		if err != nil {
			return fmt.Errorf("assign version %d of %s to HostMachine %s: %w", a.Version.Version, a.Version.Name, p.m.Name, err)
		}
		version = locked.Reference
		delete(p.memory.problems, hostsv1.EventImageUnresolved)
	}
	if err := r.cordon(ctx, p); err != nil {
		return err
	}
	left := 0
	if a.Reason == lifecycle.ReasonNodeDeleted || a.Reason == lifecycle.ReasonNodeReplaced {
		left = r.undrained(ctx, p.m.NodeName())
	}
	now := metav1.NewTime(r.opts.Now().Truncate(time.Second))
	err := r.write(ctx, p, func(s *hostsv1.HostMachineStatus) {
		if s.Configuration == nil {
			s.Configuration = &hostsv1.ConfigurationStatus{}
		}
		s.Configuration.Assigned = &hostsv1.AssignedVersion{VersionReference: version, Epoch: a.Epoch, At: &now}
		began := now
		if since := p.memory.absence.Since(nodeUID(p.m)); !since.IsZero() { // since the Node was missed
			began = metav1.NewTime(since.Truncate(time.Second))
		}
		s.Repave = &hostsv1.RepaveStatus{
			Epoch: a.Epoch, Mode: a.Mode, Reason: a.Reason, StartedAt: &began, ExpectedNodeUID: a.ExpectedNodeUID,
			Retry: p.m.Annotations[hostsv1.AnnotationRetry],
		}
		if a.Mode != hostsv1.ModeAdopt { // which replaces nothing
			s.Repave.ReplacedBootID = runningBoot(p.in.Host.Report)
		}
		if s.NodeRef != nil {
			s.NodeRef = &hostsv1.NodeReference{Name: s.NodeRef.Name}
		}
		p.assigned(s, now.Time)
	})
	if err != nil {
		return err
	}
	if a.Mode == hostsv1.ModeReset {
		r.brake.ended(p.m)
	}
	p.log.InfoContext(ctx, "assigned", "epoch", a.Epoch, "mode", string(a.Mode), "configuration", string(version.Name), "version", version.Version)
	switch a.Reason {
	case lifecycle.ReasonNodeDeleted, lifecycle.ReasonNodeReplaced:
		r.normal(p.m, hostsv1.EventRepaveTriggered, "%s; epoch %d builds version %d of %s", p.d.Reason, a.Epoch, version.Version, version.Name)
	case lifecycle.ReasonDeleting:
	default:
		r.normal(p.m, hostsv1.EventAssigned, "epoch %d, %s: version %d of %s", a.Epoch, a.Reason, version.Version, version.Name)
	}
	if left > 0 {
		r.warn(p.m, hostsv1.EventRepavedUndrained, "Node %s was deleted with %d Pods on it; drain a Node before it is deleted", p.m.NodeName(), left)
	}
	return nil
}

// recover writes what the shard keeps for the machine into its status, which knows nothing of it.
func (r *Reconciler) recover(ctx context.Context, p *pass) error {
	s := p.in.Host.Stored
	now := metav1.NewTime(r.opts.Now().Truncate(time.Second))
	return r.write(ctx, p, func(next *hostsv1.HostMachineStatus) {
		if next.Configuration == nil {
			next.Configuration = &hostsv1.ConfigurationStatus{}
		}
		next.Configuration.Assigned = &hostsv1.AssignedVersion{VersionReference: s.Version, Epoch: s.Epoch, At: &now}
		next.Repave = &hostsv1.RepaveStatus{Epoch: s.Epoch, Mode: s.Mode, Reason: lifecycle.ReasonRecovered, Retry: p.m.Annotations[hostsv1.AnnotationRetry]}
		p.assigned(next, now.Time)
	})
}

// assigned sets in a status that has the next assignment all that there is to say of that.
func (p *pass) assigned(next *hostsv1.HostMachineStatus, now time.Time) {
	m := p.m.DeepCopy()
	m.Status.Configuration = next.Configuration.DeepCopy()
	if was := p.m.Status.Configuration; was != nil {
		m.Status.Configuration.Desired = was.Desired
	}
	m.Status.Repave, m.Status.NodeRef = next.Repave, next.NodeRef
	d := lifecycle.Assigned(p.in, p.d, m)
	next.Phase, next.Conditions = d.Phase, status.Next(p.m.Status.Conditions, d.Conditions, p.m.Generation, now)
}

// runningBoot is the boot of the machine that runs; empty: none does.
func runningBoot(r *lifecycle.Report) string {
	if r == nil {
		return ""
	}
	for _, slot := range r.Slots {
		if slot.State == hostsv1.SlotRunning {
			return slot.BootID
		}
	}
	return ""
}
