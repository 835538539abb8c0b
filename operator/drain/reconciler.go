package drain

import (
	"cmp"
	"context"
	"slices"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
	// Sources are asked for drains; nil: those of [Sources].
	Sources []Source
	// Server returns a shard; false: it is not configured.
	Server func(shard string) (Server, bool)
	// Events are published where the Nodes are, MachineEvents where the machines are.
	Events, MachineEvents events.EventRecorder
	// Evictions limits how many Pods are asked to leave per second, over all Nodes.
	Evictions *rate.Limiter
	// Concurrency is how many Nodes are emptied at once.
	Concurrency int
	// Force is that of requests that say nothing of it.
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
	if o.Sources == nil {
		o.Sources = Sources()
	}
	o.Sources = withForce(o.Sources, cmp.Or(o.Force, AtDeadline))
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
	s, err := r.find(ctx, id)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !s.evaluation.Wanted {
		r.forget(id)
		return ctrl.Result{}, r.report(ctx, s, Decision{})
	}
	r.remember(id, s.entry)
	if s.evaluation.InstanceState == InstanceCondemned && !r.turn(s) {
		r.publishDoubt(ctx, s)
		return ctrl.Result{RequeueAfter: r.waitsFor(s)}, nil
	}
	o, err := r.observe(ctx, s)
	if err == nil && o.Node == nil && acknowledges(Step(s.entry.state, o, r.Now())) {
		o, err = r.observeLive(ctx, s)
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	r.publishDoubt(ctx, s)
	d, done, err := r.step(ctx, s, o)
	if err == nil && done.acked { // the shard acts at once; before that the end is written down
		o.Node, o.Results, o.Acknowledged, o.Repeated = s.node, done.results, true, false
		d, done, err = r.step(ctx, s, o)
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	next := r.next(s, d, done)
	if next.RequeueAfter == Immediately { // and then there is more to say
		return next, nil
	}
	return next, r.report(ctx, s, d)
}

// acknowledges reports whether a decision tells the shard that a drain is over.
func acknowledges(d Decision) bool {
	return slices.ContainsFunc(d.Actions, func(a Action) bool { _, yes := a.(Acknowledge); return yes })
}

// step decides, does what that asks for, and remembers what came of it. Only what was
// written on the Node counts as done: if that fails, the drain stays where it was.
func (r *Reconciler) step(ctx context.Context, s *target, o Observation) (Decision, outcome, error) {
	d := Step(s.entry.state, o, r.Now())
	var done outcome
	for _, action := range d.Actions {
		if err := r.act(ctx, s, d.State, action, &done); err != nil {
			return d, done, err
		}
	}
	r.ended(s.entry.state, d.State, d.Counts)
	s.entry.state, s.entry.results, s.entry.acked = d.State, done.results, done.acked
	s.entry.noteBlockedSince(d, r.Now())
	r.remember(o.Request.Instance, s.entry)
	return d, done, nil
}

// next says when a drain goes on. One that is over is forgotten, unless its shard may not
// have heard of it.
func (r *Reconciler) next(s *target, d Decision, done outcome) ctrl.Result {
	switch {
	case d.Over && d.State.Phase != None && s.evaluation.InstanceState == InstanceCondemned:
		return ctrl.Result{RequeueAfter: repeatAfter}
	case d.Over:
		r.forget(s.evaluation.Request.Instance)
		return ctrl.Result{}
	case done.limited:
		return ctrl.Result{RequeueAfter: min(d.RequeueAfter, evictAgain)}
	case s.evaluation.Retained && d.RequeueAfter == 0:
		return ctrl.Result{RequeueAfter: retainedFor}
	}
	return ctrl.Result{RequeueAfter: d.RequeueAfter}
}
