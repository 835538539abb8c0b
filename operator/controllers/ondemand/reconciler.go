package ondemand

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/controllers/machine/placement"
)

// resync is how often a Machine is looked at without news, in case some were missed.
const resync = 5 * time.Minute

// Options are the surroundings of a Reconciler; all are required unless said.
type Options struct {
	// Client is for the objects of the operator and of Cluster API.
	Client    client.Client
	Namespace string
	// Cluster is the name of the Cluster that Machines are made for.
	Cluster string
	// Workload is for Pods, volumes and Nodes; Live reads there past the cache.
	Workload client.Client
	Live     client.Reader
	// Shards says what the shards have of a group, in the order of the configuration.
	Shards func(group string) []placement.Shard
	// Events are published where the Pods are.
	Events events.EventRecorder
	Rules  Rules
	// Ready hears how long after its making a Pod got the Node that it asked for; nil:
	// nobody does.
	Ready func(took time.Duration)
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// Reconciler carries decisions out. Its requests name a Pod by its UID and have no
// namespace. New makes one; it is safe for concurrent use.
type Reconciler struct {
	Options
	memory memory
}

// New returns a reconciler.
func New(o Options) *Reconciler {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Ready == nil {
		o.Ready = func(time.Duration) {}
	}
	return &Reconciler{Options: o}
}

// Reconcile takes the instance of one Pod a step further.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	o, err := r.observe(ctx, req.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	d := Decide(*o, r.Rules, r.Now())
	if !slices.ContainsFunc(d.Actions, func(a Action) bool { _, makes := a.(Make); return makes }) {
		r.memory.release(req.Name)
	}
	if o.Pod == nil && o.Machine == nil {
		r.memory.forget(req.Name)
	}
	for _, action := range d.Actions {
		if err := r.act(ctx, o, action); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
	}
	if d.RequeueAfter == 0 && o.Machine != nil {
		d.RequeueAfter = resync
	}
	return ctrl.Result{RequeueAfter: d.RequeueAfter}, nil
}

// Keep puts what this package reads of a Pod into what a cache keeps of it: all of a Pod that
// asks for an instance, nothing of the others. It is a projection for the cache of Pods.
func Keep(from, into *corev1.Pod) {
	if Asks(from) {
		*into = *from
	}
}

// Indexes of Pods that ask for an instance: by their UID, and by the group that they ask for.
const (
	byUID   = "metadata.uid"
	byGroup = "group"
)

// anyGroup stands in the index for all groups; no group has that name.
const anyGroup = "*"

// PodIndexes are the indexes that a cache of Pods needs.
func PodIndexes() map[string]client.IndexerFunc {
	return map[string]client.IndexerFunc{
		byUID: func(o client.Object) []string {
			pod, ok := o.(*corev1.Pod)
			if !ok || !Asks(pod) {
				return nil
			}
			return []string{string(pod.UID)}
		},
		byGroup: func(o client.Object) []string {
			pod, ok := o.(*corev1.Pod)
			if !ok || !Asks(pod) {
				return nil
			}
			return []string{pod.Annotations[infrav1.OnDemandGroup], anyGroup}
		},
	}
}
