package drain

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/capi"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/nodes"
)

// target is what a step of one drain starts from.
type target struct {
	Target
	shard      string
	node       *corev1.Node
	entry      entry
	evaluation Evaluation
	// doubt is what is uncertain about the Node. With it node is one of doubt.Nodes, or nil.
	doubt nodes.Doubt
}

// find returns the instance, its machine, its Node and what was done so far.
func (r *Reconciler) find(ctx context.Context, id string) (*target, error) {
	s := &target{Target: Target{Instance: id}}
	m, err := nodes.Machine(ctx, r.Client, r.Namespace, id)
	if err != nil {
		return nil, err
	}
	s.Machine = m
	if m != nil {
		s.shard = m.Spec.Shard
		if err := r.findOwner(ctx, s); err != nil {
			return nil, err
		}
	}
	if shard := r.Inventory.Find(id); shard != "" {
		s.shard = shard
	}
	s.Presence = inventory.Unknown
	r.Inventory.Read(s.shard, func(known *inventory.Shard) {
		s.Presence, s.Reported, s.Synced = known.Presence(id), known.Instance(id), known.State().InstancesSynced
	})
	var known bool
	s.entry, known = r.memory.get(id)
	if err := r.findNode(ctx, id, s); err != nil {
		return nil, err
	}
	r.resume(id, known, s)
	s.evaluation = Evaluate(r.Sources, s.Target, r.Now())
	s.evaluation.Request.Force = cmp.Or(s.evaluation.Request.Force, r.Force) // of a drain that an earlier release began
	switch {
	case !s.evaluation.Retained:
		s.entry.retainedSince = time.Time{}
	case s.entry.retainedSince.IsZero():
		s.entry.retainedSince = r.Now()
	}
	s.entry.request = s.evaluation.Request
	return s, nil
}

func (r *Reconciler) findOwner(ctx context.Context, s *target) error {
	owner, err := capi.OwnerMachine(ctx, r.Client, s.Machine)
	if err != nil {
		return err
	}
	s.Owner = owner
	cluster := &clusterv1.Cluster{}
	name := client.ObjectKey{Namespace: r.Namespace, Name: s.Machine.Labels[clusterv1.ClusterNameLabel]}
	err = r.Client.Get(ctx, name, cluster)
	s.HasControlPlane = cluster.Spec.ControlPlaneRef.IsDefined()
	s.Paused = capi.PausedBy(s.Machine, cluster)
	return client.IgnoreNotFound(err)
}

func (r *Reconciler) findNode(ctx context.Context, id string, s *target) error {
	in := nodes.InstanceOf(s.Machine, s.Reported)
	in.ID = id
	found, err := nodes.Find(ctx, r.Workload, in)
	if err != nil {
		return err
	}
	var doubt nodes.Doubt
	if found.Node == "" {
		if doubt, err = nodes.FindDoubt(ctx, r.Client, r.Workload, r.Namespace, in); err != nil {
			return err
		}
	}
	s.setNode(id, found, doubt)
	return nil
}

// setNode notes the Node that was found, or, where it is uncertain, the one to go on with.
func (s *target) setNode(id string, found nodes.Located, doubt nodes.Doubt) {
	s.doubt, s.node = doubt, nextNode(doubt.Nodes, id, s.entry.state)
	if found.Node != "" {
		s.node = found.Object
	}
	if s.node != nil {
		s.Target.Node, s.NodeJoined = s.node.UID, s.node.CreationTimestamp.Time
	}
}

// nextNode returns the Node to go on with, where several may be an instance's: the one whose
// drain was begun, then another that is not done, those first that are ready. Where all are
// done it is the first; nil: there is none.
func nextNode(some []*corev1.Node, id string, begun State) *corev1.Node {
	order := slices.Clone(some)
	rank := func(n *corev1.Node) int {
		state, draining, err := ParseState(n.Annotations)
		switch {
		case err == nil && draining && state.Instance == id && state.Phase == infrav1.DrainDone:
			return 3
		case n.UID == begun.Node:
			return 0
		case nodeReady(n):
			return 1
		}
		return 2
	}
	slices.SortStableFunc(order, func(a, b *corev1.Node) int { return cmp.Compare(rank(a), rank(b)) })
	if len(order) == 0 {
		return nil
	}
	return order[0]
}

func nodeReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// resume takes up what was done so far: from this process's memory, else from the Node.
func (r *Reconciler) resume(id string, known bool, s *target) {
	e := s.entry
	if !known {
		e.noticedAt = r.Now()
		if s.node != nil {
			if state, ok, err := ParseState(s.node.Annotations); ok && err == nil && state.Instance == id {
				e.state = state
			}
		}
	}
	if e.state.ofAnotherNode(s.node) {
		e.state, e.results, e.acked = State{}, nil, false
	}
	s.entry, s.State, s.RetainedSince = e, e.state, e.retainedSince
}

// observe reads what a step looks at.
func (r *Reconciler) observe(ctx context.Context, s *target) (Observation, error) {
	o := Observation{
		Request: s.evaluation.Request, InstanceState: s.evaluation.InstanceState, Repeated: s.evaluation.Repeated,
		NoticedAt: s.entry.noticedAt, Self: r.Self,
		Results: s.entry.results, Acknowledged: s.entry.acked, Node: s.node, Doubt: s.doubt.Why,
	}
	if at := s.Reported.GetRegisteredAt(); at != nil {
		o.RegisteredAt = at.AsTime()
	}
	if s.HasControlPlane {
		o.DrainedByClusterAPI = ClusterAPIDrains(s.Machine, s.Owner, true, s.NodeJoined) && !KeepsWork(s.Owner)
	}
	if s.node == nil {
		// An event alone does not say by what to find the Node, or whether there can be one.
		o.NodeUnknown = o.Request.Acknowledge && !inventory.HasDetails(s.Reported)
		return o, nil
	}
	// As it is now: a step decides on what it sees, and changes only that.
	node := &corev1.Node{}
	err := r.Live.Get(ctx, client.ObjectKeyFromObject(s.node), node)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return o, err
	case err != nil, node.UID != s.node.UID:
		s.node, o.Node = nil, nil
		return o, nil //nolint:nilerr // it is gone
	}
	s.node, o.Node = node, node
	if !LooksAtPods(s.entry.state, o) {
		return o, nil
	}
	return o, r.observeWork(ctx, node.Name, &o)
}

// observeLive looks for the Node once more, past the cache, before its shard hears that there is
// none: the cache may not have one that joined while its watch was broken (S20). Where nobody
// answers nothing is acknowledged, and the shard's deadline ends the drain.
func (r *Reconciler) observeLive(ctx context.Context, s *target) (Observation, error) {
	in := nodes.InstanceOf(s.Machine, s.Reported)
	in.ID = s.evaluation.Request.Instance
	found, doubt, err := nodes.FindLive(ctx, r.Client, r.Workload, r.Live, r.Namespace, in)
	if err != nil {
		return Observation{}, err
	}
	s.setNode(in.ID, found, doubt)
	return r.observe(ctx, s)
}

// observeWork reads what is on a Node.
func (r *Reconciler) observeWork(ctx context.Context, node string, o *Observation) error {
	var err error
	if o.Pods, err = r.pods(ctx, node); err != nil {
		return err
	}
	var sets appsv1.DaemonSetList
	if err := r.Workload.List(ctx, &sets, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("daemon sets: %w", err)
	}
	o.DaemonSets = map[types.UID]bool{}
	for i := range sets.Items {
		o.DaemonSets[sets.Items[i].UID] = true
	}
	var volumes storagev1.VolumeAttachmentList
	if err := r.Workload.List(ctx, &volumes, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("volume attachments: %w", err)
	}
	for i := range volumes.Items {
		if v := &volumes.Items[i]; v.Spec.NodeName == node && v.Status.Attached {
			o.Attachments++
		}
	}
	return nil
}

// podsPerPage is how many Pods are read at once.
const podsPerPage = 500

// pods returns the Pods that are bound to a Node now.
func (r *Reconciler) pods(ctx context.Context, node string) ([]corev1.Pod, error) {
	var all []corev1.Pod
	for next := ""; ; {
		var page corev1.PodList
		err := r.Live.List(ctx, &page, client.MatchingFields{"spec.nodeName": node}, client.Limit(podsPerPage), client.Continue(next))
		if err != nil {
			return nil, fmt.Errorf("pods of node %s: %w", node, err)
		}
		all = append(all, page.Items...)
		if next = page.Continue; next == "" {
			return all, nil
		}
	}
}
