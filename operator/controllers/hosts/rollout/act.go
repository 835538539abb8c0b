package rollout

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/rollout"
	"nstance.dev/operator/status"
)

func equalRollouts(a, b *hostsv1.MachineRollout) bool { return equality.Semantic.DeepEqual(a, b) }

// carryOut does one step, and tells it.
func (r *Reconciler) carryOut(ctx context.Context, s *seen, w *work, step rollout.Step) error {
	m := s.machines[step.Machine]
	next := step.Rollout
	if step.Action == rollout.Begin {
		// From here on the version does not move: an edit of the template makes the next one.
		locked, err := r.opts.Lock(ctx, s.configuration.Name, next.Version, m.Name)
		if err != nil {
			return fmt.Errorf("lock version %d of MachineConfiguration %s: %w", next.Version, s.configuration.Name, err)
		}
		if locked.Hash != next.Hash {
			return fmt.Errorf("version %d of MachineConfiguration %s has changed", next.Version, s.configuration.Name)
		}
		if err := r.hold(ctx, w, m, next); err != nil {
			return err
		}
	}
	if step.Action != rollout.Delete {
		if err := r.write(ctx, w, m, next); err != nil {
			return err
		}
	}
	if step.Action == rollout.Replace || step.Action == rollout.Delete {
		deleted, err := r.deleteNode(ctx, m, next.NodeUID)
		if err != nil {
			return err
		}
		if !deleted && step.Action == rollout.Delete { // it was before, and the cache has it still
			return nil
		}
	}
	r.unhold(ctx, w, m, step)
	r.tell(ctx, s, m, step)
	return nil
}

// write writes what was begun with a machine, as it was read, or not at all: the rollout of another configuration may have
// it by now.
func (r *Reconciler) write(ctx context.Context, w *work, m *hostsv1.HostMachine, next *hostsv1.MachineRollout) error {
	object := &hostsv1.HostMachine{ObjectMeta: metav1.ObjectMeta{Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion}}
	object.Status.Rollout = next
	if err := status.ApplyUnchanged(ctx, r.opts.Client, object, manager); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the rollout of HostMachine %s: %w", m.Name, err)
	}
	w.wrote[m.Name] = written{uid: string(m.UID), rollout: next, until: r.opts.Now().Add(lateFor)}
	return nil
}

// deleteNode deletes the very Node that was drained, if it is there.
func (r *Reconciler) deleteNode(ctx context.Context, m *hostsv1.HostMachine, uid string) (deleted bool, err error) {
	of := types.UID(uid)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.NodeName()}}
	err = r.opts.Nodes.Delete(ctx, node, client.Preconditions{UID: &of})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err): // gone, or another one
		return false, nil
	case err != nil:
		return false, fmt.Errorf("delete Node %s: %w", node.Name, err)
	}
	return true, nil
}

// tell tells a step.
func (r *Reconciler) tell(ctx context.Context, s *seen, m *hostsv1.HostMachine, step rollout.Step) {
	r.opts.Count(step.Action)
	version := s.in.Target.Version.Version
	if m.Status.Rollout != nil && step.Action != rollout.Begin {
		version = m.Status.Rollout.Version
	}
	r.opts.Log.InfoContext(ctx, "rollout takes a step", "step", string(step.Action), "configuration", s.configuration.Name, "version", version, "machine", m.Name, "reason", step.Reason)
	switch step.Action {
	case rollout.Skip:
		r.opts.Events.Eventf(m, nil, corev1.EventTypeWarning, hostsv1.EventRolloutDrainBlocked, "Rollout", "%s", step.Reason)
	case rollout.Abandon:
		r.opts.Events.Eventf(m, nil, corev1.EventTypeNormal, hostsv1.EventRolloutAbandoned, "Rollout", "the Node is left as it was: %s", step.Reason)
	case rollout.Begin, rollout.Replace, rollout.Delete, rollout.Finish, rollout.Fail, rollout.Clear:
	}
}
