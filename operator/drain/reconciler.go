package drain

import (
	"context"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/inventory"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Server is what a drain tells its shard; *shards.Shard is one.
type Server interface {
	AcknowledgeDrained(ctx context.Context, req *nstancev1.AcknowledgeDrainedRequest) error
}

// Observer hears what happens, for metrics. Nil functions are left out.
type Observer struct {
	// Drained reports the end of a drain.
	Drained func(Ended)
	// Pod reports a Pod that was moved: evicted, or deleted at the end of the time.
	Pod func(forced bool)
	// Acknowledged reports what a shard answered when it was told that a Node is empty;
	// codes.Unavailable if it is not configured.
	Acknowledged func(codes.Code)
	// Blocked reports, as often as drains are worked on, for how long the one that has
	// waited longest has now waited for disruption budgets; zero: none does.
	Blocked func(longest time.Duration)
}

// Ended is a drain that has come to its end.
type Ended struct {
	// Reason is why the instance had to go, in its server's words.
	Reason string
	// Forced: Pods had to be deleted, or stayed; Left is how many stayed.
	Forced bool
	Left   int
	Took   time.Duration
	// Slack is how long before its deadline the drain ended, negative if after it; nil:
	// there was no deadline.
	Slack *time.Duration
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
	// Events are published where the Nodes are, MachineEvents where the machines are.
	Events, MachineEvents events.EventRecorder
	// Evictions limits how many Pods are asked to leave per second, over all Nodes.
	Evictions *rate.Limiter
	// Concurrency is how many Nodes are emptied at once.
	Concurrency int
	// Force says what happens when the time is nearly over.
	Force Force
	// Self is the UID of this program's own Pod; empty: it runs in none.
	Self     types.UID
	Observer Observer
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// Reconciler carries drains out. Its requests name an instance by its id and have no
// namespace. New makes one; it is safe for concurrent use.
type Reconciler struct {
	Options
	memory memory
	queue  queue
}

// New returns a reconciler.
func New(o Options) *Reconciler {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Observer.Drained == nil {
		o.Observer.Drained = func(Ended) {}
	}
	if o.Observer.Pod == nil {
		o.Observer.Pod = func(bool) {}
	}
	if o.Observer.Acknowledged == nil {
		o.Observer.Acknowledged = func(codes.Code) {}
	}
	if o.Observer.Blocked == nil {
		o.Observer.Blocked = func(time.Duration) {}
	}
	return &Reconciler{Options: o}
}

// Reconcile takes the drain of one instance a step further.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	id := req.Name
	defer func() { r.Observer.Blocked(r.memory.blocked(r.Now())) }()
	s, err := r.see(ctx, id)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !s.answer.Wanted {
		r.memory.forget(id)
		return ctrl.Result{}, r.report(ctx, s, Decision{})
	}
	r.tellDoubt(ctx, s)
	r.memory.put(id, s.entry)
	if s.answer.Fate == Condemned && !r.turn(s) {
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	o, err := r.observe(ctx, s)
	if err != nil {
		return ctrl.Result{}, err
	}
	d, done, err := r.step(ctx, s, o)
	if err == nil && done.acked { // the shard acts at once; before that the end is written down
		o.Node, o.Results, o.Acknowledged, o.Repeated = s.node, done.results, true, false
		d, done, err = r.step(ctx, s, o)
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	next := r.next(s, d, done)
	if next.RequeueAfter == AtOnce { // and then there is more to say
		return next, nil
	}
	return next, r.report(ctx, s, d)
}

// step decides, does what that asks for, and remembers what came of it. Only what was
// written on the Node counts as done: if that fails, the drain stays where it was.
func (r *Reconciler) step(ctx context.Context, s *sight, o Observation) (Decision, outcome, error) {
	d := Step(s.entry.state, o, r.Now())
	var done outcome
	for _, action := range d.Actions {
		if err := r.act(ctx, s, d.State, action, &done); err != nil {
			return d, done, err
		}
	}
	r.ended(s.entry.state, d.State, d.Counts)
	s.entry.state, s.entry.results, s.entry.acked = d.State, done.results, done.acked
	s.entry.wait(d, r.Now())
	r.memory.put(o.Request.Instance, s.entry)
	return d, done, nil
}

// next says when a drain goes on. One that is over is forgotten, unless its shard may not
// have heard of it.
func (r *Reconciler) next(s *sight, d Decision, done outcome) ctrl.Result {
	switch {
	case d.Over && d.State.Phase != None && s.answer.Fate == Condemned:
		return ctrl.Result{RequeueAfter: repeatAfter}
	case d.Over:
		r.memory.forget(s.answer.Request.Instance)
		return ctrl.Result{}
	case done.limited:
		return ctrl.Result{RequeueAfter: min(d.Again, evictAgain)}
	case s.answer.Spared && d.Again == 0:
		return ctrl.Result{RequeueAfter: sparedFor}
	}
	return ctrl.Result{RequeueAfter: d.Again}
}

// turn reports whether a drain may go on beside the others: those that this process works
// on, and those that it has not come to yet.
func (r *Reconciler) turn(s *sight) bool {
	if s.entry.state.Phase != api.DrainCordoned {
		return true
	}
	all, known := r.memory.waiting()
	all = append(all, r.asked(known)...)
	return Turn(s.answer.Request.Instance, all, r.Concurrency, r.Now())
}

// asked returns the drains that the shards ask for, save the known ones.
func (r *Reconciler) asked(known map[string]bool) (others []Waiting) {
	all := r.queue.get(r.Now(), func() (all []Waiting) {
		for _, shard := range r.Inventory.Names() {
			r.Inventory.Read(shard, func(said *inventory.Shard) {
				for _, in := range said.Instances("") {
					if in.GetStatus() == inventory.StatusDraining {
						other := Asked(Sight{Presence: inventory.Present, Said: in}, r.Now())
						all = append(all, Waiting{other.Request, api.DrainCordoned, r.Now()})
					}
				}
			})
		}
		return all
	})
	for _, w := range all {
		if !known[w.Request.Instance] {
			others = append(others, w)
		}
	}
	return others
}
