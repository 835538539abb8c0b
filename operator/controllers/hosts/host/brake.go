package host

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/lifecycle"
)

// brake is what is known of Nodes that are gone, over all machines.
type brake struct {
	mu      sync.Mutex
	state   lifecycle.Brake
	missing map[string]time.Time // by machine: since when its Node is missed
	begun   map[string]int64     // by machine: the epoch of a repave that was begun by this process
	started bool                 // what statuses say was taken in
}

func (b *brake) forget(machine string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.missing, machine)
	delete(b.begun, machine)
}

// admit says why a machine whose Node is gone has to wait for others; empty: it has not. What was
// decided by it is told to done before another machine is asked about.
func (r *Reconciler) admit(ctx context.Context, p *pass) (why string, done func(lifecycle.Decision), err error) {
	b, name := &r.brake, p.m.Name
	since := p.memory.absence.Since(nodeUID(p.m))
	b.mu.Lock()
	if since.IsZero() {
		delete(b.missing, name)
		b.mu.Unlock()
		return "", func(lifecycle.Decision) {}, nil
	}
	b.missing[name] = since
	done = func(d lifecycle.Decision) {
		if d.Action == lifecycle.Assign && d.Row == lifecycle.RowMissed {
			b.begun[name] = d.Assignment.Epoch
		}
		b.mu.Unlock()
	}
	why, err = r.braked(ctx)
	if err != nil {
		b.mu.Unlock()
		return "", nil, err
	}
	return why, done, nil
}

// braked looks at the fleet; the brake's mutex is held.
func (r *Reconciler) braked(ctx context.Context) (string, error) {
	b, now := &r.brake, r.opts.Now()
	var machines hostsv1.HostMachineList
	if err := r.opts.Client.List(ctx, &machines, client.UnsafeDisableDeepCopy); err != nil {
		return "", fmt.Errorf("list HostMachines: %w", err)
	}
	repaving := 0
	for i := range machines.Items {
		m := &machines.Items[i]
		if s := m.Status.Repave; s != nil && s.Held != nil && s.Held.Reason == lifecycle.HeldBrake && s.Held.Since != nil && !b.started {
			b.state = b.state.Held(s.Held.Since.Time)
		}
		if epoch, begun := b.begun[m.Name]; begun && assignedEpoch(m) < epoch {
			repaving++ // the cache does not have it yet
			continue
		}
		delete(b.begun, m.Name)
		if away(m) {
			repaving++
		}
	}
	b.started = true
	was := b.state.On()
	released, err := r.released(ctx)
	if err != nil {
		return "", err
	}
	b.state = b.state.Next(b.missing, len(machines.Items), now)
	switch {
	case released && was:
		b.state = b.state.Released(now)
		r.opts.Log.InfoContext(ctx, "brake of repaves released", "reason", "annotation "+hostsv1.AnnotationReleaseBrake)
		return "", nil
	case released:
		// One that was set for an earlier loss is no word about this one.
		r.opts.Log.WarnContext(ctx, "annotation removed that releases nothing", "annotation", hostsv1.AnnotationReleaseBrake, "reason", "the brake of repaves was not on when it was read")
	}
	if !b.state.On() {
		return "", nil
	}
	if !was {
		r.opts.Log.WarnContext(ctx, "brake of repaves on", "missing", len(b.missing), "machines", len(machines.Items), "reason", "too many Nodes went missing within a few minutes")
		r.opts.Notice(ctx, hostsv1.EventFleetBrake, "Repave",
			"%d of %d Nodes of host machines are missing, more than %d within a few minutes: machines are repaved one by one; if that is meant, set annotation %s on a MachineConfiguration",
			len(b.missing), len(machines.Items), lifecycle.Limit(len(machines.Items)), hostsv1.AnnotationReleaseBrake)
	}
	return b.state.Why(repaving), nil
}

// away is whether a machine is repaved because its Node was deleted, and has not got another one.
func away(m *hostsv1.HostMachine) bool {
	s := m.Status.Repave
	if s == nil || s.Reason != lifecycle.ReasonNodeDeleted && s.Reason != lifecycle.ReasonNodeReplaced || s.Epoch != assignedEpoch(m) || nodeUID(m) != "" {
		return false
	}
	for _, c := range m.Status.Conditions {
		if c.Type == hostsv1.ConditionRepaveFailed && c.Status == "True" {
			return false
		}
	}
	return true
}

func assignedEpoch(m *hostsv1.HostMachine) int64 {
	if c := m.Status.Configuration; c != nil && c.Assigned != nil {
		return c.Assigned.Epoch
	}
	return 0
}

// released is whether a user releases the brake. The annotation counts once, and is removed.
func (r *Reconciler) released(ctx context.Context) (bool, error) {
	var all hostsv1.MachineConfigurationList
	if err := r.opts.Client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("list MachineConfigurations: %w", err)
	}
	released := false
	for i := range all.Items {
		c := &all.Items[i]
		if _, asked := c.Annotations[hostsv1.AnnotationReleaseBrake]; !asked {
			continue
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": c.UID, "annotations": map[string]any{hostsv1.AnnotationReleaseBrake: nil}}})
		if err != nil {
			return false, fmt.Errorf("patch of MachineConfiguration %s: %w", c.Name, err)
		}
		if err := r.opts.Client.Patch(ctx, c.DeepCopy(), client.RawPatch(types.MergePatchType, patch), manager); client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("remove annotation %s of MachineConfiguration %s: %w", hostsv1.AnnotationReleaseBrake, c.Name, err)
		}
		released = true
	}
	return released, nil
}
