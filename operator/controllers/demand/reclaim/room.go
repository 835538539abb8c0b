package reclaim

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/demand/fit"
)

// room says whether Nodes may be given back. What one Node's Pods take is gone for the next, so one
// check is made at a time; those that wait meanwhile are checked together, as many Nodes may be
// asked for at once and there may be very many Pods.
type room struct {
	reader  client.Reader
	options fit.Options
	now     func() time.Time

	mu      sync.Mutex
	busy    bool
	waiting []*question

	// Of the one check at a time: when Nodes were found to have room, which may not be marked as
	// drained in the cache yet, and what was read of Pods.
	given map[types.UID]time.Time
	pods  map[types.UID]knownPod
}

// unmarked is how long a Node that is to be given back counts as drained without a mark.
const unmarked = 30 * time.Second

// question is a Node that waits for its answer.
type question struct {
	node   *corev1.Node
	answer fit.Answer
	err    error
	done   chan struct{}
}

type knownPod struct {
	version string
	pod     *fit.Pod
}

// check returns whether a Node may be given back.
func (r *room) check(ctx context.Context, node *corev1.Node) (fit.Answer, error) {
	q := &question{node: node, done: make(chan struct{})}
	r.mu.Lock()
	r.waiting = append(r.waiting, q)
	first := !r.busy
	r.busy = true
	r.mu.Unlock()
	for first {
		r.mu.Lock()
		all := r.waiting
		r.waiting = nil
		r.busy = len(all) > 0
		first = r.busy
		r.mu.Unlock()
		r.answer(ctx, all)
	}
	<-q.done
	return q.answer, q.err
}

// answer answers questions together.
func (r *room) answer(ctx context.Context, all []*question) {
	if len(all) == 0 {
		return
	}
	names := make([]string, len(all))
	for i, q := range all {
		names[i] = q.node.Name
	}
	c, err := r.cluster(ctx)
	var answers []fit.Answer
	if err == nil {
		answers = fit.Check(c, names, r.options)
	}
	for i, q := range all {
		if q.err = err; err == nil {
			q.answer = answers[i]
			if q.answer.Refused == "" {
				r.given[q.node.UID] = r.now()
			}
		}
		close(q.done)
	}
}

// cluster reads what there is from the caches.
func (r *room) cluster(ctx context.Context) (fit.Cluster, error) {
	c := fit.Cluster{Draining: map[string]bool{}, Namespaces: map[string]map[string]string{}}
	var nodes corev1.NodeList
	if err := r.reader.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return c, fmt.Errorf("list Nodes: %w", err)
	}
	given := map[types.UID]time.Time{}
	for i := range nodes.Items {
		n := &nodes.Items[i]
		c.Nodes = append(c.Nodes, n)
		c.Draining[n.Name] = n.Annotations[infrav1.AnnotationDrainInstance] != ""
		if at, ok := r.given[n.UID]; ok && r.now().Sub(at) < unmarked {
			c.Draining[n.Name], given[n.UID] = true, at
		}
	}
	r.given = given
	var namespaces corev1.NamespaceList
	if err := r.reader.List(ctx, &namespaces, client.UnsafeDisableDeepCopy); err != nil {
		return c, fmt.Errorf("list Namespaces: %w", err)
	}
	for i := range namespaces.Items {
		c.Namespaces[namespaces.Items[i].Name] = namespaces.Items[i].Labels
	}
	var pods corev1.PodList
	if err := r.reader.List(ctx, &pods, client.UnsafeDisableDeepCopy); err != nil {
		return c, fmt.Errorf("list Pods: %w", err)
	}
	known := make(map[types.UID]knownPod, len(pods.Items))
	for i := range pods.Items {
		p := &pods.Items[i]
		k, ok := r.pods[p.UID]
		if !ok || k.version != p.ResourceVersion {
			k = knownPod{p.ResourceVersion, fit.NewPod(p, r.options)}
		}
		known[p.UID] = k
		c.Pods = append(c.Pods, k.pod)
	}
	r.pods = known
	return c, nil
}
