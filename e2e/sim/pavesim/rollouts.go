package pavesim

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"nstance.dev/e2e/sim/objects"
	"nstance.dev/e2e/sim/pavesim/shard"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/controllers/hosts/rollout"
	"nstance.dev/operator/drain"
	"nstance.dev/operator/hosts/holds"
	"nstance.dev/operator/inventory"
)

// rolls is whether machines are brought to new versions, and how many may be unavailable then.
func (w *world) rolls() (maxUnavailable int, rolls bool) {
	maxUnavailable = w.number("rolling")
	return maxUnavailable, maxUnavailable > 0
}

// strategy is that of the configuration.
func (w *world) strategy() *hostsv1.UpdateStrategy {
	most, rolls := w.rolls()
	if !rolls {
		return nil
	}
	budget, ready, failures := intstr.FromInt32(int32(most)), int32(10), int32(1) //nolint:gosec // a plan has small numbers
	s := &hostsv1.RollingUpdate{MaxUnavailable: &budget, DrainTimeout: "2m", MinReadySeconds: &ready, MaxFailures: &failures}
	if w.text("window") != "" {
		s.Windows = []hostsv1.Window{{Cron: "10 0 * * *", Duration: hostsv1.Duration(w.text("window")), Timezone: "UTC"}}
	}
	return &hostsv1.UpdateStrategy{Type: hostsv1.UpdateRolling, RollingUpdate: s}
}

// within is whether machines may be begun now: the one window there is opens ten minutes after the beginning.
func (w *world) within() bool {
	if w.text("window") == "" || w.calm {
		return true
	}
	length, err := time.ParseDuration(w.text("window"))
	if err != nil {
		panic(fmt.Sprintf("setting window: %v", err))
	}
	at := time.Now().UTC().Sub(time.Now().UTC().Truncate(24*time.Hour)) - 10*time.Minute
	return at >= 0 && at < length
}

// rollouts makes the controller that brings machines to new versions, and what drains their Nodes.
func (p *process) rollouts(cached, live client.Client, o rollout.Options) (roller, drains reconcile.Reconciler) {
	requests := &rollout.Requests{}
	o.Client, o.Live, o.Nodes, o.Inventory, o.Requests, o.Now = cached, live, cached, p.inventory, requests, time.Now
	o.Holds = &holds.Holds{Shard: func(string) (holds.Shard, bool) { return server{p}, p.stream != nil && !p.stream.Over() }, Now: time.Now}
	o.Wake = func(instances ...string) {
		for _, m := range objects.Known[*hostsv1.HostMachine](p.cache) {
			for _, id := range instances {
				if m.Spec.Instance != nil && string(m.Spec.Instance.ID) == id {
					p.add(ofDrains, m.Name, 0)
				}
			}
		}
	}
	return rollout.New(o), &drainer{p, cached, requests.Source(drain.Sources()...)}
}

// drainer empties Nodes, as the drain engine does: it writes down that it begins and that it has ended, and undoes what is
// withdrawn. Pods leave in a while, but for those that do not.
type drainer struct {
	p      *process
	client client.Client
	source drain.Source
}

// Reconcile implements reconcile.Reconciler, for the Node of one machine.
func (d *drainer) Reconcile(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
	m, n := &hostsv1.HostMachine{}, &corev1.Node{}
	if err := d.client.Get(ctx, r.NamespacedName, m); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if err := d.client.Get(ctx, client.ObjectKey{Name: m.NodeName()}, n); err != nil || m.Spec.Instance == nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	state, _, err := drain.ParseState(n.Annotations)
	if err != nil {
		return ctrl.Result{}, err
	}
	target := drain.Target{Instance: string(m.Spec.Instance.ID), Node: n.UID, State: state, Presence: inventory.Present}
	d.p.inventory.Read(shard.Name, func(s *inventory.Shard) { target.Reported = s.Instance(target.Instance) })
	request, asked := d.source(target, time.Now())
	switch {
	case !asked:
		return ctrl.Result{}, nil
	case request.Withdrawn:
		return ctrl.Result{}, client.IgnoreNotFound(d.client.Update(ctx, drain.WithoutState(n)))
	case state.Phase == drain.None || state.Instruction != request.Instruction:
		return ctrl.Result{RequeueAfter: 5 * time.Second}, client.IgnoreNotFound(d.client.Update(ctx, drain.WithState(n, drain.Begin(n, request, time.Now()))))
	case state.Phase == infrav1.DrainDone:
		return ctrl.Result{}, nil
	case d.p.w.stuck[m.Name]:
		return ctrl.Result{RequeueAfter: 5 * time.Second}, nil
	}
	state.Phase = infrav1.DrainDone
	d.p.w.oracle.empty[n.UID] = true
	return ctrl.Result{}, client.IgnoreNotFound(d.client.Update(ctx, drain.WithState(n, state)))
}
