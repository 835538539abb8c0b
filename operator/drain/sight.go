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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/capi"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/nodes"
)

// sight is what a step of one drain begins with.
type sight struct {
	Sight
	shard  string
	node   *corev1.Node
	entry  entry
	answer Answer
	// doubt is what is uncertain about the Node. With it node is one of doubt.Nodes, or nil.
	doubt nodes.Doubt
}

// see finds the instance, its machine, its Node and what was done so far.
func (r *Reconciler) see(ctx context.Context, id string) (*sight, error) {
	s := &sight{}
	m, err := nodes.Machine(ctx, r.Client, r.Namespace, id)
	if err != nil {
		return nil, err
	}
	s.Machine = m
	if m != nil {
		s.shard = m.Spec.Shard
		if err := r.seeOwner(ctx, s); err != nil {
			return nil, err
		}
	}
	if shard := r.Inventory.Find(id); shard != "" {
		s.shard = shard
	}
	s.Presence = inventory.Unknown
	r.Inventory.Read(s.shard, func(known *inventory.Shard) {
		s.Presence, s.Said, s.Synced = known.Presence(id), known.Instance(id), known.State().InstancesSynced
	})
	var known bool
	s.entry, known = r.memory.get(id)
	if err := r.seeNode(ctx, id, s); err != nil {
		return nil, err
	}
	if s.node != nil {
		s.NodeJoined = s.node.CreationTimestamp.Time
	}
	r.resume(id, known, s)
	s.answer = Asked(s.Sight, r.Now())
	switch {
	case !s.answer.Spared:
		s.entry.sparedSince = time.Time{}
	case s.entry.sparedSince.IsZero():
		s.entry.sparedSince = r.Now()
	}
	s.entry.request = s.answer.Request
	return s, nil
}

func (r *Reconciler) seeOwner(ctx context.Context, s *sight) error {
	i := slices.IndexFunc(s.Machine.OwnerReferences, func(ref metav1.OwnerReference) bool { return ref.Kind == "Machine" })
	if i >= 0 {
		owner := &clusterv1.Machine{}
		err := r.Client.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: s.Machine.OwnerReferences[i].Name}, owner)
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		if err == nil {
			s.Owner = owner
		}
	}
	cluster := &clusterv1.Cluster{}
	name := client.ObjectKey{Namespace: r.Namespace, Name: s.Machine.Labels[clusterv1.ClusterNameLabel]}
	err := r.Client.Get(ctx, name, cluster)
	s.CoreDrains = cluster.Spec.ControlPlaneRef.IsDefined()
	_, paused := s.Machine.Annotations[clusterv1.PausedAnnotation]
	s.Paused = paused || capi.Moved(s.Machine) || cluster.Spec.Paused != nil && *cluster.Spec.Paused
	return client.IgnoreNotFound(err)
}

func (r *Reconciler) seeNode(ctx context.Context, id string, s *sight) error {
	in := nodes.InstanceOf(s.Machine, s.Said)
	in.ID = id
	found, err := nodes.Find(ctx, r.Workload, in)
	if err != nil {
		return err
	}
	if found.Node != "" {
		s.node = found.Object
		return nil
	}
	if s.doubt, err = nodes.FindDoubt(ctx, r.Client, r.Workload, r.Namespace, in); err != nil {
		return err
	}
	s.node = nextOf(s.doubt.Nodes, id, s.entry.state)
	return nil
}

// nextOf returns the Node to go on with, where several may be an instance's: the one whose
// drain was begun, then another that is not done, those first that are ready. Where all are
// done it is the first; nil: there is none.
func nextOf(some []*corev1.Node, id string, begun State) *corev1.Node {
	order := slices.Clone(some)
	rank := func(n *corev1.Node) int {
		state, draining, err := ParseState(n.Annotations)
		switch {
		case err == nil && draining && state.Instance == id && state.Phase == api.DrainDone:
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
func (r *Reconciler) resume(id string, known bool, s *sight) {
	e := s.entry
	if !known {
		e.noticedAt = r.Now()
		if s.node != nil {
			if state, ok, err := ParseState(s.node.Annotations); ok && err == nil && state.Instance == id {
				e.state = state
			}
		}
	}
	s.entry, s.State, s.SparedSince = e, e.state, e.sparedSince
}

// observe reads what a step looks at.
func (r *Reconciler) observe(ctx context.Context, s *sight) (Observation, error) {
	o := Observation{
		Request: s.answer.Request, Fate: s.answer.Fate, Repeated: s.answer.Repeated,
		NoticedAt: s.entry.noticedAt, Self: r.Self, Force: r.Force,
		Results: s.entry.results, Acknowledged: s.entry.acked, Node: s.node, Doubt: s.doubt.Why,
	}
	if at := s.Said.GetRegisteredAt(); at != nil {
		o.RegisteredAt = at.AsTime()
	}
	if s.CoreDrains {
		o.CoreDrains = CoreDrained(s.Machine, s.Owner, true, s.NodeJoined) && !KeepsWork(s.Owner)
	}
	if s.node == nil {
		// An event alone does not say by what to find the Node, or whether there can be one.
		o.NodeUnknown = o.Request.Acknowledge && !inventory.Described(s.Said)
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
