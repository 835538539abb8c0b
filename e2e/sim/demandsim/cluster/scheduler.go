package cluster

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// schedule binds pending Pods, the highest priority and then the oldest first.
func (c *Cluster) schedule(now time.Time) {
	c.daemons(now)
	var queue []*Pod
	for _, p := range c.pods {
		if p.Pending() && p.tried != c.capacity {
			queue = append(queue, p)
		}
	}
	slices.SortStableFunc(queue, func(a, b *Pod) int { return cmp.Compare(b.priority(), a.priority()) })
	for _, p := range queue {
		if p.Owner.failed == c.capacity {
			p.tried = c.capacity
			c.unschedulable(p, now)
			continue // another Pod of the template was just tried
		}
		if n := c.place(p); n != nil {
			c.bind(p, n, now)
			continue
		}
		c.unschedulable(p, now)
		if !c.preempt(p, now) {
			p.tried, p.Owner.failed = c.capacity, c.capacity
		}
	}
}

// daemons makes the Pods of daemons that Nodes lack.
func (c *Cluster) daemons(now time.Time) {
	for _, w := range c.workloads {
		if !w.Daemon {
			continue
		}
		for _, n := range c.nodes {
			if n.admits(&w.Template.Spec, true) && !slices.ContainsFunc(n.pods, func(p *Pod) bool { return p.Owner == w }) {
				c.bind(c.make(w, now), n, now)
			}
		}
	}
}

func (p *Pod) priority() int32 {
	if p.Object.Spec.Priority == nil {
		return 0
	}
	return *p.Object.Spec.Priority
}

// place is the Node with the best score among those that the Pod fits on, the one that joined
// first among equals; nil if it fits on none.
func (c *Cluster) place(p *Pod) (best *Node) {
	top := int64(-1)
	for _, n := range c.nodes {
		if !p.need.fits(n.free) || !n.admits(&p.Object.Spec, false) || !c.agrees(p, n) {
			continue
		}
		if s := n.score(p.need); s > top {
			best, top = n, s
		}
	}
	return best
}

// score is the share of CPU and memory that is free with the Pod, from 0 to 2000.
func (n *Node) score(need Vector) (score int64) {
	all := VectorOf(n.Object.Status.Allocatable)
	for d := range 2 {
		if all[d] > 0 {
			score += (n.free[d] - need[d]) * 1000 / all[d]
		}
	}
	return score
}

// agrees is true where other Pods allow the Pod on a Node.
func (c *Cluster) agrees(p *Pod, n *Node) bool {
	for _, t := range p.Owner.shape.apart {
		if c.count(t, n.Object.Labels[t.key]) > 0 {
			return false
		}
	}
	for _, o := range c.nodes {
		for _, other := range o.pods {
			for _, t := range other.Owner.shape.apart {
				if value, ok := n.Object.Labels[t.key]; ok && !other.Ended() && o.Object.Labels[t.key] == value && t.selector.Matches(set(p)) {
					return false
				}
			}
		}
	}
	for _, t := range p.Owner.shape.affinity {
		value, ok := n.Object.Labels[t.key]
		if !ok || c.count(t, value) == 0 && (c.anywhere(t) || !t.selector.Matches(set(p))) {
			return false
		}
	}
	for _, s := range p.Owner.shape.spread {
		value, ok := n.Object.Labels[s.key]
		if !ok || c.count(s.term, value)+1-c.least(p, s.term) > s.skew {
			return false
		}
	}
	return true
}

// count is how many Pods that the term selects are in a domain.
func (c *Cluster) count(t term, domain string) (count int) {
	for _, n := range c.nodes {
		if value, ok := n.Object.Labels[t.key]; !ok || value != domain {
			continue
		}
		for _, p := range n.pods {
			if !p.Ended() && t.selector.Matches(set(p)) {
				count++
			}
		}
	}
	return count
}

func (c *Cluster) anywhere(t term) bool {
	return slices.ContainsFunc(c.nodes, func(n *Node) bool {
		return slices.ContainsFunc(n.pods, func(p *Pod) bool { return !p.Ended() && t.selector.Matches(set(p)) })
	})
}

// least is the count in the domain that has fewest, of those with a Node that the Pod selects.
func (c *Cluster) least(p *Pod, t term) int {
	fewest, seen := -1, map[string]bool{}
	for _, n := range c.nodes {
		value, ok := n.Object.Labels[t.key]
		if !ok || seen[value] || !Selects(&p.Object.Spec, n.Object.Labels) {
			continue
		}
		seen[value] = true
		if k := c.count(t, value); fewest < 0 || k < fewest {
			fewest = k
		}
	}
	return max(fewest, 0)
}

func (c *Cluster) bind(p *Pod, n *Node, now time.Time) {
	p.node, p.BoundAt = n, now
	n.pods, n.free = append(n.pods, p), n.free.minus(p.need)
	c.edit(p, func(o *corev1.Pod) {
		o.Spec.NodeName, o.Status.Phase = n.Object.Name, corev1.PodRunning
		setScheduled(o, corev1.ConditionTrue, "", now)
	})
	if p.Owner.RunsFor > 0 {
		p.endsAt = now.Add(p.Owner.RunsFor)
	}
	if p.Owner.shape.linked {
		c.capacity++ // others may fit now that it is here
	}
}

// unschedulable sets the condition by which others learn that the Pod fits nowhere.
func (c *Cluster) unschedulable(p *Pod, now time.Time) {
	for _, s := range p.Object.Status.Conditions {
		if s.Type == corev1.PodScheduled && s.Status == corev1.ConditionFalse {
			return
		}
	}
	c.edit(p, func(o *corev1.Pod) { setScheduled(o, corev1.ConditionFalse, corev1.PodReasonUnschedulable, now) })
}

func setScheduled(o *corev1.Pod, status corev1.ConditionStatus, reason string, now time.Time) {
	o.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: status, Reason: reason, LastTransitionTime: metav1.NewTime(now),
	}}
}

// preempt ends Pods of lower priority on the Node where the highest of them is lowest, and then
// fewest have to go. It says whether the Pod waits for Pods to end.
func (c *Cluster) preempt(p *Pod, now time.Time) bool {
	if n := p.nominated; n != nil && slices.ContainsFunc(n.pods, func(o *Pod) bool { return o.Object.DeletionTimestamp != nil }) {
		return true
	}
	p.nominated = nil
	var best []*Pod
	for _, n := range c.nodes {
		if !n.admits(&p.Object.Spec, false) || !c.agrees(p, n) {
			continue
		}
		victims := n.victims(p)
		if victims == nil {
			continue
		}
		if best == nil || cmp.Or(cmp.Compare(victims[0].priority(), best[0].priority()), cmp.Compare(len(victims), len(best))) < 0 {
			best, p.nominated = victims, n
		}
	}
	for _, v := range best {
		c.Delete(v, now)
	}
	return best != nil
}

// victims are the Pods of lower priority whose end makes the Pod fit, the highest priority
// first; nil if it would not fit.
func (n *Node) victims(p *Pod) (victims []*Pod) {
	lower := slices.DeleteFunc(slices.Clone(n.pods), func(o *Pod) bool {
		return o.Ended() || o.Object.DeletionTimestamp != nil || o.Owner.Daemon || o.priority() >= p.priority()
	})
	slices.SortStableFunc(lower, func(a, b *Pod) int { return cmp.Compare(b.priority(), a.priority()) })
	free := n.free
	for _, o := range lower {
		free = free.plus(o.need)
	}
	if len(lower) == 0 || !p.need.fits(free) {
		return nil
	}
	for _, o := range lower {
		if rest := free.minus(o.need); p.need.fits(rest) {
			free = rest // it may be kept
			continue
		}
		victims = append(victims, o)
	}
	return victims
}

func set(p *Pod) labels.Set { return p.Object.Labels }
