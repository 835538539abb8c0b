package drains

import (
	"context"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/drain"
	"nstance.dev/operator/inventory"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Server is what a drain tells its shard; *shards.Shard is one.
type Server interface {
	AcknowledgeDrained(ctx context.Context, req *nstancev1.AcknowledgeDrainedRequest) error
}

// Options are the surroundings of a Reconciler; all are required unless said.
type Options struct {
	// Client is for the objects of the operator and of Cluster API.
	Client    client.Client
	Namespace string
	// Workload is for Nodes, Pods and volumes; Live reads there past the cache.
	Workload  client.Client
	Live      client.Reader
	Inventory *inventory.Store
	// Server returns a shard; false: it is not configured.
	Server func(shard string) (Server, bool)
	// Events are published where the Nodes are.
	Events events.EventRecorder
	// Evictions limits how many Pods are asked to leave per second, over all Nodes.
	Evictions *rate.Limiter
	// Concurrency is how many Nodes are emptied at once.
	Concurrency int
	// Force says what happens when the time is nearly over.
	Force drain.Force
	// Self is the UID of this program's own Pod; empty: it runs in none.
	Self types.UID
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// Reconciler carries drains out. Its requests name an instance by its id and have no
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
	return &Reconciler{Options: o}
}

// Reconcile takes the drain of one instance a step further.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	id := req.Name
	s, err := r.see(ctx, id)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !s.answer.Wanted {
		r.memory.forget(id)
		return ctrl.Result{}, r.report(ctx, s, drain.Decision{})
	}
	r.memory.put(id, s.entry)
	if s.answer.Fate == drain.Condemned && !r.turn(s) {
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	o, err := r.observe(ctx, s)
	if err != nil {
		return ctrl.Result{}, err
	}
	d := drain.Step(s.entry.state, o, r.Now())
	again, err := r.carryOut(ctx, s, d)
	if err != nil {
		return ctrl.Result{}, err
	}
	return again, r.report(ctx, s, d)
}

// turn reports whether a drain may go on beside the others: those that this process works
// on, and those that it has not come to yet.
func (r *Reconciler) turn(s *sight) bool {
	if s.entry.state.Phase != api.DrainCordoned {
		return true
	}
	all, known := r.memory.waiting()
	for _, shard := range r.Inventory.Names() {
		r.Inventory.Read(shard, func(said *inventory.Shard) {
			for _, in := range said.Instances("") {
				if in.GetStatus() == inventory.StatusDraining && !known[in.GetInstanceId()] {
					other := Asked(Sight{Presence: inventory.Present, Said: in}, r.Now())
					all = append(all, Waiting{other.Request, api.DrainCordoned, r.Now()})
				}
			}
		})
	}
	return Turn(s.answer.Request.Instance, all, r.Concurrency, r.Now())
}
