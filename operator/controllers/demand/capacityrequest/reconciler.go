package capacityrequest

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	"nstance.dev/operator/demand/translate"
	"nstance.dev/operator/demand/volumes"
)

// Options are the surroundings of a Reconciler; all are required unless said.
type Options struct {
	// Cache is for Pods, volumes and requests, and has the indexes of [Indexes].
	Cache client.Reader
	// Writer makes, changes and deletes requests. It has limits of its own, for there are many.
	Writer client.Client
	// Events are published on Pods.
	Events events.EventRecorder
	Log    *slog.Logger
	// Translation returns the settings that are in force; it is called for each Pod.
	Translation func() translate.Options
	Observer    Observer
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// Observer hears what is done, for metrics. Each function may be nil.
type Observer struct {
	Reconciled func(Outcome)
	// Warned hears of each thing that could not be translated, by its reason.
	Warned func(translate.Reason)
	// Made hears how long after a Pod its request was made.
	Made func(after time.Duration)
}

// Reconciler carries decisions out. Its requests name Pods. New makes one; it is safe for concurrent use.
type Reconciler struct {
	opts     Options
	expected expectations
}

// New returns a reconciler.
func New(o Options) *Reconciler {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Observer.Reconciled == nil {
		o.Observer.Reconciled = func(Outcome) {}
	}
	if o.Observer.Warned == nil {
		o.Observer.Warned = func(translate.Reason) {}
	}
	if o.Observer.Made == nil {
		o.Observer.Made = func(time.Duration) {}
	}
	return &Reconciler{opts: o}
}

// Reconcile makes the request of one Pod what it should be.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	d, err := r.reconcile(ctx, req.NamespacedName)
	if err != nil {
		r.opts.Observer.Reconciled(Failed)
		return ctrl.Result{}, err
	}
	r.opts.Observer.Reconciled(d.Outcome)
	if d.LookAgain {
		return ctrl.Result{RequeueAfter: expected}, nil
	}
	return ctrl.Result{}, nil
}

func (r *Reconciler) reconcile(ctx context.Context, name client.ObjectKey) (Decision, error) {
	var pod corev1.Pod
	err := r.opts.Cache.Get(ctx, name, &pod, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		return Decision{Outcome: Gone}, nil // the API server deletes what the Pod owned
	}
	if err != nil {
		return Decision{}, fmt.Errorf("pod %s: %w", name, err)
	}
	o, options := Observation{Pod: &pod}, r.opts.Translation()
	if o.Request, err = r.requestOf(ctx, &pod); err != nil {
		return Decision{}, err
	}
	o.Made, o.Deleted = r.expected.of(pod.UID, r.opts.Now())
	if o.Request != nil && o.Made {
		r.expected.seen(pod.UID)
	}
	if options.VolumeTopology && !translate.Terminal(&pod) {
		if o.Volumes, err = volumes.Of(ctx, r.opts.Cache, &pod); err != nil {
			return Decision{}, err
		}
	}
	d := Decide(o, options)
	return d, r.act(ctx, o, d)
}

// requestOf finds the request of a Pod in the cache: by its name, or by the UID of the Pod where it has another name.
// It shares memory with others: who changes it makes a copy.
func (r *Reconciler) requestOf(ctx context.Context, pod *corev1.Pod) (*demandv1.CapacityRequest, error) {
	var named demandv1.CapacityRequest
	err := r.opts.Cache.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: translate.Name(pod)}, &named, client.UnsafeDisableDeepCopy)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("capacity request of pod %s: %w", pod.UID, err)
	}
	if err == nil && named.Labels[demandv1.LabelOwnedByPod] == string(pod.UID) {
		return &named, nil
	}
	var list demandv1.CapacityRequestList
	err = r.opts.Cache.List(ctx, &list, client.InNamespace(pod.Namespace), client.MatchingFields{byPod: string(pod.UID)}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("capacity request of pod %s: %w", pod.UID, err)
	}
	if len(list.Items) == 0 {
		return nil, nil
	}
	first := slices.MinFunc(list.Items, func(a, b demandv1.CapacityRequest) int { return cmp.Compare(a.Name, b.Name) })
	return &first, nil
}

// act carries a decision out.
func (r *Reconciler) act(ctx context.Context, o Observation, d Decision) error {
	pod := o.Pod
	for _, w := range d.Warnings {
		r.opts.Observer.Warned(w.Reason)
		if w.Reason == translate.InvalidPenalty {
			r.opts.Events.Eventf(pod, nil, corev1.EventTypeWarning, string(w.Reason), "Translate", "%s", w.Message)
		}
	}
	log := r.opts.Log.With("namespace", pod.Namespace, "pod", pod.Name, "uid", pod.UID, "reason", d.Reason)
	switch {
	case d.Delete:
		log.InfoContext(ctx, "deleting the capacity request of a Pod")
		err := r.opts.Writer.DeleteAllOf(ctx, &demandv1.CapacityRequest{}, client.InNamespace(pod.Namespace),
			client.MatchingLabels{demandv1.LabelOwnedByPod: string(pod.UID)})
		if err != nil {
			return fmt.Errorf("delete capacity request of pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
		r.expected.deleted(pod.UID, r.opts.Now())
		return nil
	case d.Create != nil:
		return r.create(ctx, pod, d.Create, log)
	default:
		return r.patch(ctx, o.Request, d, log)
	}
}

// create makes a request. That there is one of its name is no failure: the name has the Pod's UID in it.
func (r *Reconciler) create(ctx context.Context, pod *corev1.Pod, made *demandv1.CapacityRequest, log *slog.Logger) error {
	status := made.Status
	err := r.opts.Writer.Create(ctx, made)
	if apierrors.IsAlreadyExists(err) {
		r.expected.made(pod.UID, r.opts.Now())
		return nil
	}
	if err != nil {
		return fmt.Errorf("make capacity request of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	r.expected.made(pod.UID, r.opts.Now())
	r.opts.Observer.Made(r.opts.Now().Sub(pod.CreationTimestamp.Time))
	log.InfoContext(ctx, "capacity request made", "request", made.Name)
	r.status(ctx, made, status, log)
	return nil
}

func (r *Reconciler) patch(ctx context.Context, have *demandv1.CapacityRequest, d Decision, log *slog.Logger) error {
	if d.Spec != nil {
		next := have.DeepCopy()
		next.Spec = *d.Spec
		if err := r.opts.Writer.Patch(ctx, next, client.MergeFrom(have)); err != nil {
			return client.IgnoreNotFound(fmt.Errorf("change capacity request %s/%s: %w", have.Namespace, have.Name, err))
		}
		log.InfoContext(ctx, "capacity request changed", "request", have.Name, "generation", next.Generation)
		have = next
	}
	if d.Status != nil {
		r.status(ctx, have, *d.Status, log)
	}
	return nil
}

// status says in a request that it waits to be reported. Nothing depends on it, so a failure is not made up
// for: a request without a phase counts as Pending.
func (r *Reconciler) status(ctx context.Context, of *demandv1.CapacityRequest, status demandv1.CapacityRequestStatus, log *slog.Logger) {
	for i := range status.Conditions {
		if c := &status.Conditions[i]; c.LastTransitionTime.IsZero() {
			c.LastTransitionTime.Time, c.ObservedGeneration = r.opts.Now(), of.Generation
		}
	}
	next := of.DeepCopy()
	next.Status = status
	if err := r.opts.Writer.Status().Patch(ctx, next, client.MergeFrom(of)); client.IgnoreNotFound(err) != nil {
		log.WarnContext(ctx, "status of a capacity request not written", "request", of.Name, "error", err)
	}
}
