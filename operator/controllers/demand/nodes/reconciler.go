package nodes

import (
	"context"
	"fmt"
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
	"nstance.dev/operator/drain"
	"nstance.dev/operator/inventory"
	machines "nstance.dev/operator/nodes"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Options are the surroundings of a Reconciler; all are required unless said.
type Options struct {
	// Workload is for Nodes, Pods and UpcomingNodes, and has the indexes of package
	// operator/nodes; Live reads there past the cache.
	Workload  client.Client
	Live      client.Reader
	Inventory *inventory.Store
	Reports   *Reports
	// Home is the Cluster that the machines belong to, as namespace/name.
	Home string
	// SetProviderID: Nodes without a provider id get their machine's.
	SetProviderID bool
	// Events are published on Nodes.
	Events events.EventRecorder
	Log    *slog.Logger
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// Reconciler reports and deletes Nodes. Its requests name machines. New makes one; it is safe for
// concurrent use.
type Reconciler struct {
	opts Options
	wake collect.Waker

	mu    sync.Mutex
	known map[string]*known // by machine
}

// known is what is kept of a machine whose Node was matched.
type known struct {
	shard      string
	node       string // its name
	providerID string // that its Node, or its UpcomingNode, had last
	told       *seen  // nil: it has to be reported
	mismatch   string // what was told of a Node that claims to be this machine's
}

// New returns a reconciler.
func New(o Options) *Reconciler {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Reconciler{opts: o, known: map[string]*known{}}
}

// Resynced hears that a shard has begun a session: all Nodes of its machines are reported once.
func (r *Reconciler) Resynced(shard string) { r.again(shard, func(*seen) bool { return true }) }

// RolledUp hears that a shard was sent a roll-up: Nodes without a Pod that a drain would move are
// reported, since it counts whether a Node was empty after the roll-up.
func (r *Reconciler) RolledUp(shard string) { r.again(shard, func(s *seen) bool { return s.empty }) }

// again has the Nodes of a shard reported again about which something was told.
func (r *Reconciler) again(shard string, which func(*seen) bool) {
	var all []string
	r.mu.Lock()
	for machine, k := range r.known {
		if k.shard == shard && k.told != nil && which(k.told) {
			k.told = nil
			all = append(all, machine)
		}
	}
	r.mu.Unlock()
	r.wake.Wake(all...)
}

// Reconcile looks at the Node of one machine.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	machine := req.Name
	upcoming, err := machines.Upcoming(ctx, r.opts.Workload, machine)
	if err != nil {
		return ctrl.Result{}, err
	}
	if upcoming == nil {
		return r.left(ctx, machine)
	}
	shard := upcoming.Spec.Shard
	in := machines.InstanceOfUpcoming(machine, upcoming, r.reported(shard, machine))
	found, err := machines.Find(ctx, r.opts.Workload, in)
	if err != nil {
		return ctrl.Result{}, err
	}
	if found.Node == "" {
		r.unmatched(ctx, machine, shard, found)
		return ctrl.Result{}, nil
	}
	node, err := r.mark(ctx, machine, shard, found, in.ProviderURI)
	if err != nil || node == nil {
		return ctrl.Result{}, err
	}
	if err := r.refer(ctx, upcoming, node); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.tell(ctx, machine, node, upcoming, found.How)
}

// reported is what a shard says of an instance; nil: nothing.
func (r *Reconciler) reported(shard, machine string) (said *nstancev1.InstanceStatus) {
	r.opts.Inventory.Read(shard, func(s *inventory.Shard) { said = s.Instance(machine) })
	return said
}

// mark writes on a Node whose it is; nil: the Node is gone.
func (r *Reconciler) mark(ctx context.Context, machine, shard string, found machines.Located, providerID string) (*corev1.Node, error) {
	if !r.opts.SetProviderID || !found.SetProviderID {
		providerID = ""
	}
	next := marked(found.Object, machine, shard, r.opts.Home, providerID)
	if next == found.Object {
		return next, nil
	}
	if err := r.opts.Workload.Patch(ctx, next, client.MergeFromWithOptions(found.Object, client.MergeFromWithOptimisticLock{})); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return next, nil
}

// refer writes the Node into the UpcomingNode of its machine.
func (r *Reconciler) refer(ctx context.Context, u *demandv1.UpcomingNode, node *corev1.Node) error {
	is := demandv1.NodeReference{Name: node.Name, UID: node.UID}
	if u.Status.NodeRef != nil && *u.Status.NodeRef == is {
		return nil
	}
	next := u.DeepCopy()
	next.Status.NodeRef = &is
	if err := r.opts.Workload.Status().Patch(ctx, next, client.MergeFrom(u)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("nodeRef of UpcomingNode %s: %w", u.Name, err)
	}
	return nil
}

// tell reports a Node if there is something to say of it.
func (r *Reconciler) tell(ctx context.Context, machine string, node *corev1.Node, u *demandv1.UpcomingNode, how machines.How) error {
	pods, err := r.evictable(ctx, node.Name)
	if err != nil {
		return err
	}
	is, why := ready(node, u.Spec.StartupTaints)
	now := seen{node: string(node.UID), ready: is, why: why, empty: pods == 0}
	r.mu.Lock()
	k := r.known[machine]
	if k == nil {
		k = &known{}
		r.known[machine] = k
	}
	first := k.node != node.Name
	k.shard, k.node, k.providerID, k.mismatch = u.Spec.Shard, node.Name, node.Spec.ProviderID, ""
	same := k.told != nil && *k.told == now
	k.told = &now
	r.mu.Unlock()
	if first {
		r.opts.Log.InfoContext(ctx, "recognised the Node of a machine", "machine", machine, "shard", u.Spec.Shard, "node", node.Name, "reason", string(how))
	}
	if same {
		return nil
	}
	r.opts.Log.DebugContext(ctx, "reporting Node", "machine", machine, "node", node.Name, "ready", is, "reason", why, "evictable_pods", pods)
	r.opts.Reports.add(u.Spec.Shard, report(machine, node, u, pods, r.opts.Now()))
	return nil
}

// evictable counts the Pods of a Node that a drain would move.
func (r *Reconciler) evictable(ctx context.Context, node string) (int, error) {
	var sets appsv1.DaemonSetList
	if err := r.opts.Workload.List(ctx, &sets, client.UnsafeDisableDeepCopy); err != nil {
		return 0, fmt.Errorf("list DaemonSets: %w", err)
	}
	exist := make(map[types.UID]bool, len(sets.Items))
	for i := range sets.Items {
		exist[sets.Items[i].UID] = true
	}
	pods, err := machines.PodsOf(ctx, r.opts.Workload, node)
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

// unmatched notes that a machine has no Node, and tells of one that claims to be its Node.
func (r *Reconciler) unmatched(ctx context.Context, machine, shard string, found machines.Located) {
	r.mu.Lock()
	k := r.known[machine]
	if k == nil {
		if found.Why == "" {
			r.mu.Unlock()
			return
		}
		k = &known{shard: shard}
		r.known[machine] = k
	}
	k.told = nil
	news := k.mismatch != found.Why
	k.mismatch = found.Why
	r.mu.Unlock()
	if !news || found.Why == "" {
		return
	}
	r.opts.Log.WarnContext(ctx, "no Node is recognised as that of a machine", "machine", machine, "shard", shard, "reason", found.Why)
	if found.Mismatch && found.Object != nil {
		r.opts.Events.Eventf(found.Object, nil, corev1.EventTypeWarning, "ProviderIDMismatch", "Match", "%s",
			fmt.Sprintf("machine %s of shard %s: %s", machine, shard, found.Why))
	}
}

// left deletes the Node of a machine that has left the cluster.
func (r *Reconciler) left(ctx context.Context, machine string) (ctrl.Result, error) {
	var list corev1.NodeList
	if err := r.opts.Workload.List(ctx, &list, client.MatchingLabels{infrav1.LabelInstanceID: machine}, client.UnsafeDisableDeepCopy); err != nil {
		return ctrl.Result{}, fmt.Errorf("nodes of machine %s: %w", machine, err)
	}
	r.mu.Lock()
	var lastID string
	if k := r.known[machine]; k != nil {
		lastID = k.providerID
		r.opts.Reports.drop(k.shard, machine)
	}
	r.mu.Unlock()
	there := false
	for i := range list.Items {
		if n := &list.Items[i]; n.Annotations[infrav1.AnnotationDemandMachine] == machine && n.Annotations[infrav1.AnnotationCluster] == r.opts.Home {
			there = true
			after, err := r.delete(ctx, n.Name, machine, lastID)
			if err != nil || after > 0 {
				return ctrl.Result{RequeueAfter: after}, err
			}
		}
	}
	if !there {
		r.mu.Lock()
		delete(r.known, machine)
		r.mu.Unlock()
	}
	return ctrl.Result{}, nil
}

// delete deletes a Node as it is now, if it is demand mode that has to. lastID is the provider id
// that the machine was seen with last; empty: this process has not seen it.
func (r *Reconciler) delete(ctx context.Context, name, machine, lastID string) (time.Duration, error) {
	node := &corev1.Node{}
	if err := r.opts.Live.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	if node.Annotations[infrav1.AnnotationDemandMachine] != machine {
		return 0, nil // a new Node of that name
	}
	n := r.instanceless(node, machine)
	n.InstanceProviderID = node.Spec.ProviderID // the one of its machine when it was matched
	if lastID != "" {
		n.InstanceProviderID = lastID
	}
	d := machines.DeletionOf(n, r.opts.Now())
	if d.Owner != machines.OwnerDemand || d.After > 0 {
		r.opts.Log.DebugContext(ctx, "keeping the Node of a machine without UpcomingNode", "node", name, "machine", machine, "reason", d.Reason)
		return max(d.After, untilEnd(node, r.opts.Now())), nil
	}
	err := r.opts.Workload.Delete(ctx, node, client.Preconditions{UID: &node.UID, ResourceVersion: &node.ResourceVersion})
	if err == nil {
		r.opts.Log.InfoContext(ctx, "deleted Node", "node", name, "machine", machine, "provider_id", node.Spec.ProviderID, "reason", d.Reason)
	}
	return 0, client.IgnoreNotFound(err)
}

// untilEnd is how long the drain of a Node has time; zero: it is over, or there is none.
func untilEnd(n *corev1.Node, now time.Time) time.Duration {
	s, draining, err := drain.ParseState(n.Annotations)
	if err != nil || !draining || s.Instruction == "" || s.Deadline.IsZero() {
		return 0
	}
	return max(s.Deadline.Sub(now), 0)
}

// instanceless is what is known of a Node whose machine has no UpcomingNode.
func (r *Reconciler) instanceless(node *corev1.Node, machine string) machines.Instanceless {
	n := machines.Instanceless{NodeProviderID: node.Spec.ProviderID, Demand: true, HostMachine: machines.OfHostMachine(node)}
	for _, c := range node.Status.Conditions {
		n.Ready = n.Ready || c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	}
	shard := node.Labels[infrav1.LabelShard]
	for _, name := range r.opts.Inventory.Names() {
		r.opts.Inventory.Read(name, func(s *inventory.Shard) {
			n.Deleted = n.Deleted || n.NodeProviderID != "" && s.Deleted(n.NodeProviderID)
			n.Correlated = n.Correlated || name == shard && s.Presence(machine) == inventory.Gone
			n.Exists = n.Exists || s.Instance(machine) != nil
		})
	}
	n.MachineLeft = emptied(node, r.opts.Now()) || n.Ended()
	return n
}
