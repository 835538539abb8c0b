package podevents

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/source"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	"nstance.dev/operator/demand/aggregate"
	"nstance.dev/operator/demand/readback"
	"nstance.dev/operator/demand/translate"
)

// Options are the surroundings of a Reconciler; all are required unless said.
type Options struct {
	// Cache is for Pods, requests, UpcomingNodes and AvailableCapacities; what it keeps of Pods says [Keep].
	Cache  client.Reader
	Events events.EventRecorder
	// Limiter bounds the events of all Pods.
	Limiter *rate.Limiter
	// Translate says what a Pod without a request asks for; false: nothing. nil: Pods without one never count.
	Translate func(context.Context, *corev1.Pod) (demandv1.CapacityRequestSpec, bool)
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// Reconciler sends the events. Its requests name Pods. New makes one; it is safe for concurrent use.
type Reconciler struct {
	opts  Options
	turns *turns
}

// New returns a reconciler.
func New(o Options) *Reconciler {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Reconciler{opts: o, turns: newTurns(o.Limiter)}
}

// Keep puts into a cache of Pods what a Reconciler reads of one itself.
func Keep(from, into *corev1.Pod) {
	into.CreationTimestamp, into.DeletionTimestamp = from.CreationTimestamp, from.DeletionTimestamp
	into.Spec.NodeName, into.Status.Phase = from.Spec.NodeName, from.Status.Phase
}

// Reconcile sends an event about one Pod if there is something to say.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var pod corev1.Pod
	if err := r.opts.Cache.Get(ctx, req.NamespacedName, &pod, client.UnsafeDisableDeepCopy); err != nil {
		if client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, fmt.Errorf("pod %s: %w", req, err)
		}
		return ctrl.Result{}, nil
	}
	if !waits(&pod) {
		return ctrl.Result{}, nil
	}
	now := r.opts.Now()
	told, wait := r.turns.wait(&pod, now)
	if wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	o := Observation{Pod: &pod, Told: told}
	if err := r.observe(ctx, &o); err != nil {
		return ctrl.Result{}, err
	}
	d := Decide(o, now)
	if e := d.Event; e != nil {
		if wait := r.turns.take(pod.UID, now); wait > 0 {
			return ctrl.Result{RequeueAfter: wait}, nil
		}
		r.opts.Events.Eventf(&pod, nil, e.Type, e.Reason, e.Action, "%s", e.Message)
	}
	return ctrl.Result{RequeueAfter: d.After}, nil
}

// observe reads what a Pod asks for, the machines on their way that it fits on, and what the shards lack for it.
func (r *Reconciler) observe(ctx context.Context, o *Observation) error {
	if err := r.asked(ctx, o); err != nil || o.Spec == nil {
		return err
	}
	var nodes demandv1.UpcomingNodeList
	if err := r.opts.Cache.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("upcoming nodes: %w", err)
	}
	o.Upcoming = fitting(o.Spec, nodes.Items)
	rows, _ := aggregate.Build(aggregate.Options{}, slices.Values([]aggregate.Item{{ID: string(o.Pod.UID), Spec: o.Spec}}))
	if len(rows) == 0 {
		return nil
	}
	var capacity demandv1.AvailableCapacity
	err := r.opts.Cache.Get(ctx, client.ObjectKey{Name: readback.CapacityName(rows[0].Fingerprint)}, &capacity, client.UnsafeDisableDeepCopy)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("available capacity: %w", err)
	}
	if err == nil {
		o.Capacity = &capacity
	}
	return nil
}

// asked fills in what the Pod asks for: by its request, or by itself.
func (r *Reconciler) asked(ctx context.Context, o *Observation) error {
	var request demandv1.CapacityRequest
	err := r.opts.Cache.Get(ctx, client.ObjectKey{Namespace: o.Pod.Namespace, Name: translate.Name(o.Pod)}, &request, client.UnsafeDisableDeepCopy)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("capacity request of pod %s/%s: %w", o.Pod.Namespace, o.Pod.Name, err)
	}
	if err == nil {
		o.Spec, o.Reported = &request.Spec, request.Status.Phase == demandv1.CapacityRequestAcknowledged
		return nil
	}
	if r.opts.Translate == nil {
		return nil
	}
	if spec, counts := r.opts.Translate(ctx, o.Pod); counts {
		o.Spec, o.Reported = &spec, true
	}
	return nil
}

// SetupWithManager makes a manager run the reconciler over the Pods of a cluster.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, pods cluster.Cluster, o controller.Options) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named("podevents").
		WatchesRawSource(source.TypedKind[*corev1.Pod](pods.GetCache(), &corev1.Pod{}, arrivals{r.opts.Now})).
		WithOptions(o).
		Complete(r)
	if err != nil {
		return fmt.Errorf("controller podevents: %w", err)
	}
	return nil
}
