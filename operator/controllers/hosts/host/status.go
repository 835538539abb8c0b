package host

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/lifecycle"
	"nstance.dev/operator/hosts/reports"
	"nstance.dev/operator/status"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// write writes what there is to say of a machine, with a change to it; nil: none. It is refused if the
// machine has changed since it was read, so there is one in a pass at most, and it is not made if it says
// nothing new.
func (r *Reconciler) write(ctx context.Context, p *pass, change func(*hostsv1.HostMachineStatus)) error {
	next := r.status(p)
	if change != nil {
		change(&next)
	}
	if same(&p.m.Status, &next) {
		return nil
	}
	if next.Host != nil && p.in.Host.Report != nil {
		next.Host.LastReport = lastReport(p.state(r))
	}
	object := &hostsv1.HostMachine{ObjectMeta: metav1.ObjectMeta{Name: p.m.Name, UID: p.m.UID, ResourceVersion: p.m.ResourceVersion}, Status: next}
	p.wrote = true
	if err := status.ApplyUnchanged(ctx, r.opts.Client, object, manager); err != nil {
		return fmt.Errorf("write the status of HostMachine %s: %w", p.m.Name, err)
	}
	if next.Phase != p.m.Status.Phase {
		p.log.InfoContext(ctx, "phase of machine", "phase", string(next.Phase), "was", string(p.m.Status.Phase))
	}
	r.news(p, &next)
	return nil
}

// status is what this controller says of a machine now: all that it owns.
func (r *Reconciler) status(p *pass) hostsv1.HostMachineStatus {
	was := p.m.Status.DeepCopy()
	next := hostsv1.HostMachineStatus{
		Phase: p.d.Phase, NodeRef: was.NodeRef, Host: was.Host, Slots: was.Slots, Executors: ofHost(was.Executors), Drift: was.Drift,
		Conditions: status.Next(was.Conditions, p.d.Conditions, p.m.Generation, r.opts.Now()),
	}
	if c := was.Configuration; c != nil && (c.Assigned != nil || c.Applied != nil || c.Previous != nil) {
		next.Configuration = &hostsv1.ConfigurationStatus{Assigned: c.Assigned, Applied: c.Applied, Previous: c.Previous}
	}
	if was.Repave != nil {
		repave := *was.Repave
		repave.Certificates = nil // another controller's
		next.Repave = &repave
	}
	held(&next, p.d.Held, r.opts.Now())
	if s := p.state(r).GetStatus(); s != nil {
		reported(&next, p.state(r), s)
	}
	return next
}

// state is what the shard says of the host; nil: nothing.
func (p *pass) state(r *Reconciler) *nstancev1.MachineState {
	if p.m.Spec.Instance == nil {
		return nil
	}
	return r.opts.Reports.State(string(p.m.Spec.Instance.Shard), string(p.m.Spec.Instance.ID))
}

// held says why a repave that is due does not begin.
func held(next *hostsv1.HostMachineStatus, h lifecycle.Held, now time.Time) {
	switch {
	case h.Reason == "" && next.Repave == nil:
		return
	case h.Reason == "":
		next.Repave.Held = nil
		if equality.Semantic.DeepEqual(*next.Repave, hostsv1.RepaveStatus{}) {
			next.Repave = nil
		}
		return
	case next.Repave == nil:
		next.Repave = &hostsv1.RepaveStatus{}
	}
	since := metav1.NewTime(now.Truncate(time.Second))
	if was := next.Repave.Held; was != nil && was.Since != nil {
		since = *was.Since
	}
	next.Repave.Held = &hostsv1.RepaveHeld{Reason: h.Reason, Message: status.Cut(h.Message), Since: &since}
}

// reported copies what the host said.
func reported(next *hostsv1.HostMachineStatus, m *nstancev1.MachineState, s *nstancev1.MachineStatus) {
	h := s.GetHost()
	was := next.Host
	next.Host = &hostsv1.HostReport{
		BootID: h.GetBootId(), Kernel: h.GetKernel(), KernelArguments: h.GetKernelArguments(), Arch: h.GetArch(), AgentVersion: m.GetAgentVersion(),
		PaverVersion: s.GetPaverVersion(), Virtualization: h.GetVirtualization(), Cgroup: h.GetCgroup(),
	}
	if was != nil {
		next.Host.LastReport = was.LastReport
	}
	for _, a := range h.GetAddresses()[:min(16, len(h.GetAddresses()))] {
		next.Host.Addresses = append(next.Host.Addresses, hostsv1.Address(a))
	}
	next.Slots, next.Executors, next.Drift = nil, nil, nil
	for _, slot := range s.GetSlots() {
		of := hostsv1.Slot{Name: slot.GetName(), State: reports.SlotState(slot.GetState()), BootID: slot.GetBootId(), SizeBytes: slot.GetSizeBytes()}
		if v := slot.GetConfiguration(); v != nil {
			of.Version = fmt.Sprintf("%s-v%d", v.GetName(), v.GetVersion())
		}
		next.Slots = append(next.Slots, of)
	}
	for _, e := range s.GetExecutors()[:min(8, len(s.GetExecutors()))] {
		next.Executors = append(next.Executors, hostsv1.Executor{Name: e.GetName(), Operations: e.GetOperations()})
	}
	next.Executors = ofHost(next.Executors)
	for _, d := range s.GetDrift()[:min(32, len(s.GetDrift()))] {
		kind := hostsv1.DriftChanged
		if d.GetKind() == nstancev1.MachineDriftKind_MACHINE_DRIFT_KIND_MISSING {
			kind = hostsv1.DriftMissing
		}
		next.Drift = append(next.Drift, hostsv1.DriftedFile{Path: d.GetPath(), Kind: kind})
	}
	if next.Repave != nil && next.Repave.Epoch != 0 && next.Repave.Epoch == s.GetEpoch() {
		next.Repave.Stage = string(reports.Stage(s.GetStage()))
		next.Repave.Attempts, next.Repave.LastError = s.GetAttempts(), s.GetLastError()
	}
	if c := next.Configuration; c != nil {
		c.Previous = nil
		if s.GetPrevious() != nil {
			v := reports.Version(s.GetPrevious())
			c.Previous = &v
		}
	}
}

func lastReport(m *nstancev1.MachineState) *metav1.Time {
	if m.GetReportedAt() == nil {
		return nil
	}
	at := metav1.NewTime(m.GetReportedAt().AsTime().Truncate(time.Second))
	return &at
}

// ofHost are the executors that run on the host. Others are written by whoever executes.
func ofHost(all []hostsv1.Executor) []hostsv1.Executor {
	var ours []hostsv1.Executor
	for _, e := range all {
		if e.Name == hostsv1.ExecutorPaver {
			ours = append(ours, e)
		}
	}
	return ours
}

// same is whether a status says already what this controller has to say. When a host was heard of last
// is written along with what is new, and is nothing new by itself.
func same(is, next *hostsv1.HostMachineStatus) bool {
	equal := equality.Semantic.DeepEqual
	var c, want hostsv1.ConfigurationStatus
	if is.Configuration != nil {
		c = hostsv1.ConfigurationStatus{Assigned: is.Configuration.Assigned, Applied: is.Configuration.Applied, Previous: is.Configuration.Previous}
	}
	if next.Configuration != nil {
		want = *next.Configuration
	}
	var repave *hostsv1.RepaveStatus
	if is.Repave != nil {
		of := *is.Repave
		of.Certificates = nil
		if !equal(of, hostsv1.RepaveStatus{}) {
			repave = &of
		}
	}
	return is.Phase == next.Phase && equal(is.NodeRef, next.NodeRef) && equal(c, want) && equal(is.Host, next.Host) && equal(is.Slots, next.Slots) &&
		equal(repave, next.Repave) && equal(ofHost(is.Executors), next.Executors) && equal(is.Drift, next.Drift) &&
		equal(status.Select(is.Conditions, next.Conditions), next.Conditions)
}

// news tells what has just become so.
func (r *Reconciler) news(p *pass, next *hostsv1.HostMachineStatus) {
	became := func(c string) *metav1.Condition {
		is, was := meta.FindStatusCondition(next.Conditions, c), meta.FindStatusCondition(p.m.Status.Conditions, c)
		if is == nil || is.Status != metav1.ConditionTrue || was != nil && was.Status == is.Status && was.Reason == is.Reason {
			return nil
		}
		return is
	}
	if c := became(hostsv1.ConditionRepaveFailed); c != nil {
		reason := hostsv1.EventRepaveFailed
		if c.Reason == hostsv1.ReasonReverted {
			reason = hostsv1.EventReverted
		}
		r.brake.ended(p.m)
		r.warn(p.m, reason, "%s", c.Message)
		if p.m.Status.Repave != nil {
			r.opts.Count.Repaved(p.m.Status.Repave.Reason, c.Reason)
		}
	}
	if c := became(hostsv1.ConditionConfigurationDrifted); c != nil {
		r.warn(p.m, hostsv1.EventDriftFound, "%s", c.Message)
	}
}

// hold sets the finalizer on the machine that was seen.
func (r *Reconciler) hold(ctx context.Context, p *pass) error {
	return r.finalizers(ctx, p.m, append(p.m.DeepCopy().Finalizers, hostsv1.Finalizer))
}

func (r *Reconciler) finalizers(ctx context.Context, m *hostsv1.HostMachine, all []string) error {
	next := m.DeepCopy()
	next.Finalizers = all
	if err := r.opts.Client.Patch(ctx, next, client.MergeFromWithOptions(m, client.MergeFromWithOptimisticLock{}), manager); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("finalizers of HostMachine %s: %w", m.Name, err)
	}
	return nil
}
