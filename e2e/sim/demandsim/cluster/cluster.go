package cluster

import (
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Terminating is how long a Pod takes to end.
const Terminating = 5 * time.Second

// Keep is how long the object of a Pod that has succeeded is kept.
const Keep = time.Minute

// ErrBudget is the answer to an eviction that the budget of the Pod's workload does not allow
// now.
var ErrBudget = errors.New("the disruption budget does not allow the eviction now")

// ErrNotFound is the answer where the Pod or Node does not exist.
var ErrNotFound = errors.New("not found")

// Cluster is a model of a Kubernetes cluster. [New] makes one.
type Cluster struct {
	// Name is that of the cluster; the UIDs of its objects contain it.
	Name string

	workloads []*Workload
	pods      []*Pod  // that exist, oldest first
	nodes     []*Node // in the order in which they joined
	serial    int     // of the last object
	capacity  int     // counts the events that may let a pending Pod fit
	changed   []*Pod  // see Changes
	gone      []*Pod
}

// Pod is a Pod of the cluster.
type Pod struct {
	// Object is the Pod as an informer shows it. It is replaced when it changes.
	Object *corev1.Pod
	// Owner is the workload that it belongs to.
	Owner *Workload
	// Since is when it was created.
	Since time.Time
	// BoundAt is when it was bound to a Node; zero while it is pending.
	BoundAt time.Time

	need      Vector
	endsAt    time.Time // when it is gone: it terminates, or it succeeded a while ago
	node      *Node
	nominated *Node // where it has preempted others
	tried     int   // the cluster's capacity when it was last found unschedulable
	dirty     bool  // is in Cluster.changed
}

// Node is a Node of the cluster.
type Node struct {
	// Object is the Node as an informer shows it. It is replaced when it changes.
	Object *corev1.Node
	// JoinedAt is when it registered.
	JoinedAt time.Time

	free Vector
	pods []*Pod
}

// New makes a cluster without workloads and Nodes.
func New(name string) *Cluster { return &Cluster{Name: name, capacity: 1} }

// Pods are those that exist, the oldest first; the slice is the cluster's own.
func (c *Cluster) Pods() []*Pod { return c.pods }

// Nodes are those that exist, in the order in which they joined; the slice is the cluster's own.
func (c *Cluster) Nodes() []*Node { return c.nodes }

// Node is that of a name, or nil.
func (c *Cluster) Node(name string) *Node {
	for _, n := range c.nodes {
		if n.Object.Name == name {
			return n
		}
	}
	return nil
}

// Changes returns the Pods that were made or changed and those that are gone since the last call.
func (c *Cluster) Changes() (changed, gone []*Pod) {
	changed, gone = c.changed, c.gone
	for _, p := range changed {
		p.dirty = false
	}
	c.changed, c.gone = nil, nil
	return changed, gone
}

// Join adds a Node. The object is the cluster's own from then on. A Node of the same name is
// replaced, as when a machine registers again; its Pods are gone.
func (c *Cluster) Join(object *corev1.Node, now time.Time) {
	c.Remove(object.Name)
	if object.UID == "" {
		c.serial++
		object.UID = types.UID(fmt.Sprintf("%s-node-%d", c.Name, c.serial))
	}
	object.CreationTimestamp = metav1.NewTime(now)
	c.nodes = append(c.nodes, &Node{Object: object, JoinedAt: now, free: VectorOf(object.Status.Allocatable)})
	c.capacity++
}

// Remove takes a Node away, with its Pods, as when its machine is gone. One that does not exist
// is no error.
func (c *Cluster) Remove(name string) {
	n := c.Node(name)
	if n == nil {
		return
	}
	for _, p := range slices.Clone(n.pods) {
		c.delete(p)
	}
	c.nodes = slices.DeleteFunc(c.nodes, func(o *Node) bool { return o == n })
	c.capacity++
}

// Change replaces the object of a Node by what edit makes of a copy.
func (c *Cluster) Change(name string, edit func(*corev1.Node)) error {
	n := c.Node(name)
	if n == nil {
		return ErrNotFound
	}
	object := n.Object.DeepCopy()
	edit(object)
	n.free = n.free.plus(VectorOf(object.Status.Allocatable)).minus(VectorOf(n.Object.Status.Allocatable))
	n.Object = object
	c.capacity++
	return nil
}

// Cordon sets whether Pods may be bound to a Node.
func (c *Cluster) Cordon(name string, unschedulable bool) error {
	return c.Change(name, func(n *corev1.Node) { n.Spec.Unschedulable = unschedulable })
}

// Evict asks for the end of a Pod, as its API does: [ErrBudget] if its budget does not allow it
// now. A Pod that ends already is no error.
func (c *Cluster) Evict(p *Pod, now time.Time) error {
	if p.Ended() || p.Object.DeletionTimestamp != nil {
		return nil
	}
	if w := p.Owner; w.MinAvailable > 0 && p.node != nil && c.healthy(w) <= w.MinAvailable {
		return ErrBudget
	}
	c.terminate(p, now)
	return nil
}

// Delete asks for the end of a Pod without regard to its budget.
func (c *Cluster) Delete(p *Pod, now time.Time) {
	if p.Object.DeletionTimestamp == nil {
		c.terminate(p, now)
	}
}

// On are the Pods of a Node; the slice is the cluster's own.
func (c *Cluster) On(name string) []*Pod {
	if n := c.Node(name); n != nil {
		return n.pods
	}
	return nil
}

// Evictable are the Pods of a Node that a drain has to move: those of no daemon that have not
// ended.
func (c *Cluster) Evictable(name string) (all []*Pod) {
	for _, p := range c.On(name) {
		if !p.Owner.Daemon && !p.Ended() {
			all = append(all, p)
		}
	}
	return all
}

// Ended says that a Pod has succeeded: it uses nothing.
func (p *Pod) Ended() bool { return p.Object.Status.Phase == corev1.PodSucceeded }

// Pending says that a Pod waits for a Node.
func (p *Pod) Pending() bool {
	return p.node == nil && !p.Ended() && p.Object.DeletionTimestamp == nil
}

// Need is what the scheduler reserves for the Pod.
func (p *Pod) Need() Vector { return p.need }

// healthy counts the running Pods of a workload.
func (c *Cluster) healthy(w *Workload) (n int) {
	for _, p := range c.pods {
		if p.Owner == w && p.node != nil && !p.Ended() && p.Object.DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

// edit replaces the object of a Pod.
func (c *Cluster) edit(p *Pod, edit func(*corev1.Pod)) {
	object := p.Object.DeepCopy()
	edit(object)
	p.Object = object
	c.note(p)
}

func (c *Cluster) note(p *Pod) {
	if !p.dirty {
		p.dirty = true
		c.changed = append(c.changed, p)
	}
}

func (c *Cluster) terminate(p *Pod, now time.Time) {
	if p.node == nil {
		c.delete(p)
		return
	}
	stamp := metav1.NewTime(now)
	c.edit(p, func(o *corev1.Pod) { o.DeletionTimestamp = &stamp })
	p.endsAt = now.Add(Terminating)
}

// delete removes a Pod that is over. The object keeps what it was.
func (c *Cluster) delete(p *Pod) {
	c.release(p)
	c.pods = slices.DeleteFunc(c.pods, func(o *Pod) bool { return o == p })
	c.gone = append(c.gone, p)
	if p.dirty {
		p.dirty = false
		c.changed = slices.DeleteFunc(c.changed, func(o *Pod) bool { return o == p })
	}
}

// release gives back what a Pod has of its Node.
func (c *Cluster) release(p *Pod) {
	n := p.node
	if n == nil {
		return
	}
	n.pods = slices.DeleteFunc(n.pods, func(o *Pod) bool { return o == p })
	if !p.Ended() {
		n.free = n.free.plus(p.need)
	}
	p.node = nil
	c.capacity++
}
