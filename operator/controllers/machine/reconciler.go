package machine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/shards"
	"nstance.dev/operator/status"
	"nstance.dev/operator/unsent"
	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Server is what a machine asks of its shard; *shards.Shard is one.
type Server interface {
	Status() shards.Status
	CreateInstance(ctx context.Context, req *nstancev1.CreateInstanceRequest) (*nstancev1.CreateInstanceResponse, error)
	DeleteInstance(ctx context.Context, group string, req *nstancev1.DeleteInstanceRequest) (*nstancev1.DeleteInstanceResponse, error)
	GetInstanceStatus(ctx context.Context, id string) (*nstancev1.InstanceStatus, error)
}

// Options are the surroundings of a Reconciler; all are required unless said.
type Options struct {
	// Client reads from caches and writes to the API server of the objects.
	Client client.Client
	// Live reads there past the caches.
	Live client.Reader
	// Nodes reads from the caches of the API server of the Nodes, LiveNodes past them.
	Nodes, LiveNodes client.Reader
	Inventory        *inventory.Store
	// CoolOff says where there is no room.
	CoolOff *inventory.CoolOffs
	// Shards returns the configured shards in their order; a nil Server is one that is
	// not there yet.
	Shards func() []Named
	Events events.EventRecorder
	// ProvisionTimeout is how long an instance may take before no other shard is tried.
	ProvisionTimeout time.Duration
	// Unsent are the sizes of pools that statuses wait for; nil: none waits.
	Unsent *unsent.Sizes
	// Leaked hears of each instance that a user gave up; nil: nobody does.
	Leaked func()
	// Now is the clock, NewID makes ids of instances; nil: time.Now, identity.NewID.
	Now   func() time.Time
	NewID func(prefix string) (identity.ID, error)
}

// Named is a shard and its name.
type Named struct {
	Name   string
	Server Server
}

// Reconciler carries decisions out. New makes one; it is safe for concurrent use.
type Reconciler struct {
	Options
	memory memory
	pace   pace
	began  time.Time
}

// New returns a reconciler.
func New(o Options) *Reconciler {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewID == nil {
		o.NewID = identity.NewID
	}
	if o.Leaked == nil {
		o.Leaked = func() {}
	}
	return &Reconciler{Options: o, began: o.Now()}
}

// manager owns the part of the status that this controller keeps.
var manager = status.FieldManager("machine")

// Reconcile observes a machine, decides and carries out.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	o, d, err := r.decide(ctx, req.NamespacedName)
	if errors.Is(err, errUnread) { // a pause that does not grow with the outage
		log.FromContext(ctx).Info("shard not called: the API server does not answer", "error", err.Error())
		return ctrl.Result{RequeueAfter: livePause}, nil
	}
	if err != nil || o == nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if d.reports() && differs(o.Machine.Status, d.Status) {
		if wait := r.Unsent.Defer(unsent.Machine(req.NamespacedName)); wait > 0 {
			return status.Deferred(wait, d.RequeueAfter), nil
		}
	}
	for _, action := range d.Actions {
		again, err := r.act(ctx, *o, action)
		if err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
		if again && (d.RequeueAfter == 0 || d.RequeueAfter > AtOnce) {
			d.RequeueAfter = AtOnce
		}
		if _, released := action.(RemoveFinalizer); released {
			return ctrl.Result{RequeueAfter: d.RequeueAfter}, nil // nobody reads the status of what is gone
		}
	}
	if differs(o.Machine.Status, d.Status) {
		state := &infrav1.NstanceMachine{ObjectMeta: o.Machine.ObjectMeta, Status: d.Status}
		if err := status.Apply(ctx, r.Client, state, manager); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
	}
	return ctrl.Result{RequeueAfter: d.RequeueAfter}, nil
}

// errUnread: the API server does not answer. livePause is until it is asked again.
var errUnread = errors.New("the machine is not read from the API server")

const livePause = 5 * time.Second

// decide observes a machine and decides; nil without an error: the machine is no business of
// ours. Nobody knows how far behind a cache is. So a decision that calls the shard is made again
// for the machine as the API server itself has it, which also keeps shards from calls while that
// is away; and before the end of an instance without a Node is asked for, a Node that the cache
// does not have yet is looked for.
func (r *Reconciler) decide(ctx context.Context, name types.NamespacedName) (*Observation, Decision, error) {
	o, err := r.observe(ctx, r.Client, name)
	if err != nil || o == nil {
		return nil, Decision{}, err
	}
	d := Decide(*o, r.Now())
	if !d.creates() && !d.deletes() {
		return o, d, nil
	}
	if o, err = r.observe(ctx, r.Live, name); client.IgnoreNotFound(err) != nil {
		return nil, Decision{}, fmt.Errorf("%w: %w", errUnread, err)
	}
	if err != nil || o == nil {
		return nil, Decision{}, err
	}
	if d = Decide(*o, r.Now()); d.deletes() && o.Node == nil && o.NodeDoubt == "" {
		r.observeNodeLive(ctx, o)
		d = Decide(*o, r.Now())
	}
	return o, d, nil
}

// Remember tells an inventory of the instances that machines on these shards stand for: what
// a first listing lacks of them is missing, and not merely unknown. It is called for each
// shard once, after the inventory has it and before it is connected.
func Remember(ctx context.Context, machines client.Reader, store *inventory.Store, namespace string, shards []string) error {
	var list infrav1.NstanceMachineList
	if err := machines.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("list NstanceMachines: %w", err)
	}
	for i := range list.Items {
		m := &list.Items[i]
		if !slices.Contains(shards, m.Spec.Shard) {
			continue
		}
		seen := m.Spec.Mode == infrav1.MachineManaged || m.Status.InstanceID == m.Spec.InstanceID
		if m.Spec.InstanceID == "" || !seen || m.Status.InstanceState == infrav1.InstanceTerminated {
			continue
		}
		store.Update(m.Spec.Shard, func(s *inventory.Shard) []inventory.Change {
			s.Expect(m.Spec.InstanceID, m.Spec.GroupRef.Name, m.Spec.ProviderID)
			return nil
		})
	}
	return nil
}

// key names an object.
func key(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}
