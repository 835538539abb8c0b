package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/images"
	"nstance.dev/operator/hosts/lifecycle"
)

// New returns a reconciler.
func New(o Options) *Reconciler {
	if o.Count.Repaved == nil {
		o.Count.Repaved = func(string, string) {}
	}
	if o.Count.Back == nil {
		o.Count.Back = func(time.Duration) {}
	}
	r := &Reconciler{opts: o, memories: map[string]*memory{}}
	r.brake = newBrake(&r.opts)
	return r
}

// Reconcile carries out what comes next for one machine.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	m := &hostsv1.HostMachine{}
	if err := r.opts.Client.Get(ctx, request.NamespacedName, m); err != nil {
		if client.IgnoreNotFound(err) == nil {
			r.forget(request.Name)
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("read HostMachine %s: %w", request.Name, err)
	}
	if m.Spec.Instance != nil {
		r.opts.Reports.Want(string(m.Spec.Instance.Shard))
	}
	p := &pass{m: m, memory: r.remember(m.Name), log: r.opts.Log.With("machine", m.Name)}
	if err := r.observe(ctx, p); err != nil {
		return ctrl.Result{}, err
	}
	braked, done, err := r.brake.admit(ctx, p)
	if err != nil {
		return ctrl.Result{}, err
	}
	p.in.Braked = braked
	p.d = lifecycle.Decide(p.in, r.opts.Now())
	done(p.d)
	if p.d.Action == lifecycle.Assign && p.d.Assignment.Mode != hostsv1.ModeReset && !p.live {
		// What is begun follows from what the API server says now.
		r.lookLive(ctx, p)
		p.d = lifecycle.Decide(p.in, r.opts.Now())
	}
	p.log = p.log.With("row", int(p.d.Row), "reason", p.d.Reason)
	r.tell(p)
	if err := r.act(ctx, p); err != nil {
		if p.d.Action == lifecycle.Assign { // what fails later does not undo what was begun
			r.brake.notBegun(p, err)
		}
		if errors.Is(err, images.ErrUnresolved) && !p.wrote {
			return r.postpone(ctx, p, err)
		}
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: p.d.After}, nil
}

// postpone says why nothing was assigned: the image cannot be told that is to be built from.
func (r *Reconciler) postpone(ctx context.Context, p *pass, why error) (ctrl.Result, error) {
	p.log.WarnContext(ctx, "nothing assigned: tag of the image not resolved", "error", why)
	p.d = lifecycle.Postpone(p.in, p.d, lifecycle.Held{Reason: lifecycle.HeldUnresolved, Message: why.Error()}, images.Again)
	if !p.memory.problems[hostsv1.EventImageUnresolved] {
		p.memory.problems[hostsv1.EventImageUnresolved] = true
		r.warn(p.m, hostsv1.EventImageUnresolved, "nothing is assigned until the image is known: %v; set a digest, or repair the registry or the pull secret", why)
	}
	if err := r.write(ctx, p, nil); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: p.d.After}, nil
}

// act writes what there is to say of a machine and carries the action out.
func (r *Reconciler) act(ctx context.Context, p *pass) error {
	switch p.d.Action {
	case lifecycle.Hold:
		return r.hold(ctx, p)
	case lifecycle.Assign:
		return r.assign(ctx, p)
	case lifecycle.Confirm:
		return r.confirm(ctx, p)
	case lifecycle.Recover:
		return r.recover(ctx, p)
	case lifecycle.Release:
		return r.release(ctx, p)
	case lifecycle.None, lifecycle.LookAgain, lifecycle.Publish, lifecycle.RemoveNode, lifecycle.Mark:
	}
	if is, known := repaving(p); known {
		if err := r.remediation(ctx, p, is); err != nil {
			return err
		}
	}
	if p.d.Action == lifecycle.Publish {
		return r.publish(ctx, p)
	}
	if err := r.write(ctx, p, nil); err != nil {
		return err
	}
	switch p.d.Action {
	case lifecycle.RemoveNode:
		return r.removeNode(ctx, p)
	case lifecycle.Mark:
		return r.mark(ctx, p)
	default:
		return nil
	}
}
