package reclaim

import (
	"context"
	"log/slog"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/collect"
	"nstance.dev/operator/demand/fit"
	"nstance.dev/operator/drain"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/nodes"
	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
)

// tellAgain is when a report is repeated for which there was no session or no room.
const tellAgain = 5 * time.Second

// Options are the surroundings of a Reconciler; all are required unless said.
type Options struct {
	// Workload is for Nodes, Pods and UpcomingNodes, and has the indexes of package nodes and that
	// of Pods by Node ([nodes.PodsByNode]); Live reads there past the cache. Machines has the
	// NstanceMachines, in Namespace.
	Workload  client.Client
	Live      client.Reader
	Machines  client.Reader
	Namespace string
	Inventory *inventory.Store
	// Report sends reports to a shard; false: it has no session, or no room.
	Report func(shard string, reports []*demandpb.NodeReport) bool
	// Wake wakes the drain engine, which has [Requests.Source] among its sources.
	Wake func(machines ...string)
	// Fit says when what is surplus is refused.
	Fit fit.Options
	// Events are published on Nodes.
	Events events.EventRecorder
	Log    *slog.Logger
	// Grace is the time of an instruction that gives none.
	Grace time.Duration
	// Count hears what has become of a Node, for metrics: that its drain was begun or that it was
	// refused, and how the drain has ended; nil: nobody does.
	Count func(Outcome)
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// Reconciler carries out what shards ask for. Its requests name machines. New makes one; it is safe
// for concurrent use.
type Reconciler struct {
	opts     Options
	requests *Requests
	room     *room
	wake     collect.Waker

	mu     sync.Mutex
	serves map[string]time.Time // by machine: since when it serves while its Node is drained
	told   map[types.UID]string // by Node: what was told of a drain that an earlier process began
}

// New returns a reconciler that puts what is to be drained into requests.
func New(requests *Requests, o Options) *Reconciler {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Count == nil {
		o.Count = func(Outcome) {}
	}
	return &Reconciler{
		opts: o, requests: requests, room: &room{reader: o.Workload, options: o.Fit, now: o.Now, given: map[types.UID]time.Time{}},
		serves: map[string]time.Time{}, told: map[types.UID]string{},
	}
}

// Resynced hears that a shard has begun a session, and said which machines it has: it is told again
// what has ended.
func (r *Reconciler) Resynced(shard string) {
	machines := r.requests.resync(shard)
	r.mu.Lock()
	clear(r.told)
	r.mu.Unlock()
	r.wake.Wake(machines...)
	r.wake.Wake(allDrained) // and those of an earlier process
}

// allDrained is the request for all Nodes that are drained for an instruction. No machine is called so.
const allDrained = "*"

// Reconcile looks at what has become of the drain of one machine.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if req.Name == allDrained {
		return ctrl.Result{}, r.wakeDrained(ctx)
	}
	o, node, err := r.observe(ctx, req.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	d := decide(o, r.opts.Now())
	told, err := r.act(ctx, req.Name, o, node, d)
	if !told {
		return ctrl.Result{RequeueAfter: tellAgain}, err
	}
	return ctrl.Result{RequeueAfter: d.after}, err
}

// wakeDrained asks for the machines of all Nodes that say that they are drained for an instruction.
func (r *Reconciler) wakeDrained(ctx context.Context) error {
	var list corev1.NodeList
	if err := r.opts.Workload.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	for i := range list.Items {
		if a := list.Items[i].Annotations; a[infrav1.AnnotationDrainRequest] != "" {
			r.wake.Wake(a[infrav1.AnnotationDrainInstance])
		}
	}
	return nil
}

// observe reads what a decision follows from, and the Node.
func (r *Reconciler) observe(ctx context.Context, machine string) (observation, *corev1.Node, error) {
	o := observation{begun: r.requests.of(machine)}
	var err error
	if o.upcoming, err = nodes.Upcoming(ctx, r.opts.Workload, machine); err != nil || o.upcoming == nil {
		r.setServes(machine, false)
		return o, nil, err
	}
	in := nodes.InstanceOfUpcoming(machine, o.upcoming, r.reported(o.upcoming.Spec.Shard, machine))
	found, err := nodes.Find(ctx, r.opts.Workload, in)
	if err != nil {
		return o, nil, err
	}
	node := found.Object
	if found.Node == "" {
		node = nil
	}
	if o.begun != nil && (node == nil || node.UID != o.begun.node) {
		node = nil
		if o.gone, err = r.gone(ctx, o.begun); err != nil {
			return o, nil, err
		}
	}
	if node != nil {
		state, draining, err := drain.ParseState(node.Annotations)
		if err == nil && draining && state.Instance == machine && !drain.OfOperation(state.Instruction) && !drain.OfRollout(state.Instruction) {
			o.state = state
		}
		if o.state.Instruction != "" {
			if o.left, err = r.left(ctx, node.Name); err != nil {
				return o, nil, err
			}
		} else {
			r.requests.undone(machine)
		}
	}
	o.resynced = r.requests.hasResynced(o.upcoming.Spec.Shard)
	drains := o.state.Instruction != "" || o.begun != nil
	o.serves = r.setServes(machine, drains && o.upcoming.Status.Phase == demandv1.UpcomingNodeReady)
	return o, node, nil
}

// gone reports whether the Node of an instruction does not exist any more, past the cache.
func (r *Reconciler) gone(ctx context.Context, i *instruction) (bool, error) {
	node := &corev1.Node{}
	err := r.opts.Live.Get(ctx, client.ObjectKey{Name: i.nodeName}, node)
	if err == nil {
		return node.UID != i.node, nil
	}
	return client.IgnoreNotFound(err) == nil, client.IgnoreNotFound(err)
}

// setServes notes whether a machine serves while its Node is drained, and returns since when.
func (r *Reconciler) setServes(machine string, serves bool) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !serves {
		delete(r.serves, machine)
		return time.Time{}
	}
	if _, known := r.serves[machine]; !known {
		r.serves[machine] = r.opts.Now()
	}
	return r.serves[machine]
}

// left counts the Pods that have to leave a Node.
func (r *Reconciler) left(ctx context.Context, node string) (int, error) {
	var sets appsv1.DaemonSetList
	if err := r.opts.Workload.List(ctx, &sets, client.UnsafeDisableDeepCopy); err != nil {
		return 0, err
	}
	exist := make(map[types.UID]bool, len(sets.Items))
	for i := range sets.Items {
		exist[sets.Items[i].UID] = true
	}
	pods, err := nodes.PodsOf(ctx, r.opts.Workload, node)
	if err != nil {
		return 0, err
	}
	n := 0
	for i := range pods {
		if drain.Moves(&pods[i], exist) {
			n++
		}
	}
	return n, nil
}

// act carries a decision out. False: the shard could not be told.
func (r *Reconciler) act(ctx context.Context, machine string, o observation, node *corev1.Node, d decision) (bool, error) {
	switch {
	case d.drop:
		r.requests.drop(machine)
		return true, nil
	case d.withdraw != "":
		r.opts.Log.InfoContext(ctx, "reclaim undone: the machine serves again", "machine", machine, "instruction", d.withdraw, "shard", o.upcoming.Spec.Shard)
		r.requests.withdraw(machine, d.withdraw)
		r.opts.Wake(machine)
		return true, nil
	case d.outcome == None:
		return true, nil
	}
	key := d.instruction + " " + string(d.outcome)
	if node != nil && o.begun == nil && r.wasTold(node.UID, key) {
		return true, nil
	}
	report := &demandpb.NodeReport{
		MachineId: machine, InstructionId: d.instruction, ObservedUnixMs: r.opts.Now().UnixMilli(), Drained: d.outcome == Drained, Error: d.detail,
	}
	if node != nil {
		report.NodeName, report.NodeUid = node.Name, string(node.UID)
	}
	if d.outcome == Failed {
		report.RemainingPods = int32(o.left) //nolint:gosec // Pods of one Node
	}
	if !r.opts.Report(o.upcoming.Spec.Shard, []*demandpb.NodeReport{report}) {
		return false, nil
	}
	r.opts.Log.InfoContext(ctx, "reclaim ended", "machine", machine, "instruction", d.instruction, "shard", o.upcoming.Spec.Shard,
		"outcome", string(d.outcome), "detail", d.detail, "pods_left", report.GetRemainingPods())
	r.opts.Count(d.outcome)
	if o.begun != nil {
		r.requests.tell(machine, d.instruction, d.outcome)
	} else if node != nil {
		r.setTold(node.UID, key)
	}
	if o.gone {
		r.requests.drop(machine)
	}
	phase := demandv1.UpcomingNodeDrained
	if d.outcome == Failed {
		phase = demandv1.UpcomingNodeFailed
	}
	return true, r.setPhase(ctx, o.upcoming, phase, d.detail)
}

func (r *Reconciler) wasTold(node types.UID, what string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.told[node] == what
}

func (r *Reconciler) setTold(node types.UID, what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told[node] = what
}
